//! A bounded latency under the guard: the requests that it covers, and what they may demand.
//!
//! A covered request is real time from its arrival on: it goes ahead of its volume's others, and is
//! served by its deadline at the latest. The selector may serve it earlier, as the rest of the
//! contract says.

use std::collections::VecDeque;

use units::{DiskTime, Instant, Op, Operation};

use crate::policy::deadline::{DemandForecast, Rate, Releases};
use crate::stream::{Granularity, Task};
use crate::{LatencyContract, LatencyStats, Tokens};

#[derive(Debug)]
pub(super) struct Latency {
    contract: LatencyContract,
    /// At which its requests are served.
    granularity: Granularity,
    tokens: Tokens,
    /// The deadlines of the covered requests in the volume's queue: it begins with those.
    queue: VecDeque<Instant>,
    is_active: bool,
    /// The utilization of its task.
    rate: Rate,
    /// The cost of the preemption that a request may cause.
    extra: DiskTime,
    /// The worst case of the volume's next command.
    head: DiskTime,
    /// The disk time that the first covered request has had, if it has begun.
    spent: Option<DiskTime>,
    /// Whether it needs positioning again because it was preempted.
    interrupted: bool,
}

impl Latency {
    /// A bounded latency that covers nothing until it is activated.
    pub(super) fn new(contract: LatencyContract, granularity: Granularity) -> Self {
        let rate = Rate::of(contract.task.at(granularity).cost(), contract.interval());
        Self {
            contract,
            granularity,
            tokens: Tokens::default(),
            queue: VecDeque::new(),
            is_active: false,
            rate,
            extra: DiskTime::ZERO,
            head: DiskTime::ZERO,
            spent: None,
            interrupted: false,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        debug_assert!(self.is_active || self.queue.is_empty(), "nothing is covered before");
        self.is_active
    }

    /// Covers requests from now on.
    pub(super) fn activate(&mut self) {
        assert!(!self.is_active, "a bounded latency is activated once");
        self.is_active = true;
    }

    /// Charges each request `extra` for a preemption.
    pub(super) fn charge(&mut self, extra: DiskTime) {
        debug_assert!(extra >= DiskTime::ZERO, "a positioning takes time");
        self.extra = extra;
        self.rate = Rate::of(self.task().cost() + extra, self.contract.interval());
    }

    /// The task of its requests, as they are served.
    pub(super) fn task(&self) -> Task {
        debug_assert!(self.contract.cost() > DiskTime::ZERO, "a request takes time");
        self.contract.task.at(self.granularity)
    }

    /// Its requests are served at another granularity from now on. None is queued.
    pub(super) fn set_granularity(&mut self, granularity: Granularity) {
        debug_assert!(self.queue.is_empty(), "no covered request is queued");
        self.granularity = granularity;
        self.spent = self.spent.map(|_| DiskTime::ZERO);
    }

    pub(super) fn contract(&self) -> &LatencyContract {
        &self.contract
    }

    /// A request arrives. Returns whether it is covered, and goes ahead of others.
    pub(super) fn covers(
        &mut self,
        operation: &Operation,
        stats: &mut LatencyStats,
        now: Instant,
    ) -> bool {
        let due = self.tokens.take(&self.contract, operation, now).filter(|_| self.is_active);
        if let Some(due) = due {
            debug_assert!(self.queue.back().is_none_or(|last| *last <= due), "in order");
            self.queue.push_back(due);
        } else if matches!(operation.op, Op::Read | Op::Write) {
            stats.count_beyond();
        }
        due.is_some()
    }

    /// The volume's head has this worst case. Returns when it is due, if it is covered.
    pub(super) fn set_head(&mut self, head: Option<DiskTime>) -> Option<Instant> {
        debug_assert!(head.is_some() || self.queue.is_empty(), "a covered request is queued");
        self.head = head.unwrap_or_default();
        self.due()
    }

    /// When the first covered request is due.
    pub(super) fn due(&self) -> Option<Instant> {
        debug_assert!(self.spent.is_none() || !self.queue.is_empty(), "what has begun is queued");
        self.queue.front().copied()
    }

    /// A command of the first covered request is dispatched, `ends`: its last one. Returns its
    /// deadline then.
    pub(super) fn on_dispatch(&mut self, ends: bool) -> Option<Instant> {
        if !ends {
            return None;
        }
        (self.spent, self.interrupted) = (None, false);
        let due = self.queue.pop_front();
        debug_assert!(self.queue.front().is_none_or(|next| Some(*next) >= due), "in order");
        due
    }

    /// The first covered request has had the service time `took` and goes on. A return positioning,
    /// if there was one, is not part of the admitted cost and took at most `preemption`.
    pub(super) fn on_partial_service(&mut self, took: DiskTime, preemption: DiskTime) {
        let back = core::mem::take(&mut self.interrupted);
        let return_cost = if back { preemption } else { DiskTime::ZERO };
        let spent = self.spent.unwrap_or_default();
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        self.spent = Some(spent + (took - return_cost).max(DiskTime::ZERO));
    }

    /// Another volume is served now. Returns whether that interrupts a covered request.
    pub(super) fn preempt(&mut self) -> bool {
        debug_assert!(self.spent.is_none() || !self.queue.is_empty(), "what has begun is queued");
        self.interrupted = self.spent.is_some();
        self.interrupted
    }

    /// Whether the first covered request has begun.
    pub(super) fn is_begun(&self) -> bool {
        self.spent.is_some()
    }

    /// Adds what the covered requests, and those that may arrive from now on, demand.
    pub(super) fn forecast(
        &self,
        forecast: &mut DemandForecast,
        preemption: DiskTime,
        now: Instant,
    ) {
        debug_assert!(self.is_active, "a bounded latency demands nothing before");
        let cost = self.task().cost();
        let return_cost = if self.interrupted { preemption } else { DiskTime::ZERO };
        let mut rest = (cost - self.spent.unwrap_or_default() + return_cost).max(self.head);
        for due in &self.queue {
            forecast.add_pending(*due, rest + self.extra);
            rest = cost;
        }
        let releases = Releases {
            at_once: self.tokens.available(&self.contract, now),
            first: self.tokens.next_arrival(&self.contract, now),
            period: self.contract.interval(),
            deadline: self.contract.within(),
            cost: cost + self.extra,
            rate: self.rate,
        };
        forecast.add_releases(releases, now);
    }
}
