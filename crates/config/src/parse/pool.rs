//! The tables `[pool]` and `[[pool.volume]]`.

use engine::Admission;
use engine::WorstCase;
use units::{Bytes, Duration, Share};
use volume::pool::format::Geometry;
use volume::pool::limits::{BLOCK_SECTORS, VOLUME_BLOCKS_MAX};
use volume::pool::{Blocks, Copies, Layout, Zone};

use input::{InputError, Table, TableKeys, Value, size_text};

use super::labels::labels;
use super::names::Names;
use super::volume as single_disk;
use super::words::one_of;
use super::{deadlines, latency, nbd, pool_stream, stream_parts, unkept, write_buffer};
use crate::defaults;
use crate::demand::{Spread, rate_of_pieces, span_on};
use crate::keys::{FROM, REBUILD, SCRUB};
use crate::limits::{DISKS_MAX, POOL_VOLUMES_MAX, SLOW_AFTER_MAX, SLOW_AFTER_MIN, SPARE_AFTER_MAX};
use crate::plan::{
    Disk, DiskContract, DiskIndex, FloorContract, LAYOUTS, PlacementSpec, PoolPlan, PoolVolume,
    ZONE_WORDS, layout_name, zone_of,
};

const DISKS: &str = "the names of disks such as [\"d0\", \"d1\"]";
const SIZE: &str = "a size such as 20GiB";
const REMOVED: &str = "the name of a volume that the config has no more";
const SOURCE: &str = "the name of a volume or snapshot of the pool";

/// The pool without its volumes.
pub(crate) fn head(table: &Table<'_>, disks: &[Disk]) -> Result<PoolPlan, InputError> {
    let names = Names::of(disks.iter().map(|disk| (disk.name.as_str(), disk.line)));
    let all: Vec<DiskIndex> = (0..disks.len()).map(DiskIndex).collect();
    let pooled = some_of(&table.require("disks", DISKS)?, (&names, "disk"), &all, |disk| {
        let least = Geometry::SMALLEST.first_block() + 2;
        if disks[disk.0].spare {
            return Some("a disk that is no spare".to_owned());
        }
        let small = disks[disk.0].pool_blocks() < least;
        small.then(|| format!("a disk of at least {}", size_text(bytes(Blocks(least)))))
    })?;
    Ok(PoolPlan {
        disks: pooled,
        metadata_share: above_zero(table, "metadata_share", defaults::METADATA_SHARE)?,
        relocation_share: above_zero(table, "relocation_share", defaults::RELOCATION_SHARE)?,
        rebuild: table.value("rebuild").map(|value| floor(&value, &REBUILD)).transpose()?,
        scrub: table.value("scrub").map(|value| floor(&value, &SCRUB)).transpose()?,
        spare_after: table.duration(
            "spare_after",
            Duration::ZERO..=SPARE_AFTER_MAX,
            "",
            defaults::SPARE_AFTER,
        )?,
        slow_after: table.duration(
            "slow_after",
            SLOW_AFTER_MIN..=SLOW_AFTER_MAX,
            "",
            defaults::SLOW_AFTER,
        )?,
        removing: Vec::new(),
        volumes: Vec::new(),
        line: table.line(),
    })
}

