//! The image: all metadata of a pool as bytes.

use std::collections::BTreeMap;

use crate::location::DiskId;
use crate::pool::format::codec::{Malformed, Reader, Writer};
use crate::pool::format::fields::{
    IMAGE_VOLUME_BYTES, RUN_BYTES, VERSION_FIRST, VERSION_SCRUB, VERSION_SUMS,
};
use crate::pool::format::geometry::Geometry;
use crate::pool::limits::{
    DISKS_MAX, EXTENTS_MAX, NAME_BYTES_MAX, SNAPSHOTS_MAX, STALE_RUNS_MAX, VOLUME_BLOCKS_MAX,
    VOLUMES_MAX,
};
use crate::pool::names::{
    BlockExtent, Blocks, Copies, DiskUid, Layout, Percent, PoolUid, PoolVolumeId, Zone,
};
use crate::pool::state::extent_map::{ExtentMap, Mapping};
use crate::pool::state::metadata::State;
use crate::pool::state::scrub::ScrubRecord;
use crate::pool::state::volume::{Disk, Volume};

const DRAINING: u32 = 1;
const OUT: u32 = 2;
const DOUBTFUL: u32 = 4;
const SUMS: u32 = 8;
const THIN: u8 = 1;
const OPEN: u8 = 2;
const NO_SUMS: u8 = 4;

/// The code of the layout that has copies.
pub(crate) const MIRROR: u8 = 3;
/// What is wrong with a layout.
pub(crate) const LAYOUT: &str = "an unknown layout (0 to 3, and of 3 with 2 or 3 copies)";

/// The image of a state.
pub(crate) fn encode(state: &State) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(state.image_bytes()));
    out.u64(state.sequence);
    out.count(state.disks.len());
    out.count(state.volumes.len());
    out.u32(state.next_volume);
    out.u32(state.next_disk);
    out.u8(state.alarm);
    out.padded(&[], 3);
    out.count(state.stale_runs());
    for (number, disk) in &state.disks {
        out.u32(number.0);
        out.u32(disk.blocks);
        out.u32(disk.fast_end);
        out.u32(disk_flags(disk));
        out.bytes(&disk.uid.0);
    }
    for (id, volume) in &state.volumes {
        write_volume(&mut out, *id, volume);
    }
    for (id, stale) in &state.stale {
        for run in stale.iter() {
            out.u32(id.0);
            out.u32(run.start);
            out.u32(run.end - run.start);
        }
    }
    if state.version >= VERSION_SCRUB {
        state.scrub.write(&mut out);
    }
    assert!(out.0.len() == state.image_bytes(), "an image has the computed length");
    debug_assert_eq!(
        decode(&out.0, state.version, state.pool, state.geometry, state.sequence).as_ref(),
        Ok(state),
        "what is encoded is decoded"
    );
    out.0
}

fn disk_flags(disk: &Disk) -> u32 {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    flag(disk.draining, DRAINING)
        | flag(disk.out, OUT)
        | flag(disk.doubtful, DOUBTFUL)
        | flag(disk.has_sums, SUMS)
}

pub(crate) fn volume_flags(volume: &Volume) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(volume.thin, THIN) | flag(volume.open, OPEN) | flag(!volume.sums, NO_SUMS)
}

/// The flags of a volume.
pub(crate) struct VolumeFlags {
    pub(crate) thin: bool,
    pub(crate) open: bool,
    pub(crate) sums: bool,
}

impl VolumeFlags {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = from.u8()?;
        if flags > (THIN | OPEN | NO_SUMS) {
            return Err(from.refuse("unknown flags (0 to 7)"));
        }
        let is_set = |flag: u8| flags & flag > 0;
        Ok(Self { thin: is_set(THIN), open: is_set(OPEN), sums: !is_set(NO_SUMS) })
    }
}

