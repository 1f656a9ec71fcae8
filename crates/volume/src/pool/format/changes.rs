//! The bytes of changes: the body of a record in the log.

use crate::location::DiskId;
use crate::pool::format::codec::{Malformed, Reader, Writer};
use crate::pool::format::fields::STALE_BYTES;
use crate::pool::format::image::{
    LAYOUT, MIRROR, VolumeFlags, copies_code, layout_code, layout_of, read_disks, read_name,
    read_run, volume_flags, write_disks, write_name, write_run, zone_code, zone_of,
};
use crate::pool::limits::EXTENTS_MAX;
use crate::pool::names::{BlockExtent, Blocks, DiskUid, PoolVolumeId};
use crate::pool::state::change::Change;
use crate::pool::state::scrub::ScrubRecord;
use crate::pool::state::volume::{Disk, Volume};

/// The bytes of changes, as the body of a record.
pub(crate) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut out = Writer::default();
    out.count(changes.len());
    for change in changes {
        write_change(change, &mut out);
    }
    debug_assert_eq!(decode(&out.0).as_deref(), Ok(changes), "what is encoded is decoded");
    out.0
}

/// The changes in the body of a record.
pub(crate) fn decode(body: &[u8]) -> Result<Vec<Change>, Malformed> {
    let mut from = Reader::new(body);
    let count = from.count(EXTENTS_MAX, "more changes than extents")?;
    let changes = (0..count).map(|_| read_change(&mut from)).collect::<Result<_, _>>()?;
    if from.is_empty() { Ok(changes) } else { Err(from.refuse("more than its changes")) }
}

fn write_change(change: &Change, out: &mut Writer) {
    match change {
        Change::Create { id, volume } => {
            out.u8(1);
            out.u32(id.0);
            write_plan(out, volume);
        }
        Change::Resize { id, size } => {
            out.u8(2);
            out.u32(id.0);
            out.u32(size.0);
        }
        Change::Remove { id } => {
            out.u8(3);
            out.u32(id.0);
        }
        Change::Map { id, column, run } => {
            out.u8(4);
            out.u32(id.0);
            out.u32(*column);
            write_run(out, *run);
        }
        Change::Unmap { id, column, row, rows } => {
            out.u8(5);
            out.u32(id.0);
            out.u32(*column);
            out.u32(*row);
            out.u32(*rows);
        }
        Change::Snapshot { id, origin, name } => {
            out.u8(6);
            out.u32(id.0);
            out.u32(origin.0);
            write_name(out, name);
        }
        Change::RollBack { snapshot } => {
            out.u8(7);
            out.u32(snapshot.0);
        }
        Change::SetPlacement { id, zone, disks } => {
            out.u8(8);
            out.u32(id.0);
            out.u8(zone_code(*zone));
            write_disks(out, disks);
        }
        Change::AddDisk { number, disk } => {
            out.u8(9);
            out.u32(number.0);
            write_disk(out, disk);
        }
        Change::SetDraining { number, draining } => {
            out.u8(10);
            out.u32(number.0);
            out.u8(u8::from(*draining));
        }
        Change::RemoveDisk { number } => {
            out.u8(11);
            out.u32(number.0);
        }
        Change::SetAlarm { percent } => {
            out.u8(12);
            out.u8(*percent);
        }
        Change::Clone { id, source, name } => {
            out.u8(13);
            out.u32(id.0);
            out.u32(source.0);
            write_name(out, name);
        }
        _ => write_mirror_change(change, out),
    }
}

fn write_mirror_change(change: &Change, out: &mut Writer) {
    match change {
        Change::Stale { blocks } => {
            out.u8(14);
            write_blocks(out, *blocks);
        }
        Change::Fresh { blocks } => {
            out.u8(15);
            write_blocks(out, *blocks);
        }
        Change::SetOpen { id, open } => {
            out.u8(16);
            out.u32(id.0);
            out.u8(u8::from(*open));
        }
        Change::Scrub { scrub } => {
            out.u8(17);
            scrub.write(out);
        }
        // The others are of the set of disks, or of the version: an image commits them.
        _ => unreachable!("no record has a change of the set of disks"),
    }
}

