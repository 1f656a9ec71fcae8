//! The checksums of the pool's disks: they stand between its flow and the threads of its disks.

use std::collections::{BTreeMap, BTreeSet};

use backend::Failure;
use engine::VolumeId;
use units::{Extent, Lba, Op, Operation, Sectors};
use volume::DiskId;
use volume::pool::flow::{PieceId, RecordSums, Work};
use volume::pool::sums::{
    Access, DiskSums, Ledger, PageOwner, SUM_SECTORS, Sum, SumsAction, SumsArea, SumsOutput,
    SumsSerial, SumsStatus, SumsStepId, Verdict, touched_sums, whole_sums,
};
use volume::pool::{Blocks, Disk, PoolUid};

use super::accounts::PoolDisk;
use super::discovery::random_uid;
use super::piece::{PieceDone, ReadData, ReadUse, sum_of, sums_of};
use crate::disk::request::{DiskRequest, Origin};

/// Steps of the checksums have the numbers that no piece of a flow reaches.
const FIRST_STEP: u64 = 1 << 63;

/// What a piece does to the checksums of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SumsUse {
    Read,
    /// It reads, and records what is not known.
    Record(RecordSums),
    Write,
    /// It writes data whose checksums were not known where it was read: they are not here.
    WriteUnknown,
    WriteZeroes,
    Erase,
}

impl SumsUse {
    /// `None`: it is of the pool's metadata, which have checksums of their own, or moves no data.
    pub(super) fn of(work: &Work) -> Option<Self> {
        match work {
            Work::Metadata { .. } | Work::Flush => None,
            Work::Request { extent, .. } if extent.is_empty() => None,
            Work::Request { op: Op::Read, .. }
            | Work::Load { .. }
            | Work::Verify { records: RecordSums::Never, .. } => Some(Self::Read),
            Work::Verify { records, .. } => Some(Self::Record(*records)),
            Work::Request { op: Op::Write, .. } | Work::Store { .. } => Some(Self::Write),
            Work::Request { op: Op::WriteZeroes, .. } => Some(Self::WriteZeroes),
            Work::Request { .. } | Work::Erase { .. } => Some(Self::Erase),
        }
    }
}

/// A piece that its disk has.
#[derive(Clone, Copy, Debug)]
struct Issued {
    disk: DiskId,
    serial: SumsSerial,
    /// What was asked for of what is read: whole 4 KiB are.
    wanted: Option<(Sectors, Sectors)>,
    records: RecordSums,
}

/// A request of a step: a flush of all that write to a disk has several.
#[derive(Clone, Copy, Debug)]
struct StepOfDisk {
    disk: DiskId,
    step: SumsStepId,
}

/// The checksums of one disk, and the requests that wait for them.
#[derive(Debug)]
struct SumsOfDisk {
    sums: DiskSums<PieceId>,
    waiting: BTreeMap<PieceId, DiskRequest>,
    /// The disk's volumes that have written since all data was flushed.
    written: BTreeSet<VolumeId>,
    /// The requests of a step that have not ended, and whether none has failed.
    open: BTreeMap<SumsStepId, (usize, bool)>,
    /// Requests that are not sent yet.
    ready: Vec<DiskRequest>,
    place: PoolDisk,
}

/// What is to be done for the checksums.
#[derive(Debug)]
pub(super) enum Issue {
    /// Send this to the disk.
    Send(PoolDisk, DiskRequest),
    /// End this piece: its disk cannot store that it is written to.
    Refuse(PieceId),
}

/// The checksums of the pool's disks.
#[derive(Debug, Default)]
pub(crate) struct PoolSums {
    disks: BTreeMap<DiskId, SumsOfDisk>,
    issued: BTreeMap<PieceId, Issued>,
    steps: BTreeMap<PieceId, StepOfDisk>,
    numbers: u64,
    /// The ledgers that were found on the disks.
    found: BTreeMap<DiskId, Ledger>,
}

impl PoolSums {
    /// The checksums of a pool on whose disks these ledgers were found.
    pub(crate) fn new(found: BTreeMap<DiskId, Ledger>) -> Self {
        Self { found, ..Self::default() }
    }

