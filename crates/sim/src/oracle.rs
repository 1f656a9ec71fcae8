//! The oracles: what must be true of every run, watched while it runs.
//!
//! | oracle | says |
//! |---|---|
//! | answered once | every request is answered exactly once, and not before its last command is done |
//! | last write wins | a read sees, in each sector, the last write answered before it was sent, or one that overlaps it in time |
//! | work conserved | the disk rests beside queued requests only while it waits for a run's next request or for a limit |
//! | promise kept | at one command at a time, whoever had work for two periods or more got its reserve, less what may be lent |
//! | books | what is charged is the busy time; reserves add up (asked of the engine itself) |
//!
//! A broken oracle panics: the message names the seed's instant, and the run can be repeated from its seed.
//! For speed, data is watched in one sector of [`WATCH_STRIDE`].

use std::collections::BTreeMap;

use engine::limits::COMMAND_MAX;
use engine::{Command, Engine, Execution, PolicyName, Purpose, Settings, VolumeId};
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
}

/// What a write is known by: its place among all writes of the run. Zero: never written.
type Version = u64;

#[derive(Debug, Default)]
struct Sector {
    /// On the disk now.
    content: Version,
    /// The last write that was answered.
    answered: Version,
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
                    self.sectors.entry(lba).or_default().content = request.version;
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

    pub(crate) fn answered(&mut self, operation: &Operation, request: &Watched, now: Instant) {
        match operation.op {
            Op::Write | Op::WriteZeroes => {
                for lba in watched(operation.extent) {
                    let sector = self.sectors.get_mut(&lba);
                    let sector =
                        sector.unwrap_or_else(|| panic!("at {now}: {lba} was answered unwritten"));
                    sector.answered = sector.answered.max(request.version);
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
    reserve: Share,
    since: Option<(Instant, DiskTime)>,
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
        let Terms { settings, longest, saved, now } = terms;
        // What cannot be preempted is a command, or of a request that is only split the whole.
        let longest = longest * bound_commands(settings.execution);
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
        let lent = self.reserve.of(settings.period * 2 + batches) + settings.estimates.random;
        // Who goes before everybody has a limit, and first of all what that had saved up.
        let lent = lent + saved;
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
    /// What the limits of others of a higher class save up in a period.
    pub(crate) saved: DiskTime,
    pub(crate) now: Instant,
}

/// How many commands go to the drive before anybody else can.
fn bound_commands(execution: Execution) -> u64 {
    match execution {
        Execution::Whole { split: Some(split) } => COMMAND_MAX.0.div_ceil(split.0),
        Execution::Whole { split: None } | Execution::Preemptible(_) => 1,
    }
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