fn read_change(from: &mut Reader<'_>) -> Result<Change, Malformed> {
    let tag = from.u8()?;
    Ok(match tag {
        1 => {
            let id = PoolVolumeId(from.u32()?);
            Change::Create { id, volume: read_plan(id, from)? }
        }
        2 => Change::Resize { id: PoolVolumeId(from.u32()?), size: Blocks(from.u32()?) },
        3 => Change::Remove { id: PoolVolumeId(from.u32()?) },
        4 => {
            Change::Map { id: PoolVolumeId(from.u32()?), column: from.u32()?, run: read_run(from)? }
        }
        5 => Change::Unmap {
            id: PoolVolumeId(from.u32()?),
            column: from.u32()?,
            row: from.u32()?,
            rows: from.u32()?,
        },
        6 => Change::Snapshot {
            id: PoolVolumeId(from.u32()?),
            origin: PoolVolumeId(from.u32()?),
            name: read_name(from)?,
        },
        7 => Change::RollBack { snapshot: PoolVolumeId(from.u32()?) },
        8 => Change::SetPlacement {
            id: PoolVolumeId(from.u32()?),
            zone: zone_of(from)?,
            disks: read_disks(from)?,
        },
        9 => Change::AddDisk { number: DiskId(from.u32()?), disk: read_disk(from)? },
        10 => Change::SetDraining { number: DiskId(from.u32()?), draining: flag(from)? },
        11 => Change::RemoveDisk { number: DiskId(from.u32()?) },
        12 => Change::SetAlarm { percent: from.u8()? },
        13 => Change::Clone {
            id: PoolVolumeId(from.u32()?),
            source: PoolVolumeId(from.u32()?),
            name: read_name(from)?,
        },
        14 => Change::Stale { blocks: read_blocks(from)? },
        15 => Change::Fresh { blocks: read_blocks(from)? },
        16 => Change::SetOpen { id: PoolVolumeId(from.u32()?), open: flag(from)? },
        17 => Change::Scrub { scrub: ScrubRecord::read(from)? },
        _ => return Err(from.refuse("a change of an unknown kind (1 to 17)")),
    })
}

fn write_blocks(out: &mut Writer, blocks: BlockExtent) {
    assert!(blocks.len > 0, "a run has blocks");
    let before = out.0.len();
    out.u32(blocks.disk.0);
    out.u32(blocks.block);
    out.u32(blocks.len);
    assert_eq!(out.0.len() - before, STALE_BYTES, "a run has its length");
}

fn read_blocks(from: &mut Reader<'_>) -> Result<BlockExtent, Malformed> {
    let (disk, block, len) = (DiskId(from.u32()?), from.u32()?, from.u32()?);
    Ok(BlockExtent { disk, block, len })
}

fn flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(from.refuse("a flag that is neither 0 nor 1")),
    }
}

fn write_disk(out: &mut Writer, disk: &Disk) {
    out.bytes(&disk.uid.0);
    out.u32(disk.blocks);
    out.u32(disk.fast_end);
}

fn read_disk(from: &mut Reader<'_>) -> Result<Disk, Malformed> {
    let (uid, blocks, fast_end) = (DiskUid(from.array()?), from.u32()?, from.u32()?);
    let (draining, out, doubtful, has_sums) = (false, false, false, false);
    Ok(Disk { uid, blocks, fast_end, draining, out, doubtful, has_sums })
}

fn write_plan(out: &mut Writer, volume: &Volume) {
    out.u32(volume.size.0);
    out.u8(layout_code(volume.layout));
    if volume.layout.is_mirror() {
        out.u8(copies_code(volume.layout));
    }
    out.u8(zone_code(volume.zone));
    out.u8(volume_flags(volume));
    out.u64(volume.seed);
    write_name(out, &volume.name);
    write_disks(out, &volume.disks);
}

fn read_plan(group: PoolVolumeId, from: &mut Reader<'_>) -> Result<Volume, Malformed> {
    let size = Blocks(from.u32()?);
    let code = from.u8()?;
    let copies = if code == MIRROR { from.u8()? } else { 0 };
    let layout = layout_of(code, copies).ok_or(from.refuse(LAYOUT))?;
    let zone = zone_of(from)?;
    let VolumeFlags { thin, open, sums } = VolumeFlags::read(from)?;
    if open {
        return Err(from.refuse("a new volume that is open"));
    }
    let (seed, name, disks) = (from.u64()?, read_name(from)?, read_disks(from)?);
    let (origin, columns) = (None, Vec::new());
    Ok(Volume { name, size, layout, zone, thin, sums, open, seed, disks, origin, group, columns })
}