fn write_volume(out: &mut Writer, id: PoolVolumeId, volume: &Volume) {
    out.u32(id.0);
    out.u32(volume.origin.map_or(0, |origin| origin.0));
    out.u32(volume.size.0);
    out.u8(layout_code(volume.layout));
    out.u8(zone_code(volume.zone));
    out.u8(volume_flags(volume));
    assert!(!volume.name.is_empty(), "a volume has a name");
    assert!(volume.size.0 > 0, "a volume has a size");
    assert!(!volume.disks.is_empty(), "a volume has disks");
    assert!(volume.disks.len() <= DISKS_MAX, "the disks are within their limit");
    let written = out.0.len();
    out.u8(u8::try_from(volume.name.len()).expect("a name is short"));
    out.u64(volume.seed);
    out.u32(u32::try_from(volume.disks.len()).expect("few disks"));
    out.padded(volume.name.as_bytes(), NAME_BYTES_MAX);
    out.u8(copies_code(volume.layout));
    // Zero for the group that a volume founds and its snapshots share.
    let founds = volume.group == volume.origin.unwrap_or(id);
    out.u32(if founds { 0 } else { volume.group.0 });
    for place in 0..DISKS_MAX {
        out.u32(volume.disks.get(place).map_or(u32::MAX, |disk| disk.0));
    }
    assert_eq!(out.0.len() - written, IMAGE_VOLUME_BYTES - 15, "the head of a volume is whole");
    for column in &volume.columns {
        out.count(column.len());
        for run in column.iter() {
            write_run(out, run);
        }
    }
}

/// Decodes an image, which must have this sequence number.
pub(crate) fn decode(
    body: &[u8],
    version: u32,
    pool: PoolUid,
    geometry: Geometry,
    sequence: u64,
) -> Result<State, Malformed> {
    let mut from = Reader::new(body);
    let mut state = State::new(pool, geometry, version);
    state.sequence = from.u64()?;
    if state.sequence != sequence {
        return Err(from.refuse("another sequence number than in its header"));
    }
    let disks = from.count(DISKS_MAX, "more disks than a pool has")?;
    let volumes = from.count(VOLUMES_MAX, "more volumes than a pool has")?;
    state.next_volume = from.u32()?;
    state.next_disk = from.u32()?;
    state.alarm = from.u8()?;
    if state.alarm > 100 {
        return Err(from.refuse("an alarm beyond 100 %"));
    }
    from.zeroes(3)?;
    let stale = from.count(STALE_RUNS_MAX, "more runs of stale blocks than a pool has")?;
    for _ in 0..disks {
        let (number, disk) = read_disk(&mut from, geometry)?;
        let last = state.disks.last_key_value().is_some_and(|(last, _)| *last >= number);
        let twice = state.disks.values().any(|other| other.uid == disk.uid);
        if last || twice || number.0 >= state.next_disk {
            return Err(from.refuse("disks out of order, or one twice"));
        }
        state.disks.insert(number, disk);
    }
    let mut extents = 0;
    for _ in 0..volumes {
        let (id, volume) = read_volume(&mut from, &state.disks, &mut extents)?;
        let last = state.volumes.last_key_value().is_some_and(|(last, _)| *last >= id);
        if last || id.0 == 0 || id.0 >= state.next_volume {
            return Err(from.refuse("volumes out of order, or one twice"));
        }
        state.insert_volume(id, volume);
    }
    for _ in 0..stale {
        read_stale(&mut from, &mut state)?;
    }
    if version >= VERSION_SCRUB {
        state.scrub = ScrubRecord::read(&mut from)?;
    }
    if !from.is_empty() {
        return Err(from.refuse("more than its volumes"));
    }
    assert!(extents <= EXTENTS_MAX, "the extents were counted");
    assert!(state.disks.len() == disks, "every disk was read");
    assert!(state.volumes.len() == volumes, "every volume was read");
    families(&state).map_err(|what| from.refuse(what))?;
    versions(&state).map_err(|what| from.refuse(what))?;
    Ok(state)
}

