//! The oracles: what must be true of every run, watched while it runs.
//!
//! | oracle | says |
//! |---|---|
//! | answered once | every request is answered exactly once, and not before its last command is done |
//! | last write wins | a read sees, in each sector, the last write answered before it was sent, or one that overlaps it in time |
//! | work conserved | the disk rests beside queued requests only while it waits for a run's next request or for a limit |
//! | promise kept | at one command at a time, whoever had work for two periods or more got its reserve, less what may be lent |
//! | deadlines met | under a policy that never misses no block of an admitted stream is late |
//! | books | what is charged is the busy time; reserves add up (asked of the engine itself) |
//!
//! A broken oracle panics: the message names the seed's instant, and the run can be repeated from its seed.
//! For speed, data is watched in one sector of [`WATCH_STRIDE`].

use std::collections::BTreeMap;

use engine::stream::Range;
use engine::{Command, Contract, Engine, Kept, PolicyName, Purpose, Settings, VolumeId};
use serde::Serialize;
use units::{DiskTime, Duration, Extent, Instant, Lba, Op, Operation, Share};

/// One sector of so many is watched.
const WATCH_STRIDE: u64 = 64;

/// How much the oracles saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Requests answered exactly once.
    pub answered: u64,
    /// Reads of watched sectors that had been written.
    pub reads_checked: u64,
    /// Moments at which the disk rested while requests were queued, each for a good reason.
    pub rests_checked: u64,
    /// Stretches of two periods or more in which a volume with a reserve always had work.
    pub promises_checked: u64,
    /// Blocks of streams under a policy that never misses, none of them late.
    pub deadlines_checked: u64,
}

/// What a write is known by: its place among all writes of the run. Zero: never written.
type Version = u64;

#[derive(Debug, Default)]
struct Sector {
    /// On the disk now.
    content: Version,
    /// The last write that was answered, and the volume that it came through.
    answered: Version,
    through: Option<VolumeId>,
}

/// A request's data, as far as it is watched.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    version: Version,
    /// For a read: each watched sector with what was known of it when the read was sent.
    sent: Vec<(Lba, Version)>,
    seen: Vec<(Lba, Version)>,
}

/// Watches the data of one disk.
#[derive(Debug, Default)]
pub(crate) struct DataOracle {
    sectors: BTreeMap<Lba, Sector>,
    writes: Version,
    pub(crate) checked: u64,
}

fn watched(extent: Extent) -> impl Iterator<Item = Lba> {
    let first = extent.start.0.next_multiple_of(WATCH_STRIDE);
    (first..extent.end().0).step_by(usize::try_from(WATCH_STRIDE).expect("small")).map(Lba)
}

impl DataOracle {
    pub(crate) fn sent(&mut self, operation: &Operation) -> Watched {
        match operation.op {
            Op::Write | Op::WriteZeroes => {
                self.writes += 1;
                Watched { version: self.writes, ..Watched::default() }
            }
            Op::Read if !self.sectors.is_empty() => {
                let known = |lba: Lba| Some((lba, self.sectors.get(&lba)?.answered));
                let sent = watched(operation.extent).filter_map(known).collect();
                Watched { sent, ..Watched::default() }
            }
            Op::Read | Op::Flush | Op::Trim | Op::Seek => Watched::default(),
        }
    }

    /// A command is done: this is when its data moved.
    pub(crate) fn moved(&mut self, command: &Command, request: &mut Watched) {
        if command.purpose != Purpose::Transfer {
            return;
        }
        match command.operation.op {
            Op::Write | Op::WriteZeroes => {
                for lba in watched(command.operation.extent) {
                    let sector = self.sectors.entry(lba).or_default();
                    // Two doors to one sector keep no order between them: a write that lands behind one which was
                    // answered through the other overlaps it in time, and counts from its landing.
                    let behind = request.version < sector.answered;
                    sector.content = if behind && sector.through != Some(command.volume) {
                        self.writes += 1;
                        self.writes
                    } else {
                        request.version
                    };
                }
            }
            Op::Read if !request.sent.is_empty() => {
                let extent = command.operation.extent;
                let seen =
                    watched(extent).filter_map(|lba| Some((lba, self.sectors.get(&lba)?.content)));
                request.seen.extend(seen);
            }
            Op::Read | Op::Flush | Op::Trim | Op::Seek => {}
        }
    }

    pub(crate) fn answered(
        &mut self,
        operation: &Operation,
        request: &Watched,
        volume: VolumeId,
        now: Instant,
    ) {
        match operation.op {
            Op::Write | Op::WriteZeroes => {
                for lba in watched(operation.extent) {
                    let sector = self.sectors.get_mut(&lba);
                    let sector =
                        sector.unwrap_or_else(|| panic!("at {now}: {lba} was answered unwritten"));
                    if request.version > sector.answered {
                        (sector.answered, sector.through) = (request.version, Some(volume));
                    }
                }
            }
            Op::Read => {
                for (lba, known) in &request.sent {
                    let seen = request.seen.iter().find(|(seen, _)| seen == lba).map(|(_, v)| *v);
                    let seen =
                        seen.unwrap_or_else(|| panic!("at {now}: {lba} was answered unread"));
                    // A later version is one that overlapped the read; an earlier one has been overwritten.
                    assert!(seen >= *known, "at {now}: {lba} read write {seen} after {known}");
                    self.checked += 1;
                }
            }
            Op::Flush | Op::Trim | Op::Seek => {}
        }
    }
}