/// Refuses spares where there is no pool that they could serve.
pub(crate) fn check_spares(
    tables: &[Table<'_>],
    pool: Option<&Table<'_>>,
) -> Result<(), InputError> {
    let spares = tables.iter().filter_map(|table| table.value("spare"));
    for spare in spares {
        if spare.boolean()? && pool.is_none() {
            return Err(spare.refuse("`false`: there is no table `[pool]`"));
        }
    }
    Ok(())
}

fn floor(value: &Value<'_>, keys: &'static TableKeys) -> Result<FloorContract, InputError> {
    let fields = value.table(keys)?;
    let reserve = above_zero(&fields, "reserve", defaults::RELOCATION_SHARE)?;
    let limit = above_zero(&fields, "limit", Share::ALL)?;
    if limit < reserve {
        return Err(refused(&fields, "limit", &format!("at least {reserve}, the reserve")));
    }
    Ok(FloorContract { reserve, limit })
}

/// The pool with its volumes, in the file's order. `tables` are the pool's table and its volumes';
/// the volumes' names are added to `names`.
pub(crate) fn check<'a>(
    (table, tables): (&Table<'_>, &'a [Table<'a>]),
    disks: &[Disk],
    mut pool: PoolPlan,
    names: &mut Names<'a>,
) -> Result<PoolPlan, InputError> {
    let keeping = |disk: &Disk| Admission::with_headroom(disk.reserve_headroom);
    let mut admissions: Vec<Admission> = disks.iter().map(keeping).collect();
    for &DiskIndex(index) in &pool.disks {
        let (disk, admission) = (&disks[index], &mut admissions[index]);
        for (key, contract) in pool.own_contracts(disk) {
            admission.admit(contract).map_err(|_| {
                let (available, name) = (admission.available(), &disk.name);
                let expected = format!("at most {available} (what is left of disk \"{name}\")");
                refused(table, key, &expected).as_refusal()
            })?;
        }
    }
    let pooled = pool.disks.iter().map(|disk| &disks[disk.0]);
    unkept::check_pool(table, pooled.clone())?;
    let pooled = Names::of(pooled.map(|disk| (disk.name.as_str(), disk.line)));
    let bounds = deadlines::bounds(disks);
    for table in tables {
        let name = names.add(table)?.to_owned();
        let mut volume = parse_volume(table, name, (&pooled, &pool), disks)?;
        volume.stream = pool_stream::check(table, disks, &volume)?;
        volume.stream_parts = stream_parts::check(table, disks, &volume)?;
        volume.latency = latency::check_pool(table, disks, &volume)?;
        let known = Known { table, disks, bounds: &bounds };
        for index in Spread::of(&volume).disks() {
            let part = part(&known, &mut volume, index, &mut admissions[index.0])?;
            volume.parts.push(part);
        }
        pool.volumes.push(volume);
    }
    pool.removing = removing(table, names)?;
    Ok(pool)
}

/// The names of the volumes whose removal was begun: none of `names`.
fn removing(table: &Table<'_>, names: &Names<'_>) -> Result<Vec<String>, InputError> {
    let Some(value) = table.value("removing") else { return Ok(Vec::new()) };
    let name = |value: Value<'_>| {
        let name = value.text(REMOVED)?;
        let is_free = !names.has(name);
        if is_free { Ok(name.to_owned()) } else { Err(value.refuse(REMOVED)) }
    };
    value.elements(POOL_VOLUMES_MAX, REMOVED)?.into_iter().map(name).collect()
}

/// The values that a volume's contract on a disk depends on.
struct Known<'a> {
    table: &'a Table<'a>,
    disks: &'a [Disk],
    bounds: &'a [Option<WorstCase>],
}

/// The volume's contract on one of its disks, admitted there; its priority is the same on all of
/// them.
fn part(
    known: &Known<'_>,
    volume: &mut PoolVolume,
    index: DiskIndex,
    admission: &mut Admission,
) -> Result<DiskContract, InputError> {
    let (table, disk) = (known.table, &known.disks[index.0]);
    let requested = single_disk::requested_rate(table, disk)?;
    volume.rate = requested.as_ref().map(|(_, rate)| *rate);
    let pieces = requested.map(|(value, rate)| (value, rate_of_pieces(rate)));
    let declared = single_disk::declared(pieces, disk)?;
    unkept::check(table, disk)?;
    let mut contract = single_disk::contract(table, disk, declared, admission)?;
    volume.priority = single_disk::priority(table, contract, disk, admission)?;
    let stream = volume.stream.filter(|_| volume.stream_disks().contains(&index));
    if let Some(stream) = stream {
        let worst = known.bounds[index.0].as_ref();
        let worst = worst.expect("a disk that keeps a stream has a worst case");
        let spread = Spread::of(volume);
        contract.stream = Some(pool_stream::part(table, (disk, worst), stream, &spread, index)?);
    }
    contract.latency = latency::part(table, (disk, index), volume)?;
    let span = span_on(volume, index).expect("play comes to each disk within the stream's span");
    Ok(DiskContract { disk: index, contract, declared, span })
}

