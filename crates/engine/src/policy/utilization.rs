//! Shares of disk time (RTAS 2008 §2–3).
//!
//! Each volume has a reserve bucket and, if its limit is under the whole, a limit bucket; both fill at their
//! share of wall time and hold one period's worth. A command is debited with an estimate when it goes to the
//! drive and corrected when it completes. A volume's head has as deadline the instant at which the reserve
//! bucket can pay for it. Volumes at their limit or with nothing queued are out; among the rest the earliest
//! deadline that has come goes first; when none has, there is slack, and the volume with the lowest recent
//! usage goes. The limit caps what is taken out of the slack: a head that the reserve can pay for is never out.
//!
//! ```text
//!             queued           limit spent
//!   (empty) ─────────▶ ready ◀────────────▶ throttled        ready: in `slack` order by usage, and
//!                                                             in `deadlines` if it has a reserve
//! ```
//!
//! What the paper says in words (§2.2: "sufficiently coarse granularity that inter-stream seeks are
//! minimized") is here a *batch*: a volume with more to do keeps the arm for what its reserve earns in a period, less
//! what its last batch overran, so that a round of everybody takes one period; out of the slack, for the batch that is
//! set, or half of it off a sequential run. It gives the arm up earlier if it has sunk one period under its reserve
//! beside one who is due. Of those whose deadlines are alike, who has waited for longest goes ([`super::turns`]). What the
//! way back takes is shared by all ([`super::ways`]).
//! A batch that was begun out of the slack is not broken off when somebody becomes due in it: it is over soon
//! enough, and then everybody who is due goes first. Inside a batch the disk waits a moment for the client of a sequential run that has been quick to
//! send the next request (`linger`), and charges it for that; one failure and it waits no more until the client
//! is quick again.
//!
//! Invariants: a reserve bucket's level is within ±(one period's worth) but for the debt of its own commands
//! in service; time out of the slack never takes it below −(one period's worth); Σ over volumes of what is
//! charged, with the ways back that wait to be, is the disk's busy time.

use units::{DiskTime, Duration, Instant, Lba, Operation};

use super::indexed_heap::IndexedHeap;
use super::interface::{Dispatch, DispatchRecord, Pick, Policy};
use super::round_robin::RoundRobin;
use super::switch_costs::{Charge, Positioning, SwitchCosts};
use crate::accounting::bucket::{Bucket, SignedInstant};
use crate::accounting::estimate::{Estimates, Estimator, is_sequential};
use crate::accounting::usage::{DecayClock, RecentUsage};
use crate::{Contract, Settings, VolumeId, Weight};

/// The smallest amount of disk time: a limit bucket that holds so much lets a volume in.
const ANYTHING: DiskTime = DiskTime::from_nanos(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Ready,
    Throttled,
}

/// Where a volume stands at a moment.
#[derive(Clone, Copy, Debug)]
enum Eligibility {
    /// Nothing is queued.
    Empty,
    /// At its limit, until then.
    Throttled(SignedInstant),
    /// Its reserve pays for its head then: the deadline.
    Due(SignedInstant),
    /// It has no reserve, and may have slack.
    Unpromised,
}

/// With many volumes each is cold when its turn comes: it lies in two lines of cache, without the limit that few
/// have.
#[derive(Debug)]
#[repr(align(128))]
struct Volume {
    weight: Weight,
    reserve: Bucket,
    limit: Option<Box<Bucket>>,
    usage: RecentUsage,
    state: State,
    /// Whether the head goes on where the volume's last command ended.
    sequential: bool,
    /// Whether its next request has come within `linger` of its last completion, the last time it mattered.
    quick: bool,
    /// Whether its last command went on a run.
    in_run: bool,
    running: u32,
    /// By how much its last batch passed its length: the next one is so much shorter.
    overrun: DiskTime,
    /// What its commands take while it has the arm, on the mean; nothing if that is not known.
    usual: DiskTime,
    /// Whether it had more to do when the arm was taken from it.
    interrupted: bool,
    last_end: Option<Lba>,
    /// The beginning if there was none: nobody is waited for before his first command.
    last_completion: Instant,
}

