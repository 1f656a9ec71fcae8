//! Shares of disk time: the utilization scheduler of Zygaria (RTAS 2008 §2–3).
//!
//! Buckets, deadlines and orders are those of [`super::share`]. A command is debited with an
//! estimate at its dispatch and corrected at its completion. Among the eligible volumes the
//! earliest deadline that has passed goes first; if none has, there is slack, and the volume with
//! the lowest recent usage goes.
//!
//! **Batches.** RTAS 2008 §2.2 asks for "sufficiently coarse granularity that inter-stream seeks
//! are minimized". Here a backlogged volume is served for one *quantum*: the disk time that its
//! reserve accrues in a period, less what its last batch overran, so that one round over all
//! volumes takes one period. Out of the slack a batch has the configured length, or half of it off
//! a sequential run. A batch ends earlier if the volume's bucket has sunk one period below zero
//! while another volume is due. Of the volumes with similar deadlines the least recently served
//! goes ([`super::round_robin`]). The cost of returning to a preempted volume is shared by all
//! ([`super::switch_costs`]).
//!
//! A batch that began out of the slack is not broken off when another volume becomes due: it ends
//! soon enough, and then the due volumes go first. Within a batch the disk idles for a moment
//! (`linger`) for the next request of a sequential run whose client last sent one within `linger`,
//! and charges the volume for it (anticipatory scheduling). After one failure it does not idle for
//! that volume until its client is fast again.
//!
//! Invariants: a reserve bucket's level is within ±(one period's worth) but for the debt of its own
//! commands in service; slack never takes it below −(one period's worth); Σ over volumes of what is
//! charged, with the return costs that are still to be charged, is the disk's busy time.

use units::{DiskTime, Duration, Instant, Lba, Operation};

use super::interface::{Dispatch, DispatchRecord, Pick, Policy};
use super::round_robin::RoundRobin;
use super::share::{Eligibility, ShareAccount, ShareOrders, State};
use super::switch_costs::{Charge, Positioning, SwitchCosts};
use crate::accounting::estimate::{Estimates, Estimator, is_sequential};
use crate::limits::{DEPTH_MAX, LINGER_MAX};
use crate::{Contract, Settings, VolumeId};

/// With many volumes each is cold when it is served: it spans two cache lines, without the limit
/// bucket that few have.
#[derive(Debug)]
#[repr(align(128))]
struct Volume {
    account: ShareAccount,
    /// Whether the head continues where the volume's last command ended.
    sequential: bool,
    /// Whether its next request arrived within `linger` of its last completion, the last time that
    /// this mattered.
    arrives_within_linger: bool,
    /// Whether its last command continued a sequential run.
    in_run: bool,
    running: u32,
    /// By how much its last batch exceeded its quantum: the next one is shorter by that.
    overrun: DiskTime,
    /// The mean service time of its commands within a batch; zero if it is unknown.
    mean_service_time: DiskTime,
    /// Whether it had more to do when its batch ended.
    preempted: bool,
    last_end: Option<Lba>,
    /// The epoch if there was none: no volume is anticipated before its first command.
    last_completion: Instant,
}

const _: () = assert!(size_of::<Volume>() == 128);

impl Volume {
    fn new(account: ShareAccount) -> Self {
        Self {
            account,
            sequential: false,
            arrives_within_linger: false,
            in_run: false,
            running: 0,
            overrun: DiskTime::ZERO,
            mean_service_time: DiskTime::ZERO,
            preempted: false,
            last_end: None,
            last_completion: Instant::ZERO,
        }
    }

    /// Whether it continues a sequential run, as far as is known.
    fn continues_run(&self) -> bool {
        if self.account.state() == State::Empty { self.in_run } else { self.sequential }
    }
}

/// The current volume, and the disk time that its batch has spent.
#[derive(Clone, Copy, Debug)]
struct Batch {
    volume: VolumeId,
    /// Whether no volume was due when it began.
    from_slack: bool,
    spent: DiskTime,
    /// The service time of its last command.
    last: DiskTime,
    lingering: bool,
    /// Whether its volume resumed a sequential run and has not borne its return cost yet.
    returning: bool,
}

/// The utilization scheduler.
#[derive(Debug)]
pub(crate) struct Utilization {
    period: Duration,
    batch_max: DiskTime,
    linger: Duration,
    /// The constants: a head is due when its reserve holds this much.
    estimates: Estimates,
    estimator: Estimator,
    volumes: Vec<Volume>,
    orders: ShareOrders,
    batch: Option<Batch>,
    round_robin: RoundRobin,
    switch_costs: SwitchCosts,
}

