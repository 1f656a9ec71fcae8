//! The state of the deadline policies, and where each head belongs.

use std::collections::BTreeSet;

use units::{DiskTime, Duration, Instant, Share};

use super::blocks::Blocks;
use super::dynamic_slack::{DemandForecast, Rate};
use super::sporadic_server::SporadicServer;
use super::worst_case::WorstCase;
use crate::accounting::usage::{DecayClock, RecentUsage};
use crate::policy::indexed_heap::IndexedHeap;
use crate::request::DeadlineStats;
use crate::stream::Task;
use crate::{Contract, PolicyName, Settings, VolumeId};

/// What a volume is promised.
#[derive(Debug)]
pub(super) enum Guarantee {
    Nothing,
    Stream(Box<Blocks>),
    Reserve(Box<SporadicServer>),
}

#[derive(Debug)]
pub(super) struct Volume {
    pub(super) contract: Contract,
    pub(super) usage: RecentUsage,
    pub(super) promise: Guarantee,
    /// Whether it may release anything.
    pub(super) joined: bool,
    /// The rate at which its task has disk time.
    pub(super) rate: Rate,
    /// What a preemption costs that it may cause.
    pub(super) extra: DiskTime,
    /// The next command at its worst; none if nothing is queued.
    pub(super) head: Option<DiskTime>,
    /// Requests queued, the one in service not counted once its last command is issued.
    pub(super) queued: usize,
    /// What became of the deadlines that it has had.
    pub(super) kept: DeadlineStats,
    /// When its head is due, if it is real time: its key in that order.
    pub(super) due: Option<Instant>,
}

/// On whose account a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargedTo {
    /// The volume's own stream or reserve.
    RealTime,
    /// Best effort in the slack.
    Slack,
    /// Best effort, paid by its server.
    Server,
    /// A reserve that is another since.
    Past,
}

/// The command in the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) volume: VolumeId,
    pub(super) account: ChargedTo,
    pub(super) worst: DiskTime,
    /// Whether its request ends with it; and when that is due, if it is a stream's block.
    pub(super) ends_request: bool,
    pub(super) due: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Deadline {
    pub(super) name: PolicyName,
    pub(super) period: Duration,
    pub(super) preemption: DiskTime,
    pub(super) worst: WorstCase,
    pub(super) volumes: Vec<Volume>,
    /// Released heads, by deadline.
    pub(super) real: BTreeSet<(Instant, VolumeId)>,
    /// When a best-effort head may become real time: its release, or a refill of its reserve.
    pub(super) future: IndexedHeap<Instant>,
    /// Best-effort heads, by usage and by what they take.
    pub(super) shares: IndexedHeap<RecentUsage>,
    pub(super) costs: IndexedHeap<DiskTime>,
    pub(super) clock: DecayClock,
    /// The server of best effort.
    pub(super) server: Option<SporadicServer>,
    /// Who has a promise, and who of them has not joined.
    pub(super) promised: BTreeSet<VolumeId>,
    pub(super) joining: BTreeSet<VolumeId>,
    /// ΔL, and what is left of it since the queue of real-time requests was empty.
    pub(super) slack: DiskTime,
    pub(super) left: DiskTime,
    /// What the present slack was at least, and when.
    pub(super) known: Option<(Instant, DiskTime)>,
    pub(super) burst: bool,
    /// Whose command was the last: the arm is where that one ended.
    pub(super) arm: Option<VolumeId>,
    pub(super) picked: Option<(VolumeId, ChargedTo)>,
    pub(super) served: Option<Served>,
    pub(super) outlook: DemandForecast,
}

