//! Checks that a volume received its reserve, and under `spindle` that it is worth what it is to a
//! client that pauses.
//!
//! A client that pauses is compared with the same requests on a disk of its own that serves it with
//! its reserve alone, as a guaranteed-rate server is (Goyal, Lam and Vin, 1995): as long as that
//! disk would not have been idle, the volume has received the reserve's part of the time, less the
//! bound. What the volume had received when its client paused says how long that disk is busy.

use engine::{Contract, ContractUnit, Engine, Execution, PolicyName, Settings, VolumeId};
use units::{DiskTime, Duration, Instant, Share};

/// Checks one volume's reserve: of disk time, or of a nominal rate, in which each command counts as
/// the time that it takes at this rate.
#[derive(Debug, Default)]
pub(crate) struct ReserveOracle {
    reserve: Share,
    /// The stretch of time that is checked.
    since: Option<Stretch>,
    /// Whether the volume has no request in the engine, so that the stretch may be over.
    pauses: bool,
    pub(crate) checked: u64,
    /// The checks of stretches in which the client paused.
    pub(crate) checked_pausing: u64,
}

/// A stretch of time in which a disk that serves the volume with its reserve alone would always
/// have had a request, up to now.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: Instant,
    /// What the volume had been charged when it began.
    received: DiskTime,
    /// The debt of its bucket then beyond one period's worth: time that it used before its
    /// reserve was lowered, or its period.
    debt: DiskTime,
    /// Whether the volume had no request in between.
    paused: bool,
}

impl ReserveOracle {
    /// The checks start again with the volume's present contract.
    pub(crate) fn restart(&mut self, engine: &Engine, volume: VolumeId) {
        self.reserve = engine.contract(volume).reserve;
        (self.since, self.pauses) = (None, false);
    }

    /// Records that the volume has fewer requests in the engine than [`least_requests`].
    pub(crate) fn on_idle(&mut self, settings: &Settings) {
        if is_kept_to_pausing(settings) {
            self.pauses = true;
        } else {
            self.since = None;
        }
    }

    /// Records that the volume has [`least_requests`] in the engine again, before the engine is
    /// given the last of them.
    pub(crate) fn on_request(
        &mut self,
        engine: &Engine,
        volume: VolumeId,
        settings: &Settings,
        now: Instant,
    ) {
        if !core::mem::take(&mut self.pauses) {
            return;
        }
        let Some(stretch) = &mut self.since else { return };
        let served = received(engine, volume, settings) - stretch.received;
        if served >= self.reserve.of(now.since(stretch.from)) {
            stretch.paused = true;
        } else {
            self.since = None;
        }
    }

    /// Checks the volume at `terms.now`. `backlogged` states whether it has at least
    /// [`least_requests`].
    ///
    /// # Panics
    /// When the volume received less than its reserve by more than the bound.
    pub(crate) fn check(
        &mut self,
        engine: &mut Engine,
        volume: VolumeId,
        backlogged: bool,
        terms: ReserveTerms<'_>,
    ) {
        let ReserveTerms { settings, longest, now, .. } = terms;
        let received = received(engine, volume, settings);
        if self.pauses {
            return;
        }
        if !backlogged || self.reserve.is_none() {
            self.since = None;
            return;
        }
        let Some(Stretch { from, received: received_then, debt, paused }) = self.since else {
            let level = engine.balance(volume, now).unwrap_or_default();
            let debt = (-level - self.reserve.of(settings.period)).max(DiskTime::ZERO);
            self.since = Some(Stretch { from: now, received, debt, paused: false });
            return;
        };
        let stretch = now.since(from);
        if stretch < settings.period * 2 || !terms.promises() {
            return;
        }
        self.checked += 1;
        self.checked_pausing += u64::from(paused);
        // Two periods' worth may be missing: the volume's debt when the stretch began, and its
        // credit now. The bound adds what the reserve earns while each other volume has one batch
        // (no batch takes a bucket further than one period's worth below zero, so all of them
        // together take two periods at most), the estimate that the bucket must hold before a
        // dispatch, and the commands in service.
        let others = u64::try_from(engine.volumes()).expect("volumes are few") - 1;
        let batches = (settings.batch * others).min(settings.period * 2) + longest * others;
        // And what the reserve earns while high-priority volumes spend their credit.
        let before = settings.period * 2 + batches + terms.burst;
        let (before, streams) = beside_streams(engine, before);
        let estimates = DiskTime::from_nanos(
            settings.estimates.random.as_nanos().saturating_mul(i64::from(settings.depth)),
        );
        let lent = self.reserve.of(before) + estimates + debt;
        let in_service = DiskTime::from(longest * (1 + u64::from(settings.depth)));
        let owed = self.reserve.of(stretch) - lent - in_service - streams;
        assert!(
            received - received_then >= owed,
            "at {now}: volume {} with a reserve of {} received {} in {stretch}, {owed} was due",
            volume.0,
            self.reserve,
            received - received_then,
        );
    }
}