const _: () = assert!(size_of::<Volume>() == 128);

/// Who has the arm, and how much disk time the batch has spent.
#[derive(Clone, Copy, Debug)]
struct Batch {
    volume: VolumeId,
    /// Whether nobody was due when it began.
    slack: bool,
    spent: DiskTime,
    /// What its last command took.
    last: DiskTime,
    lingering: bool,
    /// Whether its volume goes on with a run that was interrupted, and has not been on its way back yet.
    returning: bool,
}

/// The utilization scheduler.
#[derive(Debug)]
pub(crate) struct Utilization {
    period: Duration,
    batch_max: DiskTime,
    linger: Duration,
    /// The constants, for what a head must have saved up.
    estimates: Estimates,
    estimator: Estimator,
    volumes: Vec<Volume>,
    /// Ready volumes with a reserve, by the deadline of their head.
    deadlines: IndexedHeap<SignedInstant>,
    /// Ready volumes, by recent usage.
    slack: IndexedHeap<RecentUsage>,
    /// Throttled volumes, by when their limit lets them in again.
    throttled: IndexedHeap<SignedInstant>,
    weights: DecayClock,
    batch: Option<Batch>,
    turns: RoundRobin,
    ways: SwitchCosts,
}

impl Volume {
    /// Whether it goes on with a run, as far as can be known.
    fn goes_on_running(&self) -> bool {
        if self.state == State::Empty { self.in_run } else { self.sequential }
    }
}

