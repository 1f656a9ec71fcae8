//! The oracles: what must be true of every run, checked while it runs.
//!
//! - Answered once: every request is answered exactly once, after its last command has completed.
//! - Last write wins: a read returns, for each sector, the last write that was answered before the
//!   read was sent, or a write that overlaps the read in time. Writes of one volume are ordered by
//!   when they were sent, and writes of two volumes that share sectors by when they reach the disk,
//!   unless one was answered before the other was sent. So are those of a volume with a bounded
//!   latency, whose requests go ahead of its others.
//! - Flush: on a disk whose writes the host buffers, what a volume had been answered when it sent a
//!   flush is on the medium when the flush is answered, and a forced write is when it is answered.
//! - Work conservation: the disk idles beside queued requests only while it anticipates the next
//!   request of a sequential run, or while a limit holds.
//! - Reserve kept: a volume that was backlogged for two periods or more, with as many requests as
//!   the drive takes at a time, received its reserve, less a stated bound; beside streams, less
//!   what those may take at once.
//! - Worth: under `spindle` the same holds of a client that keeps one request, and of one that
//!   pauses, as long as a disk with the reserve's part of the time would not have been idle.
//! - Deadlines met: under a policy that never misses, no block and no byte of an admitted stream is
//!   late.
//! - Accounting: charged disk time equals busy time, and reserves add up (checked by the engine).
//!
//! A violated oracle panics. The message names the instant, and the run can be repeated from its
//! seed. For speed, data is checked in one sector of every [`WATCH_STRIDE`].

use std::collections::{BTreeMap, BTreeSet};

use engine::stream::SlackRange;
use engine::{Command, DeadlineStats, Engine, Purpose, Settings, VolumeId};
use serde::Serialize;
use units::{Extent, Instant, Lba, Op, Operation};

mod pool;
mod reserve;

pub(crate) use pool::{Content, PoolOracle, Written};
pub(crate) use reserve::{ReserveOracle, ReserveTerms, burst, least_requests};

/// The data oracle watches one sector in each stretch of this length.
const WATCH_STRIDE: u64 = 64;

/// What the oracles have checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OracleCounts {
    /// Requests answered exactly once.
    pub answered: u64,
    /// Reads of watched sectors that had been written.
    pub reads_checked: u64,
    /// Instants at which the disk idled while requests were queued, each with a valid reason.
    pub rests_checked: u64,
    /// Checks of volumes with a reserve that had been backlogged for two periods or more.
    pub promises_checked: u64,
    /// Those of them of volumes whose client had paused in between.
    pub worths_checked: u64,
    /// Blocks of streams under a policy that never misses; none was late.
    pub deadlines_checked: u64,
}

/// The number of a write in the order of all writes of the run.
pub(crate) type Version = u64;
pub(crate) const NEVER_WRITTEN: Version = 0;

#[derive(Debug, Default)]
struct Sector {
    /// The version on the disk now.
    content: Version,
    /// The volume that wrote it, and the version under which that write was sent.
    written: Option<(VolumeId, Version)>,
    /// The last write that was answered.
    answered: Version,
    /// The last forced write that the disk has executed.
    on_medium: Version,
}

/// The watched sectors of one request.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    version: Version,
    /// For a read: each watched sector with its last answered version when the read was sent. For a
    /// flush: each sector of its volume whose last answered version was not on the medium.
    sent: Vec<(Lba, Version)>,
    seen: Vec<(Lba, Version)>,
    /// For a write from a buffer: the version of each watched sector.
    destaged: Option<Vec<(Lba, Version)>>,
}

impl Watched {
    /// What a write from a buffer to the disk writes.
    pub(crate) fn of_destage(versions: Vec<(Lba, Version)>) -> Self {
        Self { destaged: Some(versions), ..Self::default() }
    }

    /// The number of the write.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The write that a read saw in a watched sector.
    pub(crate) fn seen(&self, lba: Lba) -> Version {
        let seen = self.seen.iter().find(|(seen, _)| *seen == lba);
        seen.map_or(NEVER_WRITTEN, |(_, version)| *version)
    }

    /// A read sees these writes in the host's memory, before what the disk has in those sectors.
    pub(crate) fn see_first(&mut self, versions: Vec<(Lba, Version)>) {
        debug_assert!(self.seen.is_empty(), "what is in memory is seen first");
        self.seen = versions;
    }

    /// A read from the host's memory sees this write in each watched sector.
    pub(crate) fn see(&mut self, memory: impl Fn(Lba) -> Version) {
        self.seen.extend(self.sent.iter().map(|(lba, _)| (*lba, memory(*lba))));
    }
}

