//! The state of the deadline policies, and where each head belongs.

use std::collections::BTreeSet;

use units::{DiskTime, Duration, Instant, Share};

use super::blocks::Blocks;
use super::dynamic_slack::Rate;
use super::slack_bound::SlackBound;
use super::sporadic_server::SporadicServer;
use super::worst_case::WorstCase;
use crate::accounting::usage::{DecayClock, RecentUsage};
use crate::policy::indexed_heap::IndexedHeap;
use crate::request::DeadlineStats;
use crate::stream::{Granularity, Task};
use crate::{Contract, PolicyName, Settings, VolumeId};

/// The guarantee of a volume.
#[derive(Debug)]
pub(super) enum Guarantee {
    BestEffort,
    Stream(Box<Blocks>),
    Reserve(Box<SporadicServer>),
}

#[derive(Debug)]
pub(super) struct Volume {
    pub(super) contract: Contract,
    pub(super) usage: RecentUsage,
    pub(super) guarantee: Guarantee,
    /// Whether its guarantee is active: whether it releases requests.
    pub(super) is_active: bool,
    /// The utilization of its task.
    pub(super) rate: Rate,
    /// The cost of the preemption that it may cause.
    pub(super) extra: DiskTime,
    /// The worst case of the next command; `None` if nothing is queued.
    pub(super) head: Option<DiskTime>,
    /// Queued requests. A request counts until its last command is issued.
    pub(super) queued: usize,
    /// The deadlines met and missed.
    pub(super) deadline_stats: DeadlineStats,
    /// The deadline of its head, if it is real time: its key in that order.
    pub(super) due: Option<Instant>,
}

/// What a command is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargedTo {
    /// The volume's own stream or reserve.
    RealTime,
    /// The slack.
    Slack,
    /// The server of best effort.
    Server,
    /// A reserve that has been replaced since.
    Past,
}

/// The command in the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct InService {
    pub(super) volume: VolumeId,
    pub(super) charged_to: ChargedTo,
    pub(super) worst: DiskTime,
    /// Whether its request ends with it, and the deadline, if it is a stream's block.
    pub(super) ends_request: bool,
    pub(super) due: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Deadline {
    pub(super) name: PolicyName,
    pub(super) period: Duration,
    pub(super) worst: WorstCase,
    pub(super) volumes: Vec<Volume>,
    /// Released heads, by deadline.
    pub(super) real: BTreeSet<(Instant, VolumeId)>,
    /// When a best-effort head becomes real time: its release, or a refill of its reserve.
    pub(super) future: IndexedHeap<Instant>,
    /// Best-effort heads, by recent usage and by worst case.
    pub(super) shares: IndexedHeap<RecentUsage>,
    pub(super) costs: IndexedHeap<DiskTime>,
    pub(super) clock: DecayClock,
    /// The server of best effort.
    pub(super) server: Option<SporadicServer>,
    /// The volumes with a guarantee, and those of them that are not active yet.
    pub(super) guaranteed: BTreeSet<VolumeId>,
    pub(super) activating: BTreeSet<VolumeId>,
    pub(super) slack: SlackBound,
    /// The cost of a preemption at `Chunks`, and the granularity.
    pub(super) preemption: DiskTime,
    pub(super) granularity: Granularity,
    pub(super) burst: bool,
    pub(super) picked: Option<(VolumeId, ChargedTo)>,
    pub(super) in_service: Option<InService>,
}