/// A run of stale blocks: behind those before it, and apart.
fn read_stale(from: &mut Reader<'_>, state: &mut State) -> Result<(), Malformed> {
    let (disk, block, len) = (DiskId(from.u32()?), from.u32()?, from.u32()?);
    let last = state.stale.last_key_value().is_some_and(|(last, _)| *last > disk);
    let data = state.disks.get(&disk).map(|disk| state.data(disk));
    let inside = data
        .zip(block.checked_add(len))
        .is_some_and(|(data, end)| data.start <= block && end <= data.end && block < end);
    if last || !inside || !state.stale.entry(disk).or_default().push(block..block + len) {
        return Err(from.refuse("stale blocks out of order, or outside their disk"));
    }
    Ok(())
}

/// A version has nothing of what a later one can.
fn versions(state: &State) -> Result<(), &'static str> {
    let newer = !state.stale.is_empty()
        || state.has_mirrors()
        || state.disks.values().any(|disk| disk.out)
        || state.volumes.values().any(|volume| volume.open);
    let tells_sums = state.disks.values().any(|disk| disk.has_sums)
        || state.volumes.values().any(|volume| !volume.sums);
    if (tells_sums && state.version < VERSION_SUMS) || (newer && state.version == VERSION_FIRST) {
        return Err("more than its version of the format has");
    }
    if !state.disks.is_empty() && state.disks_in().next().is_none() {
        return Err("no disk that is in");
    }
    Ok(())
}

/// Names are unique, every snapshot has its origin, and the volumes of a group can share blocks.
fn families(state: &State) -> Result<(), &'static str> {
    let mut names: Vec<&str> = state.volumes.values().map(|volume| volume.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|two| two[0] == two[1]) {
        return Err("a name is given twice");
    }
    let mut groups: BTreeMap<PoolVolumeId, (Layout, usize)> = BTreeMap::new();
    for (id, volume) in &state.volumes {
        let shape = (volume.layout, volume.columns.len());
        let founder = state.volumes.get(&volume.group);
        let founded = founder.is_none_or(|founder| founder.group == volume.group);
        if volume.group > *id || !founded || *groups.entry(volume.group).or_insert(shape) != shape {
            return Err("a volume of a group that it cannot share blocks with");
        }
    }
    let mut counts: BTreeMap<PoolVolumeId, usize> = BTreeMap::new();
    for volume in state.volumes.values() {
        let Some(id) = volume.origin else { continue };
        let origin = state.volumes.get(&id).ok_or("a snapshot of nothing")?;
        if origin.origin.is_some() || origin.group != volume.group {
            return Err("a snapshot of what can have none");
        }
        *counts.entry(id).or_default() += 1;
    }
    if counts.values().any(|count| *count > SNAPSHOTS_MAX) {
        return Err("more snapshots than a volume has");
    }
    Ok(())
}

fn read_disk(from: &mut Reader<'_>, geometry: Geometry) -> Result<(DiskId, Disk), Malformed> {
    let number = DiskId(from.u32()?);
    let (blocks, fast_end, flags) = (from.u32()?, from.u32()?, from.u32()?);
    let uid = DiskUid(from.array()?);
    let data = geometry.first_block()..blocks.saturating_sub(1);
    if data.is_empty()
        || fast_end < data.start
        || fast_end > data.end
        || flags > (DRAINING | OUT | DOUBTFUL | SUMS)
    {
        return Err(from.refuse("a disk of an impossible size"));
    }
    assert!(data.contains(&fast_end) || fast_end == data.end, "the zones divide the data");
    let (draining, out) = (flags & DRAINING > 0, flags & OUT > 0);
    let (doubtful, has_sums) = (flags & DOUBTFUL > 0, flags & SUMS > 0);
    if doubtful && !out {
        return Err(from.refuse("a disk that is in and may differ"));
    }
    Ok((number, Disk { uid, blocks, fast_end, draining, out, doubtful, has_sums }))
}