/// Checks the data of one disk.
#[derive(Debug, Default)]
pub(crate) struct DataOracle {
    sectors: BTreeMap<Lba, Sector>,
    /// The last version that each volume wrote to a sector that another has written since.
    displaced: BTreeMap<(Lba, VolumeId), Version>,
    /// The volumes that have had a bounded latency: two writes of one in the queue have no order.
    unordered: BTreeSet<VolumeId>,
    writes: Version,
    /// Writes that count from when they reached the disk: the number that each got then, and the
    /// one with which it was sent.
    renumbered: BTreeMap<Version, Version>,
    /// Whether the host buffers writes: then those that the disk executes have the order in which
    /// they were sent, where no two volumes share sectors.
    is_buffered: bool,
    /// Of a buffered disk, the sectors whose last answered version is not on the medium.
    volatile: BTreeSet<Lba>,
    /// The sectors that were written there, not forced, since the disk's last flush.
    in_drive: BTreeSet<Lba>,
    pub(crate) checked: u64,
}

/// The sectors of an extent that are watched.
pub(crate) fn watched(extent: Extent) -> impl Iterator<Item = Lba> {
    let first = extent.start.0.next_multiple_of(WATCH_STRIDE);
    (first..extent.end().0).step_by(usize::try_from(WATCH_STRIDE).expect("small")).map(Lba)
}

impl DataOracle {
    /// `is_buffered`: the host buffers writes.
    pub(crate) fn new(is_buffered: bool) -> Self {
        Self { is_buffered, ..Self::default() }
    }

    /// A request of a volume with the sectors `volume` is sent.
    pub(crate) fn sent(&mut self, operation: &Operation, volume: Extent) -> Watched {
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
            Op::Flush => {
                let own = self.volatile.range(volume.start..volume.end());
                let sent = own.map(|lba| (*lba, self.sectors[lba].answered)).collect();
                Watched { sent, ..Watched::default() }
            }
            Op::Read | Op::Trim | Op::Seek => Watched::default(),
        }
    }

    /// The last number of a write.
    pub(crate) fn last(&self) -> Version {
        self.writes
    }

    /// The number with which a write was sent.
    pub(crate) fn sent_as(&self, version: Version) -> Version {
        self.renumbered.get(&version).copied().unwrap_or(version)
    }

    /// What the watched sectors of `extent` that were ever written hold now.
    pub(crate) fn content(&self, extent: Extent) -> impl Iterator<Item = (Lba, Version)> {
        let is_any = !self.sectors.is_empty();
        let all = watched(extent).take_while(move |_| is_any);
        all.filter_map(|lba| Some((lba, self.sectors.get(&lba)?.content)))
    }

    /// Records the data transfer of a completed command.
    pub(crate) fn moved(&mut self, command: &Command, request: &mut Watched) {
        if command.purpose != Purpose::Transfer {
            return;
        }
        match command.operation.op {
            Op::Write | Op::WriteZeroes => {
                for lba in watched(command.operation.extent) {
                    let version = match &request.destaged {
                        Some(versions) => {
                            let of = versions.binary_search_by_key(&lba, |(lba, _)| *lba);
                            versions[of.expect("all of it is held")].1
                        }
                        None => request.version,
                    };
                    self.written(lba, (command.volume, version));
                    if command.operation.fua || !self.is_buffered {
                        self.is_on_medium(lba);
                    } else {
                        self.in_drive.insert(lba);
                    }
                }
            }
            Op::Flush => {
                while let Some(lba) = self.in_drive.pop_first() {
                    self.is_on_medium(lba);
                }
            }
            Op::Read if !request.sent.is_empty() => {
                let extent = command.operation.extent;
                let seen =
                    watched(extent).filter_map(|lba| Some((lba, self.sectors.get(&lba)?.content)));
                request.seen.extend(seen);
            }
            Op::Read | Op::Trim | Op::Seek => {}
        }
    }

    /// What a sector of the disk holds is on the medium.
    fn is_on_medium(&mut self, lba: Lba) {
        let sector = self.sectors.get_mut(&lba).expect("it was written");
        sector.on_medium = sector.on_medium.max(sector.content);
        if sector.on_medium >= sector.answered {
            self.volatile.remove(&lba);
        }
    }

    /// Notes that requests of `volume` may go ahead of others.
    pub(crate) fn set_unordered(&mut self, volume: VolumeId) {
        self.unordered.insert(volume);
    }

    /// The write that was sent as `version` reaches a watched sector of the disk.
    fn written(&mut self, lba: Lba, (volume, version): (VolumeId, Version)) {
        let sector = self.sectors.entry(lba).or_default();
        let own_last = match sector.written {
            Some((writer, last)) if writer == volume => last,
            before => {
                if let Some((writer, last)) = before {
                    self.displaced.insert((lba, writer), last);
                }
                self.displaced.remove(&(lba, volume)).unwrap_or(NEVER_WRITTEN)
            }
        };
        // A write that reaches the disk after a later one of its own volume violates the order, and
        // keeps its version: the next read finds it. One that reaches the disk after a later one of
        // another volume overlaps that one in time, since it is not answered yet: no order was
        // promised, and it counts from when it reaches the disk.
        // A buffered write is answered before it reaches the disk, and so may a later one be.
        let latest = if self.is_buffered { 0 } else { sector.answered };
        let is_overtaken = version < sector.content.max(latest);
        let is_in_order = version >= own_last || self.unordered.contains(&volume);
        sector.content = if is_overtaken && is_in_order {
            self.writes += 1;
            self.renumbered.insert(self.writes, version);
            self.writes
        } else {
            version
        };
        sector.written = Some((volume, version.max(own_last)));
    }

    /// A write from a buffer to the disk has failed: what it would have written is lost, where no
    /// later write was answered.
    pub(crate) fn lost(&mut self, destage: &Watched) {
        for (lba, version) in destage.destaged.iter().flatten() {
            let sector = self.sectors.entry(*lba).or_default();
            if sector.answered == *version {
                sector.answered = NEVER_WRITTEN;
                self.volatile.remove(lba);
            }
        }
    }

    pub(crate) fn answered(&mut self, operation: &Operation, request: &Watched, now: Instant) {
        match operation.op {
            Op::Write | Op::WriteZeroes => {
                for lba in watched(operation.extent) {
                    let sector = self.sectors.entry(lba).or_default();
                    let is_written = sector.written.is_some() || self.is_buffered;
                    assert!(is_written, "at {now}: {lba} was answered but not written");
                    sector.answered = sector.answered.max(request.version);
                    if !self.is_buffered || sector.on_medium >= sector.answered {
                        continue;
                    }
                    // A later write of the same sector may be answered first, and not be there.
                    let is_there = !operation.fua || sector.on_medium >= request.version;
                    assert!(is_there, "at {now}: {lba} was forced and is not on the medium");
                    self.volatile.insert(lba);
                }
            }
            Op::Flush => {
                for (lba, known) in &request.sent {
                    let there = self.sectors[lba].on_medium;
                    assert!(there >= *known, "at {now}: {lba} has {there}, {known} was flushed");
                    self.checked += 1;
                }
            }
            Op::Read => {
                for (lba, known) in &request.sent {
                    let seen = request.seen.iter().find(|(seen, _)| seen == lba).map(|(_, v)| *v);
                    let seen =
                        seen.unwrap_or_else(|| panic!("at {now}: {lba} was answered but not read"));
                    // A later version overlapped the read in time; an earlier one was overwritten.
                    assert!(seen >= *known, "at {now}: {lba} read write {seen} after {known}");
                    self.checked += 1;
                }
            }
            Op::Trim | Op::Seek => {}
        }
    }
}

