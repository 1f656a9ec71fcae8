//! Shares of a rate of commands, reserved by the worst case (RTAS 2008 §3 and §4.2): the paper's older driver.
//!
//! The disk is taken to serve so many commands a second whatever they are, its *nominal rate*; a reserve is a share of
//! that rate. Every command therefore costs the same, one nominal command, which is known before it is sent: nothing
//! is estimated and nothing put right. All the rest is as under `utilization`: a bucket a volume that fills at its
//! reserve, one for its limit, the earliest deadline that has come first, and slack for whoever has had the fewest
//! commands lately. There are no batches: many commands are inside the drive at a time (20 in the paper), and what
//! orders them is the drive.
//!
//! It is here to be compared with. A nominal rate that any command can keep is a hundredth of what a sequential
//! stream could have, so most of the disk is slack, and nobody has reserved that.
//!
//! Invariant: a reserve bucket's level is within ±(one period's worth) but for a command in service; time out of the
//! slack never takes it below −(one period's worth).

use units::{DiskTime, Duration, Instant, Operation};

use super::indexed_heap::IndexedHeap;
use super::interface::{Dispatch, DispatchRecord, Pick, Policy};
use crate::accounting::bucket::{Bucket, SignedInstant};
use crate::accounting::usage::{DecayClock, RecentUsage};
use crate::{Contract, Settings, VolumeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Ready,
    Throttled,
}

#[derive(Debug)]
struct Volume {
    contract: Contract,
    /// In nominal commands, as the time that each takes at the nominal rate.
    reserve: Bucket,
    limit: Option<Bucket>,
    usage: RecentUsage,
    state: State,
    running: u32,
}

/// The throughput scheduler.
#[derive(Debug)]
pub(crate) struct Throughput {
    period: Duration,
    /// One command: a second divided by the nominal rate.
    unit: DiskTime,
    volumes: Vec<Volume>,
    /// Ready volumes with a reserve, by the deadline of their head.
    deadlines: IndexedHeap<SignedInstant>,
    /// Ready volumes, by recent usage.
    slack: IndexedHeap<RecentUsage>,
    /// Throttled volumes, by when their limit, or their reserve, lets them in again.
    throttled: IndexedHeap<SignedInstant>,
    weights: DecayClock,
}

impl Throughput {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            period: settings.period,
            unit: settings.nominal_cost,
            volumes: Vec::new(),
            deadlines: IndexedHeap::new(),
            slack: IndexedHeap::new(),
            throttled: IndexedHeap::new(),
            weights: DecayClock::new(now),
        }
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    fn limit(&self, contract: Contract, now: Instant) -> Option<Bucket> {
        (contract.limit < units::Share::ALL)
            .then(|| Bucket::new(contract.limit, self.period, DiskTime::ZERO, now))
    }

    fn fresh(&self, contract: Contract, now: Instant) -> Volume {
        let limit = self.limit(contract, now);
        let reserve = Bucket::full(contract.reserve, self.period, now);
        let (usage, state) = (RecentUsage::default(), State::Empty);
        Volume { contract, reserve, limit, usage, state, running: 0 }
    }

    /// Puts `volume` into the orders to which its queue and its buckets say it belongs.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        let unit = self.unit;
        let entry = self.volume(volume);
        entry.reserve.work(entry.state != State::Empty || entry.running > 0, now);
        let (mut deadline, mut barred) = (None, None);
        if entry.state != State::Empty {
            deadline = entry.reserve.holds_at(unit);
            let owed = deadline.is_some() && entry.reserve.level(now) >= unit;
            // The limit caps what is taken out of the slack; the reserve is the volume's own.
            if let Some(limit) = &mut entry.limit
                && !owed
                && limit.level(now) < ANYTHING
            {
                barred = Some(limit.holds_at(ANYTHING).expect("a limit is above nothing"));
            }
            entry.state = if barred.is_some() { State::Throttled } else { State::Ready };
        }
        let (state, usage) = (entry.state, entry.usage);
        let set =
            |order: &mut IndexedHeap<SignedInstant>, moment: Option<SignedInstant>| match moment {
                Some(moment) => order.set(volume, moment),
                None => order.remove(volume),
            };
        let comes =
            |barred: SignedInstant| deadline.map_or(barred, |deadline| deadline.min(barred));
        set(&mut self.throttled, barred.map(comes));
        set(&mut self.deadlines, deadline.filter(|_| state == State::Ready));
        if state == State::Ready {
            self.slack.set(volume, usage);
        } else {
            self.slack.remove(volume);
        }
    }

    /// Lets in the volumes whose limit, or whose reserve, has something for them again.
    fn release(&mut self, now: Instant) {
        while let Some((moment, volume)) = self.throttled.first() {
            if moment > SignedInstant::at(now) {
                return;
            }
            self.place(volume, now);
        }
    }

    fn due(&self, now: Instant) -> Option<VolumeId> {
        let (moment, volume) = self.deadlines.first()?;
        (moment <= SignedInstant::at(now)).then_some(volume)
    }

    fn scale_back(&mut self, now: Instant) {
        if let Some(halvings) = self.weights.turn(now) {
            self.slack.rescale(|usage| usage.scaled_back(halvings));
            for volume in &mut self.volumes {
                volume.usage = volume.usage.scaled_back(halvings);
            }
        }
    }
}