/// Watches one volume's promise.
#[derive(Debug)]
pub(crate) struct PromiseOracle {
    pub(crate) reserve: Share,
    pub(crate) since: Option<(Instant, DiskTime)>,
    pub(crate) checked: u64,
}

impl PromiseOracle {
    pub(crate) fn new(engine: &Engine, volume: VolumeId) -> Self {
        Self { reserve: engine.contract(volume).reserve, since: None, checked: 0 }
    }

    /// The volume has nothing to do.
    pub(crate) fn rests(&mut self) {
        self.since = None;
    }

    /// Looks at the volume at `now`; `work` says whether it has requests in the engine, `longest` is the
    /// longest command so far.
    pub(crate) fn look(&mut self, engine: &Engine, volume: VolumeId, work: bool, terms: Terms<'_>) {
        let Terms { settings, longest, now, .. } = terms;
        let had = engine.account(volume).disk_time;
        if !work || self.reserve.is_none() {
            self.since = None;
            return;
        }
        let (since, had_then) = *self.since.get_or_insert((now, had));
        let stretch = now.since(since);
        // With several commands in the drive a client with few requests cannot fill its share of them.
        let promised = settings.policy == PolicyName::Utilization && settings.depth == 1;
        if stretch < settings.period * 2 || !promised {
            return;
        }
        self.checked += 1;
        // Two periods' worth may be missing: what it owed when the stretch began, and what it is owed now. On top
        // comes what it earns while each of the others has a batch before it (no batch takes a volume further than
        // one period's worth under nothing, so all of them together take two periods at most), the estimate that
        // it must have saved up, and the commands in service.
        let others = u64::try_from(engine.volumes()).expect("volumes are few") - 1;
        let batches = (settings.batch * others).min(settings.period * 2) + longest * others;
        // And what it earns while volumes of high priority spend what they had saved up.
        let before = settings.period * 2 + batches + terms.burst;
        let lent = self.reserve.of(before) + settings.estimates.random;
        let in_service = DiskTime::from(longest * (1 + u64::from(settings.depth)));
        let owed = self.reserve.of(stretch) - lent - in_service;
        assert!(
            had - had_then >= owed,
            "at {now}: volume {} with a reserve of {} had {} in {stretch}, promised {owed}",
            volume.0,
            self.reserve,
            had - had_then,
        );
    }
}

/// The terms on which a promise is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) longest: Duration,
    /// How long volumes of high priority can keep the disk to themselves: see [`burst`].
    pub(crate) burst: Duration,
    pub(crate) now: Instant,
}

/// How long volumes of high priority, of these contracts, can keep the disk to themselves.
///
/// They go first, and are admitted with their limits: in the long run they take no more of the disk. What they have
/// saved up, at most one period's worth of reserve and of limit, comes on top, and lasts as long as it takes until
/// what the others are left has made up for it.
pub(crate) fn burst(high: impl Iterator<Item = Contract>, period: Duration) -> Duration {
    let (mut saved, mut left) = (DiskTime::ZERO, Share::ALL);
    for contract in high {
        saved += contract.reserve.of(period) + contract.limit.of(period);
        left = left.saturating_sub(contract.limit);
    }
    // With nothing left nobody else has a reserve that could be missed.
    let nanos = u128::from(saved.as_nanos().unsigned_abs()) * u128::from(Share::ALL.ppb());
    let nanos = nanos / u128::from(left.ppb().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).min(BURST_MAX.as_nanos()))
}

/// Longer bursts count as this one: a day.
const BURST_MAX: Duration = Duration::from_secs(86_400);

/// Whether no block of an admitted stream may be late here.
pub(crate) fn never_misses(settings: &Settings) -> bool {
    settings.policy.never_misses() && settings.deadlines.slack_range == Range::All
}

/// Checks that no block of `volume`'s stream has been late.
pub(crate) fn assert_deadlines_kept(kept: Kept, settings: &Settings, volume: &str, now: Instant) {
    assert!(
        kept.missed == 0 || !never_misses(settings),
        "at {now}: a block of {volume} was late by {} under {}",
        kept.lateness_max,
        settings.policy,
    );
}

/// Checks that the engine rests for a good reason: asked when it has nothing to do though requests are queued.
pub(crate) fn assert_rest_is_justified(
    engine: &Engine,
    settings: &Settings,
    limited: bool,
    now: Instant,
) {
    if engine.running() >= settings.depth as usize {
        return;
    }
    let wakeup = engine.next_wakeup();
    if settings.policy.keeps_deadlines() {
        // Best effort that fits into no slack waits until there is some: for somebody's release, or for ever.
        assert!(wakeup.is_none_or(|until| until > now), "at {now}: the engine waits for the past");
        return;
    }
    assert!(wakeup.is_some(), "at {now}: requests are queued, the disk rests, and nobody wakes it");
    let until = wakeup.expect("just asserted");
    assert!(until > now, "at {now}: the engine waits for the past");
    if engine.idles_until() == Some(until) {
        let longest = now + engine.turn() * 2;
        assert!(until <= longest, "at {now}: it idles until {until} for a disk to turn");
        return;
    }
    if !limited {
        let longest = now + settings.linger;
        assert!(until <= longest, "at {now}: the disk rests until {until}, past a linger");
        assert!(engine.running() == 0, "at {now}: it lingers though commands are in the drive");
    }
}