impl Deadline {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        let deadlines = settings.deadlines;
        assert!(settings.policy.has_deadlines(), "the policy keeps deadlines");
        let server = deadlines.best_effort;
        let server = server.and_then(|server| server_of(server.share, server.period));
        Self {
            name: settings.policy,
            period: settings.period,
            worst: WorstCase::Bound(deadlines.worst),
            volumes: Vec::new(),
            real: BTreeSet::new(),
            future: IndexedHeap::new(),
            shares: IndexedHeap::new(),
            costs: IndexedHeap::new(),
            clock: DecayClock::new(now),
            server,
            guaranteed: BTreeSet::new(),
            activating: BTreeSet::new(),
            slack: SlackBound::new(deadlines.preemption),
            preemption: deadlines.preemption,
            granularity: Granularity::Chunks,
            burst: false,
            picked: None,
            in_service: None,
        }
    }

    pub(super) fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    pub(super) fn fresh(&self, contract: Contract) -> Volume {
        let guarantee = match contract.stream {
            Some(stream) => Guarantee::Stream(Box::new(Blocks::new(stream, self.granularity))),
            None => server_of(contract.reserve, self.period)
                .map_or(Guarantee::BestEffort, |server| Guarantee::Reserve(Box::new(server))),
        };
        Volume {
            contract,
            usage: RecentUsage::default(),
            guarantee,
            is_active: false,
            rate: Rate::of(DiskTime::ZERO, self.period),
            extra: DiskTime::ZERO,
            head: None,
            queued: 0,
            deadline_stats: DeadlineStats::default(),
            due: None,
        }
    }

    /// Gives `volume` the guarantee of its contract. The previous one is over; the new one is
    /// activated when possible.
    pub(super) fn replace_guarantee(&mut self, volume: VolumeId) {
        let entry = &self.volumes[volume.0 as usize];
        let Volume { guarantee, is_active, .. } = self.fresh(entry.contract);
        assert!(!is_active, "a new guarantee is activated later");
        let entry = &mut self.volumes[volume.0 as usize];
        entry.guarantee = guarantee;
        entry.is_active = is_active;
        if let Some(in_service) = &mut self.in_service
            && (in_service.volume, in_service.charged_to) == (volume, ChargedTo::RealTime)
        {
            in_service.charged_to = ChargedTo::Past;
        }
        if let Guarantee::Stream(blocks) = &mut entry.guarantee {
            blocks.rebuild(entry.queued);
        }
        if let Guarantee::BestEffort = entry.guarantee {
            self.guaranteed.remove(&volume);
            self.activating.remove(&volume);
        } else {
            self.guaranteed.insert(volume);
            self.activating.insert(volume);
        }
        debug_assert!(self.activating.is_subset(&self.guaranteed), "guarantees are activated");
        self.charge_preemptions();
        self.slack.forget();
    }

    /// No released request is queued and the drive is idle: activates what waits for that.
    pub(super) fn activate(&mut self, now: Instant) {
        self.slack.forget();
        for volume in core::mem::take(&mut self.activating) {
            let entry = self.volume(volume);
            debug_assert!(!entry.is_active, "a guarantee is activated once");
            entry.is_active = true;
            if let Guarantee::Stream(blocks) = &mut entry.guarantee {
                blocks.activate(now);
            }
            self.place(volume, now);
        }
        debug_assert!(self.activating.is_empty(), "everything that waited is active");
    }

    /// Enters `volume`'s head into the orders that it belongs to.
    pub(super) fn place(&mut self, volume: VolumeId, now: Instant) {
        // A reserve's job continues while the command that it pays for is in the drive: its rest is
        // unknown.
        let pays = |in_service: InService| {
            in_service.volume == volume && in_service.charged_to == ChargedTo::RealTime
        };
        let pays = self.in_service.is_some_and(pays);
        let entry = &mut self.volumes[volume.0 as usize];
        let (due, later) = match &mut entry.guarantee {
            Guarantee::BestEffort => (None, None),
            Guarantee::Stream(blocks) => match blocks.release().filter(|_| entry.head.is_some()) {
                Some(release) if release <= now => (blocks.deadline(), None),
                release => (None, release),
            },
            Guarantee::Reserve(_) if !entry.is_active || pays => (None, None),
            Guarantee::Reserve(server) => {
                let due = server.update_job(entry.head, now);
                let refill = server.next_refill();
                (due, refill.filter(|_| due.is_none() && entry.head.is_some()))
            }
        };
        debug_assert!(later.is_none_or(|at| at > now), "a later release is in the future");
        debug_assert!(due.is_none() || entry.head.is_some(), "what is due is queued");
        if entry.due != due {
            if let Some(before) = entry.due {
                self.real.remove(&(before, volume));
            }
            if let Some(due) = due {
                self.real.insert((due, volume));
            }
            entry.due = due;
        }
        match later {
            Some(later) => self.future.set(volume, later),
            None => self.future.remove(volume),
        }
        // A reserve's head is best effort too within the slack: it need not wait for its release.
        let waits = due.is_some() && matches!(entry.guarantee, Guarantee::Stream(_));
        if let Some(cost) = entry.head.filter(|_| !waits) {
            self.shares.set(volume, entry.usage);
            self.costs.set(volume, cost);
        } else {
            self.shares.remove(volume);
            self.costs.remove(volume);
        }
        debug_assert_eq!(self.shares.len(), self.costs.len(), "a head is in both orders");
        debug_assert!(self.real.len() <= self.guaranteed.len(), "a deadline is a guarantee's");
    }

    /// Moves the heads that are released by `now`.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some((_, volume)) = self.future.first().filter(|(at, _)| *at <= now) {
            self.place(volume, now);
        }
    }

    /// When the state may change without an event.
    pub(super) fn next_change(&self) -> Option<Instant> {
        let future = self.future.first().map(|(at, _)| at);
        let refill = self.server.as_ref().filter(|_| self.costs.len() > 0);
        future.into_iter().chain(refill.and_then(SporadicServer::next_refill)).min()
    }

    /// The best-effort head that goes next if it may take up to `slack`: that of the least recently
    /// used volume, or else the shortest.
    pub(super) fn best_effort(&self, slack: DiskTime) -> Option<VolumeId> {
        debug_assert_eq!(self.shares.len(), self.costs.len(), "a head is in both orders");
        let (_, volume) = self.shares.first()?;
        if self.volumes[volume.0 as usize].head.is_some_and(|cost| cost <= slack) {
            return Some(volume);
        }
        self.costs.first().filter(|(cost, _)| *cost <= slack).map(|(_, volume)| volume)
    }

    pub(super) fn scale_back(&mut self, now: Instant) {
        if let Some(halvings) = self.clock.rescale_due(now) {
            self.shares.rescale(|usage| usage.scaled_back(halvings));
            for volume in &mut self.volumes {
                volume.usage = volume.usage.scaled_back(halvings);
            }
        }
    }

    /// No released request is queued, and the drive is idle: the slack starts again.
    pub(super) fn on_idle(&mut self, now: Instant) {
        if let Some(server) = &mut self.server {
            server.update_job(None, now);
        }
        assert!(self.real.is_empty(), "no released request is queued");
        assert!(self.in_service.is_none(), "the drive is idle");
        self.slack.restart();
        self.burst = false;
        if !self.activating.is_empty() {
            self.activate(now);
        }
    }
}

/// A server with this share; `None` if it amounts to nothing.
fn server_of(share: Share, period: Duration) -> Option<SporadicServer> {
    let cost = share.of(period);
    debug_assert!(cost <= period.into(), "a share is at most the whole");
    // Its longest command matters for admission alone.
    Task::new(period, cost, cost).ok().map(SporadicServer::new)
}