/// The smallest amount: a limit bucket that holds so much lets a volume in.
const ANYTHING: DiskTime = DiskTime::from_nanos(1);

impl Policy for Throughput {
    fn add(&mut self, contract: Contract, now: Instant) {
        let fresh = self.fresh(contract, now);
        self.volumes.push(fresh);
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        assert_eq!(self.volume(volume).state, State::Empty, "a volume leaves with nothing queued");
        *self.volume(volume) = self.fresh(contract, now);
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        let period = settings.period;
        self.period = period;
        for index in 0..self.volumes.len() {
            let entry = &mut self.volumes[index];
            entry.reserve.change_period(period, now);
            if let Some(limit) = &mut entry.limit {
                limit.change_period(period, now);
            }
            self.place(VolumeId(u32::try_from(index).expect("VOLUMES_MAX fits")), now);
        }
    }

    fn change(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let (period, fresh) = (self.period, self.limit(contract, now));
        let entry = self.volume(volume);
        entry.usage = entry.usage.reweighed(entry.contract.weight, contract.weight);
        entry.contract = contract;
        entry.reserve.change(contract.reserve, period, now);
        match (&mut entry.limit, fresh) {
            (Some(limit), Some(_)) => limit.change(contract.limit, period, now),
            (limit, fresh) => *limit = fresh,
        }
        self.place(volume, now);
    }

    fn queued(&mut self, volume: VolumeId, _: &Operation, head: Option<&Operation>, now: Instant) {
        if head.is_some() {
            self.volume(volume).state = State::Ready;
            self.place(volume, now);
        }
    }

    fn pick(&mut self, _: usize, now: Instant) -> Pick {
        self.scale_back(now);
        self.release(now);
        if let Some(volume) = self.due(now).or(self.slack.first().map(|(_, volume)| volume)) {
            return Pick::Volume(volume);
        }
        self.throttled.first().map_or(Pick::Nothing, |(moment, _)| Pick::Wait(moment.instant()))
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let (volume, unit) = (dispatch.volume, self.unit);
        let slack = self.due(now).is_none();
        let entry = &mut self.volumes[volume.0 as usize];
        // The rest of a request that nobody may preempt goes on though its volume has come to its limit meanwhile.
        assert_ne!(entry.state, State::Empty, "a volume that goes has something to do");
        if slack {
            entry.reserve.settle_slack(DiskTime::ZERO, unit, now);
        } else {
            entry.reserve.take(unit, now);
        }
        if let Some(limit) = &mut entry.limit {
            limit.take(unit, now);
        }
        entry.usage.spend((unit, entry.contract.weight), now, &self.weights);
        entry.running += 1;
        if dispatch.next.is_none() {
            entry.state = State::Empty;
        }
        self.place(volume, now);
        DispatchRecord::new(unit, slack)
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        _: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        self.volume(volume).running -= 1;
        self.place(volume, now);
        took
    }

    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.release(now);
        self.volume(volume).state == State::Ready
    }

    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        Some(self.volume(volume).reserve.level(now))
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            let (ready, throttled) = (entry.state == State::Ready, entry.state == State::Throttled);
            assert_eq!(
                self.slack.contains(volume),
                ready,
                "ready volumes have a place in the slack"
            );
            assert_eq!(self.throttled.contains(volume), throttled, "throttled volumes wait");
            let promised = ready && !entry.contract.reserve.is_none();
            assert_eq!(self.deadlines.contains(volume), promised, "a promise has a deadline");
        }
    }
}
