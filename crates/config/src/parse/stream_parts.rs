//! `parts` of a stream of a pool's volume: which part of the volume each of its disks has, so that
//! each keeps the stream only while play is there.

use input::{InputError, Table, list, size_text, time_text};
use units::{Bytes, Instant};
use volume::pool::limits::BLOCK_SECTORS;
use volume::pool::{Blocks, Layout};

use crate::demand::{reached, span_on};
use crate::keys::STREAM;
use crate::limits::DISKS_MAX;
use crate::plan::{Disk, PoolVolume, layout_name};

/// The number of the volume's blocks on each of its disks; none if its stream has no `parts`.
pub(crate) fn check(
    table: &Table<'_>,
    disks: &[Disk],
    volume: &PoolVolume,
) -> Result<Vec<Blocks>, InputError> {
    let (Some(value), Some(stream)) = (table.value("stream"), volume.stream) else {
        return Ok(Vec::new());
    };
    let fields = value.table(&STREAM)?;
    let Some(value) = fields.value("parts") else { return Ok(Vec::new()) };
    if let Some(missing) = missing(&fields, volume) {
        return Err(value.refuse(missing));
    }
    let names: Vec<&str> = volume.disks.iter().map(|disk| disks[disk.0].name.as_str()).collect();
    let each = format!("one size for each of the volume's disks {}", list(names.iter(), '"'));
    let elements = value.elements(DISKS_MAX, &each)?;
    if elements.len() != names.len() {
        return Err(value.refuse(each));
    }
    let block = BLOCK_SECTORS.bytes();
    let mut parts = Vec::new();
    for (element, disk) in elements.iter().zip(&volume.disks) {
        let size: Bytes = element.quantity("a size such as 3GiB")?;
        let most = disks[disk.0].zone(volume.zone).len.0 / BLOCK_SECTORS.0;
        let blocks = size.0 / block.0;
        if blocks == 0 || !size.0.is_multiple_of(block.0) || blocks > most {
            let (least, name) = (size_text(block), &disks[disk.0].name);
            return Err(element.refuse(format_args!(
                "a multiple of {least}, at most {most}MiB (what disk \"{name}\" can hold)"
            )));
        }
        parts.push(Blocks(u32::try_from(blocks).expect("a disk's blocks are bounded")));
    }
    let sum: u64 = parts.iter().map(|part| u64::from(part.0)).sum();
    if sum != u64::from(volume.blocks().0) {
        let size = size_text(volume.size);
        return Err(value.refuse(format_args!("sizes of {size} together (the size of the volume)")));
    }
    // Play has to come to each of them.
    let volume = PoolVolume { stream_parts: parts, ..volume.clone() };
    let late = volume.disks.iter().zip(0..).find(|(disk, _)| span_on(&volume, **disk).is_none());
    if let Some((disk, place)) = late {
        let at = reached(&volume, stream.requested, place);
        let (at, name) = (time_text(at.since(Instant::ZERO)), &disks[disk.0].name);
        return Err(fields.require("span", "a span")?.refuse(format_args!(
            "an end after {at}, when play comes near to the part on disk \"{name}\""
        )));
    }
    Ok(volume.stream_parts)
}

/// What the volume or its stream lacks, or has, so that its parts say nothing.
fn missing(fields: &Table<'_>, volume: &PoolVolume) -> Option<String> {
    if volume.layout != Layout::Single {
        let (layout, single) = (layout_name(volume.layout), layout_name(Layout::Single));
        return Some(format!(
            "no parts, or layout \"{single}\": no disk of layout \"{layout}\" has one part of the \
             volume alone"
        ));
    }
    if !volume.is_sequential() {
        let jumps = "a client that jumps may come to any disk at any time";
        return Some(format!("`order = \"sequential\"` beside it: {jumps}"));
    }
    if fields.value("span").is_none() {
        return Some("a `span` beside it: play begins at its start".to_owned());
    }
    if volume.from.is_some() {
        return Some("no parts while the volume is moved: they are not where they were".to_owned());
    }
    let shares = "its blocks are where those of its source are";
    volume.source.as_ref().map(|_| format!("no parts of a volume with a `source`: {shares}"))
}