impl Utilization {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            period: settings.period,
            batch_max: settings.batch.into(),
            linger: settings.linger,
            estimates: settings.estimates,
            estimator: Estimator::new(&settings.estimates),
            volumes: Vec::new(),
            deadlines: IndexedHeap::new(),
            slack: IndexedHeap::new(),
            throttled: IndexedHeap::new(),
            weights: DecayClock::new(now),
            batch: None,
            turns: RoundRobin::new(),
            ways: SwitchCosts::new(settings),
        }
    }

    /// The disk time of a batch.
    fn batch(&self, sequential: bool) -> DiskTime {
        if sequential {
            self.batch_max
        } else {
            DiskTime::from_nanos(self.batch_max.as_nanos() / 2)
        }
    }

    /// The disk time for which `volume` keeps the arm: what its reserve earns in a period, so that in a round of
    /// everybody each has had its share; out of the slack, or where that is too short to be worth a seek, a batch.
    fn length(&self, volume: VolumeId, slack: bool) -> DiskTime {
        let entry = &self.volumes[volume.0 as usize];
        let batch = self.batch(entry.goes_on_running());
        // A drive without ways back has no batches: whose deadline comes first goes next.
        if slack || entry.reserve.is_none() || self.batch_max == DiskTime::ZERO {
            return batch;
        }
        let least = DiskTime::from_nanos(batch.as_nanos() / 2);
        entry.reserve.cap().max(least) - entry.overrun
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    fn limit(&self, contract: Contract, now: Instant) -> Option<Box<Bucket>> {
        // A limit of the whole limits nothing. Any other begins empty: nobody is owed the right to exceed.
        (contract.limit < units::Share::ALL)
            .then(|| Box::new(Bucket::new(contract.limit, self.period, DiskTime::ZERO, now)))
    }

    fn fresh(&self, contract: Contract, now: Instant) -> Volume {
        Volume {
            weight: contract.weight,
            // As if it had been idle for long: one period's worth is there at a start, never more.
            reserve: Bucket::full(contract.reserve, self.period, now),
            limit: self.limit(contract, now),
            usage: RecentUsage::default(),
            state: State::Empty,
            sequential: false,
            quick: false,
            in_run: false,
            running: 0,
            overrun: DiskTime::ZERO,
            usual: DiskTime::ZERO,
            interrupted: false,
            last_end: None,
            last_completion: Instant::ZERO,
        }
    }

    /// Puts `volume` where its queue, its buckets and its batch say it belongs.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        let standing = self.standing(volume, now);
        let put =
            |order: &mut IndexedHeap<SignedInstant>, moment: Option<SignedInstant>| match moment {
                Some(moment) => order.set(volume, moment),
                None => order.remove(volume),
            };
        let (due, throttled) = match standing {
            Eligibility::Empty | Eligibility::Unpromised => (None, None),
            Eligibility::Due(moment) => (Some(moment), None),
            Eligibility::Throttled(moment) => (None, Some(moment)),
        };
        put(&mut self.deadlines, due);
        put(&mut self.throttled, throttled);
        let entry = &mut self.volumes[volume.0 as usize];
        entry.state = match standing {
            Eligibility::Empty => State::Empty,
            Eligibility::Throttled(_) => State::Throttled,
            Eligibility::Due(_) | Eligibility::Unpromised => State::Ready,
        };
        if entry.state == State::Ready {
            self.slack.set(volume, entry.usage);
        } else {
            self.slack.remove(volume);
        }
    }

    fn standing(&mut self, volume: VolumeId, now: Instant) -> Eligibility {
        let holds = self.batch.is_some_and(|batch| batch.volume == volume);
        let estimates = self.estimates;
        let entry = self.volume(volume);
        entry.reserve.work(entry.state != State::Empty || entry.running > 0, now);
        if entry.state == State::Empty {
            return Eligibility::Empty;
        }
        let cost = estimates.of(entry.sequential && holds);
        let deadline = entry.reserve.holds_at(cost);
        let owed = deadline.is_some() && entry.reserve.level(now) >= cost;
        // The limit caps what a volume takes out of the slack (§3): its reserve is its own.
        if let Some(limit) = &mut entry.limit
            && !owed
            && limit.level(now) < ANYTHING
        {
            let moment = limit.holds_at(ANYTHING).expect("a limit is above nothing");
            return Eligibility::Throttled(
                deadline.map_or(moment, |deadline| deadline.min(moment)),
            );
        }
        deadline.map_or(Eligibility::Unpromised, Eligibility::Due)
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

    /// Who of those that are due goes next. Without batches each command is a turn, and deadlines alone decide.
    fn turn(&mut self, now: Instant) -> Option<VolumeId> {
        if self.batch_max == DiskTime::ZERO {
            return self.due(now);
        }
        self.turns.next(&mut self.deadlines, self.period, now)
    }

    /// Whether what `volume` takes now comes out of the slack: nobody is due, or nobody was when its batch began.
    /// Who has become due since was paid up then, and goes next.
    fn is_slack(&self, volume: VolumeId, now: Instant) -> bool {
        let begun = self.batch.filter(|batch| batch.volume == volume);
        begun.is_some_and(|batch| batch.slack) || self.due(now).is_none()
    }

    /// Whether the volume that has the arm keeps it: with a command, or with the promise of one.
    fn go_on(&mut self, running: usize, now: Instant) -> Option<Pick> {
        let Batch { volume, slack, spent, last, .. } = self.batch?;
        let linger = self.linger;
        let batch = self.length(volume, slack);
        let somebody_due = self.due(now).is_some();
        let entry = self.volume(volume);
        let has_reserve = !entry.reserve.is_none();
        // Who lives on slack has sunk long ago; that is a debt only for a batch that was begun on the reserve.
        let sunk = !slack && has_reserve && entry.reserve.level(now) <= -entry.reserve.cap();
        // Whichever is nearer, with the next command or without.
        let over = spent + DiskTime::from_nanos(last.as_nanos() / 2) >= batch;
        if over {
            entry.overrun = if slack { DiskTime::ZERO } else { spent - batch };
        }
        if over || sunk && somebody_due {
            return None;
        }
        match entry.state {
            State::Ready => Some(Pick::Volume(volume)),
            State::Empty if entry.in_run && entry.quick && running == 0 => {
                let until = entry.last_completion + linger;
                (now < until && self.slack.len() > 0).then_some(Pick::Wait(until))
            }
            _ => None,
        }
    }

    /// Takes the arm from the volume that has it.
    fn end_batch(&mut self, now: Instant) {
        if let Some(Batch { volume, .. }) = self.batch.take() {
            let entry = self.volume(volume);
            entry.interrupted = entry.state == State::Ready;
            self.place(volume, now);
        }
    }

    /// How `volume`, whose head goes now, comes to the arm. Who goes before its turn comes of itself, and its turn, with
    /// the way back that this will take, is still to come.
    fn way(&mut self, volume: VolumeId, urgent: bool) -> Positioning {
        let holder = self.batch.filter(|batch| batch.volume == volume);
        let entry = self.volume(volume);
        if urgent && holder.is_none() {
            return Positioning::OwnCost;
        }
        let interrupted = core::mem::take(&mut entry.interrupted);
        let returning = holder.is_some_and(|batch| batch.returning);
        match (holder, interrupted) {
            _ if entry.sequential && (interrupted || returning) => {
                Positioning::ReturnToSequentialRun
            }
            (_, true) => Positioning::ReturnCost,
            (Some(_), false) => Positioning::Continues,
            (None, false) => Positioning::OwnCost,
        }
    }

    /// Whose command went to the drive has the arm, and pays for it. Who goes before its turn leaves the arm to whom it
    /// had, and leaves that one a way back.
    fn give_arm(&mut self, (volume, urgent): (VolumeId, bool), ticket: DispatchRecord) {
        let DispatchRecord { estimate, slack, way, .. } = ticket;
        let returning = way == Positioning::ReturnToSequentialRun;
        match &mut self.batch {
            Some(batch) if batch.volume == volume => {
                batch.spent += estimate;
                batch.returning |= returning;
            }
            Some(batch) if urgent => {
                batch.lingering = false;
                let holder = &mut self.volumes[batch.volume.0 as usize];
                holder.interrupted = holder.state == State::Ready;
            }
            None if urgent => {}
            _ => {
                self.turns.begun(volume);
                let last = DiskTime::ZERO;
                let spent = estimate;
                self.batch =
                    Some(Batch { volume, slack, spent, last, lingering: false, returning });
            }
        }
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

impl Policy for Utilization {
    fn add(&mut self, contract: Contract, now: Instant) {
        let fresh = self.fresh(contract, now);
        self.volumes.push(fresh);
        self.turns.add();
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        assert_eq!(self.volume(volume).state, State::Empty, "a volume leaves with nothing queued");
        if self.batch.is_some_and(|batch| batch.volume == volume) {
            self.end_batch(now);
        }
        self.turns.reset_volume(volume);
        *self.volume(volume) = self.fresh(contract, now);
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        let period = settings.period;
        (self.period, self.batch_max) = (period, settings.batch.into());
        self.ways.change_settings(settings);
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
        entry.usage = entry.usage.reweighed(entry.weight, contract.weight);
        entry.weight = contract.weight;
        entry.reserve.change(contract.reserve, period, now);
        match (&mut entry.limit, fresh) {
            (Some(limit), Some(_)) => limit.change(contract.limit, period, now),
            (limit, fresh) => *limit = fresh,
        }
        self.place(volume, now);
    }

    fn queued(&mut self, volume: VolumeId, _: &Operation, head: Option<&Operation>, now: Instant) {
        let linger = self.linger;
        let holds = self.batch.is_some_and(|batch| batch.volume == volume);
        let entry = self.volume(volume);
        let Some(head) = head else { return };
        entry.quick = entry.running > 0 || now.since(entry.last_completion) <= linger;
        entry.sequential = is_sequential(head, entry.last_end);
        entry.state = State::Ready;
        if holds && let Some(batch) = &mut self.batch {
            batch.lingering = false;
        }
        self.place(volume, now);
    }

    fn pick(&mut self, running: usize, now: Instant) -> Pick {
        self.scale_back(now);
        self.release(now);
        if let Some(pick) = self.go_on(running, now) {
            if let (Pick::Wait(_), Some(batch)) = (pick, &mut self.batch) {
                batch.lingering = true;
            }
            return pick;
        }
        if self.slack.len() > 0 {
            self.end_batch(now);
        }
        if let Some(volume) = self.turn(now).or(self.slack.first().map(|(_, volume)| volume)) {
            // Asked here rather than at the dispatch: with many volumes this one is cold, and comes in while the
            // engine fetches the request.
            assert_eq!(self.volume(volume).state, State::Ready, "only a ready volume is picked");
            return Pick::Volume(volume);
        }
        self.throttled.first().map_or(Pick::Nothing, |(moment, _)| Pick::Wait(moment.instant()))
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let volume = dispatch.volume;
        let holds = self.batch.is_some_and(|batch| batch.volume == volume);
        let entry = &self.volumes[volume.0 as usize];
        let in_run = entry.sequential && holds && !entry.interrupted;
        let (estimate, class) = self.estimator.dispatch(dispatch.command, in_run);
        // Who goes before its turn has none that began on slack: it pays as soon as somebody is due.
        let nobody_due = self.due(now).is_none();
        let slack = if dispatch.urgent { nobody_due } else { self.is_slack(volume, now) };
        let way = self.way(volume, dispatch.urgent);
        let entry = self.volume(volume);
        let ticket = DispatchRecord { estimate, slack, class, way };
        // The rest of a request that nobody may preempt goes on though its volume has come to its limit meanwhile.
        assert_ne!(entry.state, State::Empty, "a volume that goes has something to do");
        entry.reserve.take(ticket.estimate, now);
        if let Some(limit) = &mut entry.limit {
            limit.take(ticket.estimate, now);
        }
        entry.running += 1;
        entry.in_run = entry.sequential;
        if !dispatch.command.extent.is_empty() {
            entry.last_end = Some(dispatch.command.extent.end());
        }
        entry.sequential = dispatch.next.is_some_and(|next| is_sequential(next, entry.last_end));
        if dispatch.next.is_none() {
            entry.state = State::Empty;
        }
        self.give_arm((volume, dispatch.urgent), ticket);
        self.place(volume, now);
        ticket
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        ticket: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        self.scale_back(now);
        let DispatchRecord { estimate, slack, class, way } = ticket;
        self.estimator.learn(class, took);
        let usual = &mut self.volumes[volume.0 as usize].usual;
        let Charge { amount: actual, was_way } = self.ways.charge(way, took, usual);
        if let Some(batch) = &mut self.batch
            && batch.volume == volume
        {
            batch.spent += actual - estimate;
            batch.last = took;
            batch.returning &= !was_way;
        }
        let entry = &mut self.volumes[volume.0 as usize];
        entry.running -= 1;
        entry.last_completion = now;
        entry.usage.spend((actual, entry.weight), now, &self.weights);
        if slack {
            entry.reserve.settle_slack(estimate, actual, now);
        } else {
            entry.reserve.take(actual - estimate, now);
        }
        if let Some(limit) = &mut entry.limit {
            limit.take(actual - estimate, now);
        }
        self.place(volume, now);
        actual
    }

    fn uncharged(&self) -> DiskTime {
        self.ways.uncharged()
    }

    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.release(now);
        self.volume(volume).state == State::Ready
    }

    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        Some(self.volume(volume).reserve.level(now))
    }

    fn anticipating(&self) -> Option<VolumeId> {
        self.batch.filter(|batch| batch.lingering).map(|batch| batch.volume)
    }

    fn lingered(&mut self, volume: VolumeId, waited: DiskTime, now: Instant) {
        let slack = self.is_slack(volume, now);
        let entry = &mut self.volumes[volume.0 as usize];
        entry.usage.spend((waited, entry.weight), now, &self.weights);
        if slack {
            entry.reserve.settle_slack(DiskTime::ZERO, waited, now);
        } else {
            entry.reserve.take(waited, now);
        }
        if let Some(limit) = &mut entry.limit {
            limit.take(waited, now);
        }
        if let Some(batch) = &mut self.batch
            && batch.volume == volume
        {
            batch.spent += waited;
        }
        self.place(volume, now);
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            let (ready, throttled) = (entry.state == State::Ready, entry.state == State::Throttled);
            assert_eq!(
                self.slack.contains(volume),
                ready,
                "ready volumes are in the order of usage"
            );
            assert_eq!(
                self.throttled.contains(volume),
                throttled,
                "throttled volumes wait their time"
            );
            let promised = ready && !entry.reserve.is_none();
            assert_eq!(self.deadlines.contains(volume), promised, "a promise has a deadline");
        }
    }
}
