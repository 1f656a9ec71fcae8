//! Shares of a rate of commands, reserved by the worst case: the throughput scheduler that Zygaria
//! (RTAS 2008 §3 and §4.2) compares itself with.
//!
//! The disk is taken to serve a fixed number of commands a second whatever they are, its *nominal
//! rate*; a reserve is a share of that rate. Every command therefore costs the same, one nominal
//! command, which is known before its dispatch: nothing is estimated and nothing corrected.
//! Everything else is as under `utilization` ([`super::share`]): a bucket per volume that fills at
//! its reserve, one for its limit, the earliest deadline that has passed first, and slack for the
//! volume with the fewest recent commands. There are no batches: many commands are in flight (20 in
//! RTAS 2008), and the drive orders them.
//!
//! The policy is a baseline for comparison. A nominal rate that any command can keep is a hundredth
//! of what a sequential stream could have, so most of the disk is slack, which no volume has
//! reserved.
//!
//! Invariant: a reserve bucket's level is within ±(one period's worth) but for a command in
//! service; slack never takes it below −(one period's worth).

use units::{DiskTime, Duration, Instant, Operation};

use super::interface::{Dispatch, DispatchRecord, Pick, Policy};
use super::share::{ShareAccount, ShareOrders, State};
use crate::limits::DEPTH_MAX;
use crate::{Contract, Settings, VolumeId};

#[derive(Debug)]
struct Volume {
    /// In nominal commands, as the time that each takes at the nominal rate.
    account: ShareAccount,
    running: u32,
}

/// The throughput scheduler.
#[derive(Debug)]
pub(crate) struct Throughput {
    period: Duration,
    /// The cost of one command: a second divided by the nominal rate.
    cost: DiskTime,
    volumes: Vec<Volume>,
    orders: ShareOrders,
}

impl Throughput {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        assert!(settings.nominal_cost > DiskTime::ZERO, "a nominal command has a cost");
        Self {
            period: settings.period,
            cost: settings.nominal_cost,
            volumes: Vec::new(),
            orders: ShareOrders::new(now),
        }
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    /// Enters `volume` into the orders that its queue and its buckets call for.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        let entry = &mut self.volumes[volume.0 as usize];
        let eligibility =
            entry.account.eligibility((self.cost, Instant::ZERO), entry.running > 0, now);
        self.orders.place(volume, eligibility, &mut entry.account);
    }

    /// Makes the volumes eligible whose limit, or whose reserve, has disk time for them again.
    fn release(&mut self, now: Instant) {
        while let Some(volume) = self.orders.next_released(now) {
            self.place(volume, now);
        }
    }

    fn scale_back(&mut self, now: Instant) {
        let Some(halvings) = self.orders.rescale_due(now) else { return };
        for volume in &mut self.volumes {
            volume.account.scale_back(halvings);
        }
    }
}

impl Policy for Throughput {
    fn add_volume(&mut self, contract: Contract, now: Instant) {
        let account = ShareAccount::new(contract, self.period, now);
        self.volumes.push(Volume { account, running: 0 });
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let account = ShareAccount::new(contract, self.period, now);
        let entry = self.volume(volume);
        assert_eq!(entry.account.state(), State::Empty, "a removed volume has no request");
        assert_eq!(entry.running, 0, "a removed volume has no command in flight");
        *entry = Volume { account, running: 0 };
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        debug_assert!(self.cost <= settings.period.into(), "a bucket holds a nominal command");
        self.period = settings.period;
        for index in 0..self.volumes.len() {
            self.volumes[index].account.change_period(settings.period, now);
            self.place(VolumeId(u32::try_from(index).expect("VOLUMES_MAX fits")), now);
        }
    }

    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let period = self.period;
        self.volume(volume).account.change_contract(contract, period, now);
        self.place(volume, now);
    }

    fn queued(&mut self, volume: VolumeId, _: &Operation, head: Option<&Operation>, now: Instant) {
        if head.is_some() {
            self.volume(volume).account.set_ready();
            self.place(volume, now);
        }
    }

    fn pick(&mut self, _: usize, now: Instant) -> Pick {
        self.scale_back(now);
        self.release(now);
        if let Some(volume) = self.orders.due(now).or(self.orders.least_used()) {
            let state = self.volume(volume).account.state();
            debug_assert_eq!(state, State::Ready, "only a ready volume is picked");
            return Pick::Volume(volume);
        }
        self.orders.next_release().map_or(Pick::Nothing, Pick::Wait)
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let (volume, cost) = (dispatch.volume, self.cost);
        let from_slack = self.orders.due(now).is_none();
        let entry = &mut self.volumes[volume.0 as usize];
        // A non-preemptible request goes on even if its volume has reached its limit since.
        assert_ne!(entry.account.state(), State::Empty, "a dispatched volume has a head");
        let slack_debt = from_slack.then(|| entry.account.reserve_cap());
        entry.account.settle(slack_debt, (DiskTime::ZERO, cost), now);
        entry.account.spend(cost, now, &self.orders.clock);
        entry.running += 1;
        debug_assert!(entry.running <= DEPTH_MAX, "commands in flight are bounded");
        if dispatch.next.is_none() {
            entry.account.set_empty();
        }
        self.place(volume, now);
        DispatchRecord::new(cost, from_slack)
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        record: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        assert_eq!(record.estimate, self.cost, "every command costs one nominal command");
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        let entry = self.volume(volume);
        assert!(entry.running > 0, "a completed command was dispatched");
        entry.running -= 1;
        self.place(volume, now);
        took
    }

    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.release(now);
        self.volume(volume).account.state() == State::Ready
    }

    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        Some(self.volume(volume).account.reserve_level(now))
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            self.orders.invariants_of(volume, &entry.account);
            assert!(entry.running <= DEPTH_MAX, "commands in flight are bounded");
        }
    }
}