impl Deadline {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        let deadlines = settings.deadlines;
        let server = deadlines.best_effort;
        let server = server.and_then(|server| served(server.share, server.period));
        Self {
            name: settings.policy,
            period: settings.period,
            preemption: deadlines.preemption,
            worst: WorstCase::Bound(deadlines.worst),
            volumes: Vec::new(),
            real: BTreeSet::new(),
            future: IndexedHeap::new(),
            shares: IndexedHeap::new(),
            costs: IndexedHeap::new(),
            clock: DecayClock::new(now),
            server,
            promised: BTreeSet::new(),
            joining: BTreeSet::new(),
            slack: DiskTime::ZERO,
            left: DiskTime::ZERO,
            known: None,
            burst: false,
            arm: None,
            picked: None,
            served: None,
            outlook: DemandForecast::default(),
        }
    }

    pub(super) fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    pub(super) fn fresh(&self, contract: Contract) -> Volume {
        let promise = match contract.stream {
            Some(stream) => Guarantee::Stream(Box::new(Blocks::new(stream))),
            None => served(contract.reserve, self.period)
                .map_or(Guarantee::Nothing, |server| Guarantee::Reserve(Box::new(server))),
        };
        Volume {
            contract,
            usage: RecentUsage::default(),
            promise,
            joined: false,
            rate: Rate::of(DiskTime::ZERO, self.period),
            extra: DiskTime::ZERO,
            head: None,
            queued: 0,
            kept: DeadlineStats::default(),
            due: None,
        }
    }

    /// Gives `volume` what it is promised from now on. What it was promised before is over; it joins when it can.
    pub(super) fn renew(&mut self, volume: VolumeId) {
        let entry = &self.volumes[volume.0 as usize];
        let Volume { promise, joined, .. } = self.fresh(entry.contract);
        let entry = &mut self.volumes[volume.0 as usize];
        entry.promise = promise;
        entry.joined = joined;
        if let Some(served) = &mut self.served
            && (served.volume, served.account) == (volume, ChargedTo::RealTime)
        {
            served.account = ChargedTo::Past;
        }
        if let Guarantee::Stream(blocks) = &mut entry.promise {
            blocks.takes_over(entry.queued);
        }
        if let Guarantee::Nothing = entry.promise {
            self.promised.remove(&volume);
            self.joining.remove(&volume);
        } else {
            self.promised.insert(volume);
            self.joining.insert(volume);
        }
        self.charge_preemptions();
        self.known = None;
    }

    /// No released request is queued and the drive is idle: whoever waits for that joins.
    pub(super) fn join(&mut self, now: Instant) {
        self.known = None;
        for volume in core::mem::take(&mut self.joining) {
            let entry = self.volume(volume);
            entry.joined = true;
            if let Guarantee::Stream(blocks) = &mut entry.promise {
                blocks.joins(now);
            }
            self.place(volume, now);
        }
    }

    /// Puts `volume`'s head where it belongs.
    pub(super) fn place(&mut self, volume: VolumeId, now: Instant) {
        // A reserve's job goes on as long as the command is in the drive that it pays for: nobody knows what is left.
        let pays =
            |served: Served| served.volume == volume && served.account == ChargedTo::RealTime;
        let pays = self.served.is_some_and(pays);
        let entry = &mut self.volumes[volume.0 as usize];
        let (due, later) = match &mut entry.promise {
            Guarantee::Nothing => (None, None),
            Guarantee::Stream(blocks) => match blocks.release().filter(|_| entry.head.is_some()) {
                Some(release) if release <= now => (blocks.deadline(), None),
                release => (None, release),
            },
            Guarantee::Reserve(_) if !entry.joined || pays => (None, None),
            Guarantee::Reserve(server) => {
                let due = server.turn(entry.head, now);
                let refill = server.next_refill();
                (due, refill.filter(|_| due.is_none() && entry.head.is_some()))
            }
        };
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
        // A reserve's head is best effort too where there is room: it need not wait until it is due.
        let waits = due.is_some() && matches!(entry.promise, Guarantee::Stream(_));
        if let Some(cost) = entry.head.filter(|_| !waits) {
            self.shares.set(volume, entry.usage);
            self.costs.set(volume, cost);
        } else {
            self.shares.remove(volume);
            self.costs.remove(volume);
        }
    }

    /// What has been waited for has come.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some((_, volume)) = self.future.first().filter(|(at, _)| *at <= now) {
            self.place(volume, now);
        }
    }

    /// When something may change without anybody's doing.
    pub(super) fn comes_next(&self) -> Option<Instant> {
        let future = self.future.first().map(|(at, _)| at);
        let refill = self.server.as_ref().filter(|_| self.costs.len() > 0);
        future.into_iter().chain(refill.and_then(SporadicServer::next_refill)).min()
    }

    /// The best-effort head that goes next if it may take up to `room`: that of whoever has had least, or else the
    /// shortest.
    pub(super) fn best_effort(&self, room: DiskTime) -> Option<VolumeId> {
        let (_, volume) = self.shares.first()?;
        if self.volumes[volume.0 as usize].head.is_some_and(|cost| cost <= room) {
            return Some(volume);
        }
        self.costs.first().filter(|(cost, _)| *cost <= room).map(|(_, volume)| volume)
    }

    pub(super) fn scale_back(&mut self, now: Instant) {
        if let Some(halvings) = self.clock.rescale_due(now) {
            self.shares.rescale(|usage| usage.scaled_back(halvings));
            for volume in &mut self.volumes {
                volume.usage = volume.usage.scaled_back(halvings);
            }
        }
    }

    /// No released request is queued, and the drive is idle.
    pub(super) fn rest(&mut self, now: Instant) {
        if let Some(server) = &mut self.server {
            server.turn(None, now);
        }
        self.left = self.slack;
        self.burst = false;
        if !self.joining.is_empty() {
            self.join(now);
        }
    }
}

/// A server of so much; none of nothing.
fn served(share: Share, period: Duration) -> Option<SporadicServer> {
    let cost = share.of(period);
    // Its longest command is of account for admission alone.
    Task::new(period, cost, cost).ok().map(SporadicServer::new)
}