/// Whether no block of an admitted stream may be late here.
pub(crate) fn never_misses(settings: &Settings) -> bool {
    settings.policy.guarantees_deadlines() && settings.deadlines.slack_range == SlackRange::All
}

/// Checks that no block of `volume`'s stream was late.
pub(crate) fn assert_deadlines_kept(
    kept: DeadlineStats,
    settings: &Settings,
    volume: &str,
    now: Instant,
) {
    assert!(
        kept.missed == 0 || !never_misses(settings),
        "at {now}: a block of {volume} was late by {} under {}",
        kept.max_lateness,
        settings.policy,
    );
    let late = kept.bytes.missed;
    assert!(
        late.0 == 0 || !never_misses(settings),
        "at {now}: {late} of {volume} were late against its bandwidth"
    );
}

/// Checks that the engine idles for a valid reason. Called when it issues no command although
/// requests are queued.
pub(crate) fn assert_idle_is_justified(
    engine: &Engine,
    settings: &Settings,
    limited: bool,
    now: Instant,
) {
    if engine.running() >= settings.depth as usize {
        return;
    }
    if settings.policy.has_exclusive_quanta() && engine.running() > 0 {
        return;
    }
    let wakeup = engine.next_wakeup();
    if engine.tasks().is_some() {
        // Best effort that fits into no slack waits for the next release, if there is one.
        assert!(wakeup.is_none_or(|until| until > now), "at {now}: the engine waits for the past");
        return;
    }
    assert!(
        wakeup.is_some(),
        "at {now}: requests are queued, the disk idles, and no wake-up is set"
    );
    let until = wakeup.expect("just asserted");
    assert!(until > now, "at {now}: the engine waits for the past");
    if engine.rotational_wait_until() == Some(until) {
        let longest = now + engine.rotation_period() * 2;
        assert!(until <= longest, "at {now}: it idles until {until}, longer than two revolutions");
        return;
    }
    if !limited {
        let longest = now + settings.linger;
        assert!(until <= longest, "at {now}: the disk idles until {until}, longer than a linger");
        assert!(engine.running() == 0, "at {now}: it lingers though commands are in the drive");
    }
}