fn read_volume(
    from: &mut Reader<'_>,
    disks: &BTreeMap<DiskId, Disk>,
    extents: &mut usize,
) -> Result<(PoolVolumeId, Volume), Malformed> {
    let id = PoolVolumeId(from.u32()?);
    let origin = Some(from.u32()?).filter(|origin| *origin != 0).map(PoolVolumeId);
    let size = Blocks(from.u32()?);
    if size.0 == 0 || size.0 > VOLUME_BLOCKS_MAX {
        return Err(from.refuse("a volume of an impossible size"));
    }
    let (code, zone) = (from.u8()?, zone_of(from)?);
    let VolumeFlags { thin, open, sums } = VolumeFlags::read(from)?;
    let name_len = usize::from(from.u8()?);
    let seed = from.u64()?;
    let width = from.count(DISKS_MAX, "more disks than a pool has")?;
    let name = text(from, name_len)?;
    from.zeroes(NAME_BYTES_MAX - name_len)?;
    let layout = layout_of(code, from.u8()?).ok_or(from.refuse(LAYOUT))?;
    let founder = origin.unwrap_or(id);
    let group = match from.u32()? {
        0 => founder,
        group if group == founder.0 => return Err(from.refuse("a group that is written as zero")),
        group => PoolVolumeId(group),
    };
    let mut on = Vec::new();
    for place in 0..DISKS_MAX {
        let number = from.u32()?;
        if place >= width && number != u32::MAX {
            return Err(from.refuse("more disks than are counted"));
        }
        if place < width {
            on.push(DiskId(number));
        }
    }
    if on.is_empty() || on.iter().any(|disk| !disks.contains_key(disk)) {
        return Err(from.refuse("a volume on a disk that is not there"));
    }
    assert_eq!(on.len(), width, "as many disks as were counted");
    assert_eq!(name.len(), name_len, "as many bytes as were counted");
    if width < layout.copies() {
        return Err(from.refuse("a mirror of fewer disks than copies"));
    }
    let columns = layout.columns(width);
    let columns = (0..columns).map(|_| read_column(from, extents)).collect::<Result<_, _>>()?;
    let disks = on;
    let volume =
        Volume { name, size, layout, zone, thin, sums, open, seed, disks, origin, group, columns };
    Ok((id, volume))
}

fn read_column(from: &mut Reader<'_>, extents: &mut usize) -> Result<ExtentMap, Malformed> {
    let count = from.count(EXTENTS_MAX, "more extents than a pool has")?;
    *extents += count;
    if *extents > EXTENTS_MAX {
        return Err(from.refuse("more extents than a pool has"));
    }
    let mut map = ExtentMap::default();
    for _ in 0..count {
        let run = read_run(from)?;
        if !map.push(run) {
            return Err(from.refuse("extents out of order"));
        }
    }
    assert!(map.len() <= count, "extents that continue each other are merged");
    assert!(count == 0 || !map.is_empty(), "extents that were read are mapped");
    Ok(map)
}

pub(crate) fn write_run(out: &mut Writer, run: Mapping) {
    assert!(run.place.len > 0, "a mapping has rows");
    let before = out.0.len();
    out.u32(run.row);
    out.u32(run.place.len);
    out.u32(run.place.disk.0);
    out.u32(run.place.block);
    assert_eq!(out.0.len() - before, RUN_BYTES, "a mapping has its length");
}

/// A mapping that ends within 32 bits, on either side.
pub(crate) fn read_run(from: &mut Reader<'_>) -> Result<Mapping, Malformed> {
    let (row, len) = (from.u32()?, from.u32()?);
    let (disk, block) = (DiskId(from.u32()?), from.u32()?);
    if len == 0 || row.checked_add(len).is_none() || block.checked_add(len).is_none() {
        return Err(from.refuse("an extent of an impossible length"));
    }
    Ok(Mapping { row, place: BlockExtent { disk, block, len } })
}

pub(crate) fn write_name(out: &mut Writer, name: &str) {
    out.u8(u8::try_from(name.len()).expect("a name is short"));
    out.bytes(name.as_bytes());
}