    /// Takes a piece at a disk that has checksums, with those of what it writes if they are
    /// computed. Returns what is to be sent now; else it goes when [`Self::poll`] says so.
    pub(super) fn submit(
        &mut self,
        (id, disk, member): (DiskId, &Disk, PoolUid),
        (place, mut request): (PoolDisk, DiskRequest),
        (sums_use, sums): (SumsUse, Option<Vec<Sum>>),
    ) -> Option<DiskRequest> {
        let Origin::Pool { piece, client, read_data } = request.origin else {
            unreachable!("a piece of the pool")
        };
        let found = &mut self.found;
        let own = self
            .disks
            .entry(id)
            .or_insert_with(|| SumsOfDisk::new(disk, member, found.remove(&id), place));
        own.place = place;
        let mut extent = request.operation.extent;
        let (mut wanted, mut records) = (None, RecordSums::Never);
        if !matches!(sums_use, SumsUse::Read | SumsUse::Record(_)) {
            own.written.insert(request.volume);
        }
        let access = match sums_use {
            SumsUse::Record(asked) => {
                assert_eq!(extent, widened(extent), "whole blocks are scrubbed");
                records = asked;
                let read_data = ReadData { is_summed: true, ..read_data };
                request.origin = Origin::Pool { piece, client, read_data };
                Access::Record
            }
            SumsUse::Read => {
                let whole = widened(extent);
                if whole != extent {
                    wanted = Some((whole.start.distance(extent.start), extent.len));
                }
                (extent, request.operation.extent) = (whole, whole);
                let read_data = ReadData { is_summed: true, ..read_data };
                request.origin = Origin::Pool { piece, client, read_data };
                Access::Read
            }
            SumsUse::Write => Access::Write(sums.unwrap_or_else(|| sums_of(extent, &request.data))),
            SumsUse::WriteZeroes => {
                let zero = sum_of(&[0; 4_096]);
                Access::Write(whole_sums(extent).map(|_| zero).collect())
            }
            SumsUse::Erase | SumsUse::WriteUnknown => Access::Erase,
        };
        let submitted = own.sums.submit(piece, extent, access);
        self.issued.insert(piece, Issued { disk: id, serial: submitted.serial, wanted, records });
        if submitted.goes {
            return Some(request);
        }
        own.waiting.insert(piece, request);
        None
    }

    /// What is to be done now.
    pub(super) fn poll(&mut self) -> Option<Issue> {
        let Self { disks, issued, steps, numbers, .. } = self;
        for (id, own) in disks {
            if let Some(request) = own.ready.pop() {
                return Some(Issue::Send(own.place, request));
            }
            if let Some(output) = own.sums.poll() {
                match output {
                    SumsOutput::Go(piece) => {
                        let request = own.waiting.remove(&piece).expect("it waits");
                        return Some(Issue::Send(own.place, request));
                    }
                    SumsOutput::Refuse(piece) => {
                        own.waiting.remove(&piece);
                        issued.remove(&piece);
                        return Some(Issue::Refuse(piece));
                    }
                    SumsOutput::Step(step, action) => {
                        for (charged, operation, data) in own.requests(action) {
                            let piece = PieceId(FIRST_STEP + *numbers);
                            *numbers += 1;
                            steps.insert(piece, StepOfDisk { disk: *id, step });
                            own.open.entry(step).or_insert((0, true)).0 += 1;
                            own.ready.push(request_of(piece, charged, operation, data));
                        }
                        let request = own.ready.pop().expect("a step has a request");
                        return Some(Issue::Send(own.place, request));
                    }
                }
            }
        }
        None
    }

    /// Takes what a disk has done; returns it if it is a piece of the flow's, as an error if what
    /// it has read is not what was written.
    pub(super) fn collect(&mut self, done: PieceDone) -> Option<PieceDone> {
        if let Some(StepOfDisk { disk, step }) = self.steps.remove(&done.piece) {
            if let Some(own) = self.disks.get_mut(&disk) {
                own.step_done(step, &done.result);
            }
            return None;
        }
        let Some(Issued { disk, serial, wanted, records }) = self.issued.remove(&done.piece) else {
            return Some(done);
        };
        let PieceDone { piece, mut result, digest, sums, .. } = done;
        let (mut is_known, mut lacks_sums) = (false, false);
        if let Some(own) = self.disks.get_mut(&disk) {
            let end = if result.is_ok() { Ok(sums.as_slice()) } else { Err(()) };
            // Another content than that of the copies that were compared was written since.
            if matches!(records, RecordSums::IfEqual(compared) if compared != digest) {
                own.sums.record_nothing(serial);
            }
            match own.sums.done(serial, end) {
                Verdict::Wrong => result = Err(Failure::Io),
                Verdict::Right => is_known = true,
                Verdict::Incomplete => (is_known, lacks_sums) = (true, true),
                Verdict::Unknown => lacks_sums = true,
            }
        }
        if let (Ok(bytes), Some((skip, len))) = (&mut result, wanted)
            && !bytes.is_empty()
        {
            bytes.truncate((skip + len).bytes_usize());
            bytes.drain(..skip.bytes_usize());
        }
        Some(PieceDone { piece, result, digest, sums: Vec::new(), is_known, lacks_sums })
    }