impl Utilization {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        assert!(settings.batch <= settings.period, "a batch lasts a period at most");
        assert!(settings.linger <= LINGER_MAX, "lingering is bounded");
        Self {
            period: settings.period,
            batch_max: settings.batch.into(),
            linger: settings.linger,
            estimates: settings.estimates,
            estimator: Estimator::new(&settings.estimates),
            volumes: Vec::new(),
            orders: ShareOrders::new(now),
            batch: None,
            round_robin: RoundRobin::new(),
            switch_costs: SwitchCosts::new(settings),
        }
    }

    /// The length of a batch out of the slack.
    fn slack_batch(&self, sequential: bool) -> DiskTime {
        if sequential {
            self.batch_max
        } else {
            DiskTime::from_nanos(self.batch_max.as_nanos() / 2)
        }
    }

    /// The quantum of `volume`: what its reserve accrues in a period, so that each volume has its
    /// share in one round over all; out of the slack, or where that is too short to be worth a
    /// seek, a batch.
    fn quantum(&self, volume: VolumeId, from_slack: bool) -> DiskTime {
        let entry = &self.volumes[volume.0 as usize];
        let batch = self.slack_batch(entry.continues_run());
        // A drive without positioning costs has no batches: the earliest deadline goes next.
        if from_slack || !entry.account.has_reserve() || self.batch_max == DiskTime::ZERO {
            return batch;
        }
        let least = DiskTime::from_nanos(batch.as_nanos() / 2);
        entry.account.reserve_cap().max(least) - entry.overrun
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    /// The current batch, if it is `volume`'s.
    fn batch_of(&self, volume: VolumeId) -> Option<Batch> {
        self.batch.filter(|batch| batch.volume == volume)
    }

    /// Enters `volume` into the orders that its queue, its buckets and its batch call for.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        let eligibility = self.eligibility(volume, now);
        let account = &mut self.volumes[volume.0 as usize].account;
        self.orders.place(volume, eligibility, account);
    }

    fn eligibility(&mut self, volume: VolumeId, now: Instant) -> Eligibility {
        let is_current = self.batch_of(volume).is_some();
        let entry = &mut self.volumes[volume.0 as usize];
        let cost = self.estimates.of(entry.sequential && is_current);
        entry.account.eligibility((cost, Instant::ZERO), entry.running > 0, now)
    }

    /// Makes the volumes eligible whose limit, or whose reserve, has disk time for them again.
    fn release(&mut self, now: Instant) {
        while let Some(volume) = self.orders.next_released(now) {
            self.place(volume, now);
        }
    }

    /// The due volume that goes next. Without batches every command is a quantum, and deadlines
    /// alone decide.
    fn next_due(&mut self, now: Instant) -> Option<VolumeId> {
        if self.batch_max == DiskTime::ZERO {
            return self.orders.due(now);
        }
        self.round_robin.next(&mut self.orders.deadlines, self.period, now)
    }

    /// Whether what `volume` takes now is slack: no volume is due, or none was when its batch
    /// began. A volume that became due since had no deficit then, and is served next.
    fn is_slack(&self, volume: VolumeId, now: Instant) -> bool {
        self.batch_of(volume).is_some_and(|batch| batch.from_slack)
            || self.orders.due(now).is_none()
    }

    /// Whether the current volume is served further: with a command, or by waiting for one.
    fn continue_batch(&mut self, running: usize, now: Instant) -> Option<Pick> {
        let Batch { volume, from_slack, spent, last, .. } = self.batch?;
        let linger = self.linger;
        let quantum = self.quantum(volume, from_slack);
        let is_other_due = self.orders.due(now).is_some();
        let has_ready = self.orders.has_ready();
        let entry = self.volume(volume);
        // A batch out of the slack may run the bucket down; in a batch on the reserve that is a
        // debt.
        let has_debt = !from_slack
            && entry.account.has_reserve()
            && entry.account.reserve_level(now) <= -entry.account.reserve_cap();
        // The batch ends where it is nearer to its quantum: with the next command or without.
        let is_over = spent + DiskTime::from_nanos(last.as_nanos() / 2) >= quantum;
        if is_over {
            entry.overrun = if from_slack { DiskTime::ZERO } else { spent - quantum };
        }
        if is_over || has_debt && is_other_due {
            return None;
        }
        match entry.account.state() {
            State::Ready => Some(Pick::Volume(volume)),
            State::Empty if entry.in_run && entry.arrives_within_linger && running == 0 => {
                let until = entry.last_completion + linger;
                (now < until && has_ready).then_some(Pick::Wait(until))
            }
            _ => None,
        }
    }

    /// Ends the current batch.
    fn end_batch(&mut self, now: Instant) {
        if let Some(Batch { volume, .. }) = self.batch.take() {
            let entry = self.volume(volume);
            entry.preempted = entry.account.state() == State::Ready;
            self.place(volume, now);
        }
        assert!(self.batch.is_none(), "a batch that has ended is over");
    }

    /// Classifies the positioning of `volume`'s next command. A volume dispatched out of order
    /// because of its priority pays for its own positioning and stays marked as preempted: its
    /// regular quantum, and the shared return cost that goes with it, are still to come.
    fn positioning(&mut self, volume: VolumeId, urgent: bool) -> Positioning {
        let current = self.batch_of(volume);
        let entry = self.volume(volume);
        if urgent && current.is_none() {
            return Positioning::OwnCost;
        }
        let preempted = core::mem::take(&mut entry.preempted);
        let returning = current.is_some_and(|batch| batch.returning);
        match (current, preempted) {
            _ if entry.sequential && (preempted || returning) => Positioning::ReturnToSequentialRun,
            (_, true) => Positioning::ReturnCost,
            (Some(_), false) => Positioning::Continues,
            (None, false) => Positioning::OwnCost,
        }
    }

    /// Charges a dispatched command to the current batch, or starts a batch. A volume that is
    /// served out of order does not end the current batch: the volume that it interrupts resumes
    /// with a shared return cost.
    fn dispatch_in_batch(&mut self, (volume, urgent): (VolumeId, bool), record: DispatchRecord) {
        let DispatchRecord { estimate, from_slack, positioning, .. } = record;
        debug_assert!(estimate >= DiskTime::ZERO, "an estimate is not negative: {estimate}");
        let returning = positioning == Positioning::ReturnToSequentialRun;
        match &mut self.batch {
            Some(batch) if batch.volume == volume => {
                batch.spent += estimate;
                batch.returning |= returning;
            }
            Some(batch) if urgent => {
                batch.lingering = false;
                let current = &mut self.volumes[batch.volume.0 as usize];
                current.preempted = current.account.state() == State::Ready;
            }
            None if urgent => {}
            _ => {
                self.round_robin.started(volume);
                let (spent, last, lingering) = (estimate, DiskTime::ZERO, false);
                self.batch = Some(Batch { volume, from_slack, spent, last, lingering, returning });
            }
        }
        assert!(urgent || self.batch_of(volume).is_some(), "a batch is the dispatched volume's");
    }

    fn scale_back(&mut self, now: Instant) {
        let Some(halvings) = self.orders.rescale_due(now) else { return };
        for volume in &mut self.volumes {
            volume.account.scale_back(halvings);
        }
    }
}