pub(crate) fn read_name(from: &mut Reader<'_>) -> Result<String, Malformed> {
    let len = usize::from(from.u8()?);
    text(from, len)
}

fn text(from: &mut Reader<'_>, len: usize) -> Result<String, Malformed> {
    let bytes = from.take(len)?;
    let text = core::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or(from.refuse("a name that is empty or no UTF-8"))
}

pub(crate) fn write_disks(out: &mut Writer, disks: &[DiskId]) {
    out.count(disks.len());
    for disk in disks {
        out.u32(disk.0);
    }
}

pub(crate) fn read_disks(from: &mut Reader<'_>) -> Result<Vec<DiskId>, Malformed> {
    let count = from.count(DISKS_MAX, "more disks than a pool has")?;
    (0..count).map(|_| Ok(DiskId(from.u32()?))).collect()
}

pub(crate) const fn layout_code(layout: Layout) -> u8 {
    match layout {
        Layout::Single => 0,
        Layout::Stripe => 1,
        Layout::Random => 2,
        Layout::Mirror(_) => MIRROR,
    }
}

/// The number of copies of a mirror, and zero for the other layouts.
pub(crate) const fn copies_code(layout: Layout) -> u8 {
    match layout {
        Layout::Single | Layout::Stripe | Layout::Random => 0,
        Layout::Mirror(copies) => copies.code(),
    }
}

pub(crate) const fn layout_of(code: u8, copies: u8) -> Option<Layout> {
    match (code, copies) {
        (0, 0) => Some(Layout::Single),
        (1, 0) => Some(Layout::Stripe),
        (2, 0) => Some(Layout::Random),
        (MIRROR, copies) => match Copies::new(copies) {
            Some(copies) => Some(Layout::Mirror(copies)),
            None => None,
        },
        _ => None,
    }
}

/// The code of a first part of the disks is this, plus its per cent.
const FASTEST: u8 = 100;

pub(crate) const fn zone_code(zone: Zone) -> u8 {
    match zone {
        Zone::Fast => 0,
        Zone::Slow => 1,
        Zone::Any => 2,
        Zone::Fastest(part) => FASTEST + part.number(),
    }
}

pub(crate) fn zone_of(from: &mut Reader<'_>) -> Result<Zone, Malformed> {
    Ok(match from.u8()? {
        0 => Zone::Fast,
        1 => Zone::Slow,
        2 => Zone::Any,
        code => match code.checked_sub(FASTEST).and_then(Percent::new) {
            Some(part) => Zone::Fastest(part),
            None => return Err(from.refuse("an unknown zone (0 to 2, 101 to 199)")),
        },
    })
}

// The codes on disk.
const _: () = assert!(MIRROR == 3);
const _: () = assert!(copies_code(Layout::Single) == 0);
const _: () = assert!(copies_code(Layout::Stripe) == 0);
const _: () = assert!(copies_code(Layout::Random) == 0);
const _: () = assert!(layout_of(3, 0).is_none() && layout_of(3, 1).is_none());
const _: () = assert!(layout_of(3, 4).is_none() && layout_of(4, 2).is_none());
const _: () = assert!(layout_of(1, 2).is_none(), "a stripe has no copies");
const _: () = assert!(DRAINING == 1 && OUT == 2 && DOUBTFUL == 4);
const _: () = assert!(THIN == 1 && OPEN == 2);
const _: () = assert!(layout_code(Layout::Single) == 0);
const _: () = assert!(layout_code(Layout::Stripe) == 1);
const _: () = assert!(layout_code(Layout::Random) == 2);
const _: () = assert!(zone_code(Zone::Fast) == 0);
const _: () = assert!(zone_code(Zone::Slow) == 1);
const _: () = assert!(zone_code(Zone::Any) == 2);
const _: () = assert!(FASTEST == 100 && FASTEST.checked_add(Percent::MAX).is_some());

#[cfg(test)]
mod tests;