    /// A disk is back, or was reopened.
    pub(super) fn reset(&mut self, disk: DiskId) {
        if let Some(own) = self.disks.get_mut(&disk)
            && own.waiting.is_empty()
            && own.open.is_empty()
            && own.sums.is_quiet()
        {
            own.sums.reset();
        }
    }

    /// A disk has left, or another has its place.
    pub(super) fn remove(&mut self, disk: DiskId) {
        self.disks.remove(&disk);
        self.found.remove(&disk);
        self.issued.retain(|_, issued| issued.disk != disk);
    }

    /// Closes every region: after that the checksums of everything are known.
    pub(super) fn close(&mut self) {
        self.disks.values_mut().for_each(|own| own.sums.close());
    }

    pub(super) fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.disks.values().all(|own| own.sums.is_idle())
    }

    /// How the checksums of a disk are.
    pub(crate) fn status(&self, disk: DiskId) -> SumsStatus {
        self.disks.get(&disk).map(|own| own.sums.status()).unwrap_or_default()
    }
}

impl SumsOfDisk {
    fn new(disk: &Disk, pool: PoolUid, found: Option<Ledger>, place: PoolDisk) -> Self {
        let area = SumsArea::of(Blocks(disk.blocks));
        let ledger = found.unwrap_or_else(|| {
            let name = random_uid().expect("the system has random numbers");
            Ledger::new(PageOwner { pool, disk: disk.uid, area: name }, area)
        });
        Self {
            sums: DiskSums::new(area, ledger),
            waiting: BTreeMap::new(),
            written: BTreeSet::new(),
            open: BTreeMap::new(),
            ready: Vec::new(),
            place,
        }
    }

    /// The requests of a step: the volume that is charged, the command, and what is written.
    fn requests(&mut self, action: SumsAction) -> Vec<(VolumeId, Operation, Vec<u8>)> {
        let own = self.place.metadata;
        match action {
            SumsAction::Read(extent) => vec![(own, Operation::read(extent), Vec::new())],
            SumsAction::Write(extent, bytes) => {
                vec![(own, Operation::write(extent), bytes.to_vec())]
            }
            SumsAction::WriteDurably(extent, bytes) => {
                vec![(own, Operation::write(extent).with_fua(), bytes.to_vec())]
            }
            SumsAction::Flush => vec![(own, Operation::flush(), Vec::new())],
            // What a volume's buffer has is flushed by that volume alone.
            SumsAction::FlushData => {
                self.written.insert(own);
                let written = core::mem::take(&mut self.written).into_iter();
                written.map(|volume| (volume, Operation::flush(), Vec::new())).collect()
            }
        }
    }

    fn step_done(&mut self, step: SumsStepId, result: &Result<Vec<u8>, Failure>) {
        let Some((count, is_whole)) = self.open.get_mut(&step) else { return };
        *count -= 1;
        *is_whole &= result.is_ok();
        if *count > 0 {
            return;
        }
        let (_, is_whole) = self.open.remove(&step).expect("it was there");
        let bytes = result.as_ref().map_or(&[][..], Vec::as_slice);
        self.sums.step_done(step, if is_whole { Ok(bytes) } else { Err(()) });
    }
}

/// The whole 4 KiB that an extent touches.
fn widened(extent: Extent) -> Extent {
    let sums = touched_sums(extent);
    let count = sums.end - sums.start;
    debug_assert!(count > 0, "an extent has sectors");
    Extent::new(Lba(sums.start * SUM_SECTORS), Sectors(count * SUM_SECTORS))
}

fn request_of(
    piece: PieceId,
    volume: VolumeId,
    operation: Operation,
    data: Vec<u8>,
) -> DiskRequest {
    let read_data = ReadData { of: ReadUse::Kept, is_summed: false };
    let origin = Origin::Pool { piece, client: None, read_data };
    let (no_hole, received, within) = (false, None, None);
    DiskRequest { origin, volume, operation, data, no_hole, received, within }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_a_part_reads_the_whole_4_kib() {
        let read = Extent::new(Lba(13), Sectors(4));
        assert_eq!(widened(read), Extent::new(Lba(8), Sectors(16)));
        assert_eq!(widened(widened(read)), widened(read));
    }
}