impl Policy for Utilization {
    fn add_volume(&mut self, contract: Contract, now: Instant) {
        self.volumes.push(Volume::new(ShareAccount::new(contract, self.period, now)));
        self.round_robin.add();
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let state = self.volume(volume).account.state();
        assert_eq!(state, State::Empty, "a removed volume has no request");
        assert_eq!(self.volume(volume).running, 0, "nor a command in flight");
        if self.batch_of(volume).is_some() {
            self.end_batch(now);
        }
        self.round_robin.reset(volume);
        *self.volume(volume) = Volume::new(ShareAccount::new(contract, self.period, now));
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        let period = settings.period;
        assert!(settings.batch <= settings.period, "a batch lasts a period at most");
        (self.period, self.batch_max) = (period, settings.batch.into());
        self.switch_costs.change_settings(settings);
        for index in 0..self.volumes.len() {
            self.volumes[index].account.change_period(period, now);
            self.place(VolumeId(u32::try_from(index).expect("VOLUMES_MAX fits")), now);
        }
    }

    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let period = self.period;
        self.volume(volume).account.change_contract(contract, period, now);
        self.place(volume, now);
    }

    fn queued(&mut self, volume: VolumeId, _: &Operation, head: Option<&Operation>, now: Instant) {
        let linger = self.linger;
        let is_current = self.batch_of(volume).is_some();
        let entry = self.volume(volume);
        let Some(head) = head else { return };
        entry.arrives_within_linger =
            entry.running > 0 || now.since(entry.last_completion) <= linger;
        entry.sequential = is_sequential(head, entry.last_end);
        entry.account.set_ready();
        if is_current && let Some(batch) = &mut self.batch {
            batch.lingering = false;
        }
        self.place(volume, now);
    }

    fn pick(&mut self, running: usize, now: Instant) -> Pick {
        self.scale_back(now);
        self.release(now);
        if let Some(pick) = self.continue_batch(running, now) {
            if let (Pick::Wait(_), Some(batch)) = (pick, &mut self.batch) {
                batch.lingering = true;
            }
            return pick;
        }
        if self.orders.has_ready() {
            self.end_batch(now);
        }
        if let Some(volume) = self.next_due(now).or(self.orders.least_used()) {
            // Checked here rather than at the dispatch: with many volumes this one is not in the
            // CPU cache, and is fetched while the engine fetches the request.
            let state = self.volume(volume).account.state();
            assert_eq!(state, State::Ready, "only a ready volume is picked");
            return Pick::Volume(volume);
        }
        self.orders.next_release().map_or(Pick::Nothing, Pick::Wait)
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let volume = dispatch.volume;
        let is_current = self.batch_of(volume).is_some();
        let entry = &self.volumes[volume.0 as usize];
        let in_run = entry.sequential && is_current && !entry.preempted;
        let (estimate, class) = self.estimator.dispatch(dispatch.command, in_run);
        // A volume served out of order has no batch that began on slack: it pays from its reserve
        // as soon as another volume is due.
        let is_none_due = self.orders.due(now).is_none();
        let from_slack = if dispatch.urgent { is_none_due } else { self.is_slack(volume, now) };
        let positioning = self.positioning(volume, dispatch.urgent);
        let entry = self.volume(volume);
        let record =
            DispatchRecord { class, positioning, ..DispatchRecord::new(estimate, from_slack) };
        // A non-preemptible request goes on even if its volume has reached its limit since.
        assert_ne!(entry.account.state(), State::Empty, "a dispatched volume has a head");
        entry.account.debit(estimate, now);
        entry.running += 1;
        debug_assert!(entry.running <= DEPTH_MAX, "commands in flight are bounded");
        entry.in_run = entry.sequential;
        if !dispatch.command.extent.is_empty() {
            entry.last_end = Some(dispatch.command.extent.end());
        }
        entry.sequential = dispatch.next.is_some_and(|next| is_sequential(next, entry.last_end));
        if dispatch.next.is_none() {
            entry.account.set_empty();
        }
        self.dispatch_in_batch((volume, dispatch.urgent), record);
        self.place(volume, now);
        record
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        record: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        self.scale_back(now);
        let DispatchRecord { estimate, from_slack, class, positioning, .. } = record;
        self.estimator.learn(class, took);
        let mean = &mut self.volumes[volume.0 as usize].mean_service_time;
        let Charge { amount: actual, had_return_cost } =
            self.switch_costs.charge(positioning, took, mean);
        if let Some(batch) = &mut self.batch
            && batch.volume == volume
        {
            batch.spent += actual - estimate;
            batch.last = took;
            batch.returning &= !had_return_cost;
        }
        let entry = &mut self.volumes[volume.0 as usize];
        assert!(entry.running > 0, "a completed command was dispatched");
        entry.running -= 1;
        debug_assert!(now >= entry.last_completion, "completions are in order");
        debug_assert!(actual >= DiskTime::ZERO, "a charge is not negative: {actual}");
        entry.last_completion = now;
        entry.account.spend(actual, now, &self.orders.clock);
        let slack_debt = from_slack.then(|| entry.account.reserve_cap());
        entry.account.settle(slack_debt, (estimate, actual), now);
        self.place(volume, now);
        actual
    }

    fn uncharged(&self) -> DiskTime {
        self.switch_costs.uncharged()
    }

    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.release(now);
        self.volume(volume).account.state() == State::Ready
    }

    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        Some(self.volume(volume).account.reserve_level(now))
    }

    fn anticipating(&self) -> Option<VolumeId> {
        self.batch.filter(|batch| batch.lingering).map(|batch| batch.volume)
    }

    fn idle_charged(&mut self, volume: VolumeId, idle: DiskTime, now: Instant) {
        debug_assert!(idle >= DiskTime::ZERO, "idle time is not negative: {idle}");
        let from_slack = self.is_slack(volume, now);
        let entry = &mut self.volumes[volume.0 as usize];
        entry.account.spend(idle, now, &self.orders.clock);
        let slack_debt = from_slack.then(|| entry.account.reserve_cap());
        entry.account.settle(slack_debt, (DiskTime::ZERO, idle), now);
        if let Some(batch) = &mut self.batch
            && batch.volume == volume
        {
            batch.spent += idle;
        }
        self.place(volume, now);
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            self.orders.invariants_of(volume, &entry.account);
            assert!(entry.running <= DEPTH_MAX, "commands in flight are bounded");
        }
        if let Some(batch) = self.batch {
            assert!((batch.volume.0 as usize) < self.volumes.len(), "a batch is a volume's");
            let state = self.volumes[batch.volume.0 as usize].account.state();
            assert!(!batch.lingering || state == State::Empty, "lingering waits for a request");
        }
    }
}