/// Whether a reserve is kept to a client that pauses: the volume has quanta of its own, and what it
/// is owed is not lost with a pause.
fn is_kept_to_pausing(settings: &Settings) -> bool {
    settings.policy == PolicyName::Spindle && settings.batch > Duration::ZERO
}

/// With how many requests a volume is served as its reserve says: with one where it has quanta of
/// its own, else with as many as the drive takes at a time, as with fewer it cannot fill its share
/// of the places.
pub(crate) fn least_requests(settings: &Settings) -> u32 {
    if is_kept_to_pausing(settings) { 1 } else { settings.depth }
}

/// What the volume has received in the unit of its contract.
fn received(engine: &Engine, volume: VolumeId, settings: &Settings) -> DiskTime {
    let usage = engine.usage(volume);
    match settings.policy.contract_unit() {
        // It is served as if its commands had waited.
        ContractUnit::DiskTime => usage.disk_time + engine.lent(volume),
        ContractUnit::NominalRate => {
            let requests = i64::try_from(usage.requests).unwrap_or(i64::MAX);
            DiskTime::from_nanos(settings.nominal_cost.as_nanos().saturating_mul(requests))
        }
    }
}

/// How long `time` of other volumes takes beside the streams, and what streams may take on top of
/// their utilization: two blocks each, one released before a stretch of time and one in it.
fn beside_streams(engine: &Engine, time: Duration) -> (Duration, DiskTime) {
    let Some(tasks) = engine.tasks() else { return (time, DiskTime::ZERO) };
    let left = 1_000_000_000 - tasks.utilization().ppb().min(999_999_999);
    let nanos = u128::from(time.as_nanos()) * 1_000_000_000 / u128::from(left);
    let longer = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    let blocks: DiskTime = tasks.iter().map(|(_, task)| task.cost() + task.cost()).sum();
    (longer.min(BURST_MAX), blocks)
}

/// What the bound of the reserve oracle depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReserveTerms<'a> {
    pub(crate) settings: &'a Settings,
    /// The longest time from a command's dispatch to its completion.
    pub(crate) longest: Duration,
    /// The longest time that the drive spent on a command: to its completion from its dispatch, or
    /// from the completion before if that is later.
    pub(crate) service_longest: Duration,
    /// How long high-priority volumes can occupy the disk: see [`burst`].
    pub(crate) burst: Duration,
    pub(crate) now: Instant,
}

impl ReserveTerms<'_> {
    /// Whether a backlogged volume is promised its reserve. A nominal rate is kept if no command
    /// takes longer than at this rate; a request is one command unless it is split.
    fn promises(&self) -> bool {
        let settings = self.settings;
        match settings.policy.contract_unit() {
            ContractUnit::DiskTime => settings.policy.guarantees_reserves(),
            ContractUnit::NominalRate => {
                DiskTime::from(self.service_longest) <= settings.nominal_cost
                    && settings.execution == (Execution::Whole { split: None })
            }
        }
    }
}

/// How long high-priority volumes with these contracts can occupy the disk without a break.
///
/// They are served first and are admitted with their limits, so in the long run they use no more
/// than these. Their credit, at most one period's worth of reserve and of limit, comes on top. The
/// burst lasts until the share of the other volumes has made up for it.
pub(crate) fn burst(high: impl Iterator<Item = Contract>, period: Duration) -> Duration {
    let (mut credit, mut rest) = (DiskTime::ZERO, Share::ALL);
    for contract in high {
        credit += contract.reserve.of(period) + contract.limit.of(period);
        rest = rest.saturating_sub(contract.limit);
    }
    // With no share left no other volume has a reserve that could be missed.
    let nanos = u128::from(credit.as_nanos().unsigned_abs()) * u128::from(Share::ALL.ppb());
    let nanos = nanos / u128::from(rest.ppb().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).min(BURST_MAX.as_nanos()))
}

/// The upper bound of a burst: one day.
const BURST_MAX: Duration = Duration::from_secs(86_400);