#[cfg(test)]
mod tests {
    use engine::{CommandId, RequestId};
    use units::Sectors;

    use super::*;

    const A: VolumeId = VolumeId(0);
    const B: VolumeId = VolumeId(1);

    fn extent() -> Extent {
        Extent::new(Lba(0), Sectors(8))
    }

    /// The write reaches the disk.
    fn reaches(oracle: &mut DataOracle, volume: VolumeId, request: &mut Watched) {
        let command = Command {
            id: CommandId(0),
            offset: Sectors::ZERO,
            request: RequestId(0),
            volume,
            operation: Operation::write(extent()),
            purpose: Purpose::Transfer,
        };
        oracle.moved(&command, request);
    }

    /// A read that is sent and answered now.
    fn read(oracle: &mut DataOracle) {
        let operation = Operation::read(extent());
        let mut request = oracle.sent(&operation, extent());
        let command = Command {
            id: CommandId(0),
            offset: Sectors::ZERO,
            request: RequestId(0),
            volume: A,
            operation,
            purpose: Purpose::Transfer,
        };
        oracle.moved(&command, &mut request);
        oracle.answered(&operation, &request, Instant::ZERO);
    }

    fn is_answered(oracle: &mut DataOracle, request: &Watched) {
        oracle.answered(&Operation::write(extent()), request, Instant::ZERO);
    }

    #[test]
    fn writes_of_two_volumes_that_overlap_in_time_are_ordered_by_the_disk() {
        let mut oracle = DataOracle::default();
        let operation = Operation::write(extent());
        let (mut first, mut second) =
            (oracle.sent(&operation, extent()), oracle.sent(&operation, extent()));
        // The one that was sent last reaches the disk first, and is answered last.
        reaches(&mut oracle, B, &mut second);
        reaches(&mut oracle, A, &mut first);
        is_answered(&mut oracle, &first);
        is_answered(&mut oracle, &second);
        read(&mut oracle);
        assert_eq!(oracle.checked, 1);
    }

    #[test]
    #[should_panic(expected = "read write 1 after 2")]
    fn writes_of_one_volume_take_effect_in_the_order_in_which_they_were_sent() {
        let mut oracle = DataOracle::default();
        let operation = Operation::write(extent());
        let (mut first, mut second) =
            (oracle.sent(&operation, extent()), oracle.sent(&operation, extent()));
        reaches(&mut oracle, A, &mut second);
        reaches(&mut oracle, A, &mut first);
        is_answered(&mut oracle, &first);
        is_answered(&mut oracle, &second);
        read(&mut oracle);
    }

    #[test]
    fn writes_that_may_go_ahead_of_others_are_ordered_by_the_disk() {
        let mut oracle = DataOracle::default();
        oracle.set_unordered(A);
        let operation = Operation::write(extent());
        let (mut first, mut second) =
            (oracle.sent(&operation, extent()), oracle.sent(&operation, extent()));
        reaches(&mut oracle, A, &mut second);
        is_answered(&mut oracle, &second);
        reaches(&mut oracle, A, &mut first);
        is_answered(&mut oracle, &first);
        read(&mut oracle);
        assert_eq!(oracle.checked, 1);
    }

    #[test]
    #[should_panic(expected = "read write 1 after 3")]
    fn a_write_of_another_volume_in_between_hides_no_violated_order() {
        let mut oracle = DataOracle::default();
        let operation = Operation::write(extent());
        let [mut first, mut other, mut last] =
            core::array::from_fn(|_| oracle.sent(&operation, extent()));
        reaches(&mut oracle, A, &mut last);
        reaches(&mut oracle, B, &mut other);
        reaches(&mut oracle, A, &mut first);
        is_answered(&mut oracle, &first);
        is_answered(&mut oracle, &last);
        read(&mut oracle);
    }

    #[test]
    #[should_panic(expected = "read write 1 after 2")]
    fn a_write_that_was_sent_after_the_answer_of_another_volumes_write_replaces_it() {
        let mut oracle = DataOracle::default();
        let operation = Operation::write(extent());
        let mut first = oracle.sent(&operation, extent());
        reaches(&mut oracle, B, &mut first);
        is_answered(&mut oracle, &first);
        let second = oracle.sent(&operation, extent());
        // It is answered although it has not reached the disk.
        is_answered(&mut oracle, &second);
        read(&mut oracle);
    }
}