/// The volume without its contracts.
fn parse_volume(
    table: &Table<'_>,
    name: String,
    (names, pool): (&Names<'_>, &PoolPlan),
    disks: &[Disk],
) -> Result<PoolVolume, InputError> {
    let layout = layout(table)?;
    let zone = table.value("zone").map_or(Ok(Zone::Any), |value| zone_in(&value))?;
    let some = |value: &Value<'_>| some_of(value, (names, "pool disk"), &pool.disks, |_| None);
    let on = table.value("disks").map_or(Ok(pool.disks.clone()), |value| some(&value))?;
    let (least, expected) = match layout {
        Layout::Single | Layout::Random => (1, String::new()),
        Layout::Stripe => (2, "at least two disks for a stripe".to_owned()),
        Layout::Mirror(copies) => {
            let copies = copies.number();
            (copies, format!("at least {copies} disks for a mirror of {copies} copies"))
        }
    };
    if on.len() < least {
        let value = table.value("disks").or_else(|| table.value("layout"));
        return Err(value.expect("it has a `layout`").refuse(expected));
    }
    let from = match table.value("from") {
        None => None,
        Some(value) => {
            let fields = value.table(&FROM)?;
            let zone = zone_in(&fields.require("zone", ZONE_WORDS)?)?;
            let before = fields.require("disks", DISKS)?;
            let disks = some(&before)?;
            if layout.keeps_width() && disks.len() != on.len() {
                let (count, name) = (on.len(), layout_name(layout));
                let expected = format!("{count} disks: a {name} moves to as many as it has");
                return Err(before.refuse(expected));
            }
            Some(PlacementSpec { zone, disks })
        }
    };
    let size = whole_blocks(&table.require("size", SIZE)?, (layout, zone), &on, disks)?;
    let thin = table.value("thin").map_or(Ok(false), |value| value.boolean())?;
    let checksums = table.value("checksums").map_or(Ok(true), |value| value.boolean())?;
    let (clients, line) = (nbd::clients(table)?, table.line());
    let write_buffer = write_buffer::of_volume(table, &disks[on[0].0], None)?;
    let (parts, priority) = (Vec::new(), engine::Priority::Normal);
    let source = table.value("source").map(|value| value.text(SOURCE).map(str::to_owned));
    let source = source.transpose()?;
    Ok(PoolVolume {
        name,
        clients,
        size,
        disks: on,
        layout,
        zone,
        thin,
        checksums,
        from,
        parts,
        priority,
        rate: None,
        stream: None,
        stream_parts: Vec::new(),
        latency: None,
        write_buffer,
        source,
        labels: labels(table)?,
        ublk: single_disk::ublk(table)?,
        line,
    })
}

/// The part of the disks that the value says.
fn zone_in(value: &Value<'_>) -> Result<Zone, InputError> {
    zone_of(value.text(ZONE_WORDS)?).ok_or_else(|| value.refuse(ZONE_WORDS))
}

/// How a volume's blocks are placed, and how many copies of each there are.
fn layout(table: &Table<'_>) -> Result<Layout, InputError> {
    let layout = one_of(table.value("layout"), &LAYOUTS, Layout::Single)?;
    let Some(value) = table.value("copies") else { return Ok(layout) };
    if !layout.is_mirror() {
        return Err(value.refuse("no `copies` without `layout = \"mirror\"`"));
    }
    let copies = value.integer(2..=u64::from(Copies::MAX), "")?;
    let copies = u8::try_from(copies).ok().and_then(Copies::new);
    Ok(Layout::Mirror(copies.expect("the range is that of copies")))
}

/// A size that the disks could hold if they were empty.
fn whole_blocks(
    value: &Value<'_>,
    (layout, zone): (Layout, Zone),
    on: &[DiskIndex],
    disks: &[Disk],
) -> Result<Bytes, InputError> {
    let size = value.size()?;
    let block = BLOCK_SECTORS.bytes();
    if !size.0.is_multiple_of(block.0) {
        let block = size_text(block);
        return Err(value.refuse(format_args!("a multiple of {block} (the blocks of a pool)")));
    }
    let capacity = on.iter().map(|disk| disks[disk.0].zone(zone).len.bytes().0);
    let capacity = match layout {
        Layout::Stripe => capacity.clone().min().unwrap_or(0) * on.len() as u64,
        Layout::Single | Layout::Random => capacity.sum(),
        // Each disk has all blocks, or as many columns as there are copies.
        Layout::Mirror(copies) if copies.number() == on.len() => capacity.min().unwrap_or(0),
        Layout::Mirror(copies) => {
            let blocks = capacity.min().unwrap_or(0) / block.0 / copies.number() as u64;
            blocks * block.0 * on.len() as u64
        }
    };
    let most = capacity.min(bytes(Blocks(VOLUME_BLOCKS_MAX)).0);
    if size.0 > most {
        let most = most / block.0;
        return Err(value
            .refuse(format_args!("at most {most}MiB (what its disks can hold)"))
            .as_refusal());
    }
    Ok(size)
}

fn bytes(blocks: Blocks) -> Bytes {
    blocks.sectors().bytes()
}

/// The disks that the value names: at least one, none twice, each of them in `known`, whose indices
/// are those of `names`. `unfit` returns what is wrong with a disk.
fn some_of(
    value: &Value<'_>,
    (names, kind): (&Names<'_>, &str),
    known: &[DiskIndex],
    unfit: impl Fn(DiskIndex) -> Option<String>,
) -> Result<Vec<DiskIndex>, InputError> {
    let mut found: Vec<DiskIndex> = Vec::new();
    for element in value.elements(DISKS_MAX, format_args!("the name of a {kind}"))? {
        let disk = known[names.find(&element, kind)?];
        if found.contains(&disk) {
            return Err(element.refuse("each disk once"));
        }
        if let Some(expected) = unfit(disk) {
            return Err(element.refuse(expected));
        }
        found.push(disk);
    }
    if found.is_empty() {
        return Err(value.refuse(format_args!("at least one disk, {DISKS}")));
    }
    Ok(found)
}

fn above_zero(table: &Table<'_>, key: &str, default: Share) -> Result<Share, InputError> {
    let Some(value) = table.value(key) else { return Ok(default) };
    let share = value.share()?;
    if share.is_none() { Err(value.refuse("a share above 0%")) } else { Ok(share) }
}

/// An error about the value of `key`, or about its absence.
fn refused(table: &Table<'_>, key: &str, expected: &str) -> InputError {
    let value = table.value(key);
    value.map_or_else(|| table.missing(key, expected), |value| value.refuse(expected))
}
