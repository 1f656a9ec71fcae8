//! The contract of a pool volume's stream on each of its disks.

use engine::WorstCase;
use engine::stream::RequestedStream;
use input::{InputError, Table, size_text};
use volume::pool::Layout;

use super::stream::{kept, refuse_block, requested_stream, span, too_seldom};
use super::words::one_of;
use crate::demand::{Spread, task_on_pool_disk as task};
use crate::keys::STREAM;
use crate::plan::{
    Disk, DiskIndex, ORDERS, PoolStream, PoolVolume, StreamOrder, layout_copies, layout_name,
    order_name,
};

/// The requested stream, if the table has one; its admission on the disks is checked elsewhere.
pub(crate) fn check(
    table: &Table<'_>,
    disks: &[Disk],
    volume: &PoolVolume,
) -> Result<Option<PoolStream>, InputError> {
    let Some(value) = table.value("stream") else { return Ok(None) };
    let fields = value.table(&STREAM)?;
    if let Some(thin) = table.value("thin").filter(|_| volume.thin) {
        return Err(thin.refuse("false beside a stream: it keeps no time for placing blocks"));
    }
    let spread = Spread::of(volume).disks();
    for disk in spread.iter().map(|disk| &disks[disk.0]) {
        kept(&value, disk, disk.worst_command().as_ref())?;
    }
    if let Some(range) = fields.value("range") {
        return Err(range.refuse("no range: blocks of a pool's volume lie anywhere in its zone"));
    }
    let policies = spread.iter().map(|disk| disks[disk.0].policy);
    let strict = policies.clone().find(|policy| policy.has_deadlines());
    let policy = strict.or_else(|| policies.clone().next()).expect("a volume is on a disk");
    let requested = requested_stream(table, &fields, policy)?;
    if requested.block > volume.size {
        let most = size_text(volume.size);
        return Err(refuse_block(&fields, format_args!("at most {most} (the size of the volume)")));
    }
    let order = order(&fields, volume.layout)?;
    let survive = survive(&fields, volume.layout)?;
    Ok(Some(PoolStream { requested, span: span(&fields)?, order, survive }))
}

/// How many disks may be lost before the stream is best effort. By default as many as the data
/// survive: each disk keeps the stream, for writes as well, because a write goes to all copies.
fn survive(fields: &Table<'_>, layout: Layout) -> Result<u8, InputError> {
    let most = layout_copies(layout).unwrap_or(1) - 1;
    let Some(value) = fields.value("survive") else { return Ok(most) };
    if !layout.is_mirror() {
        let layout = layout_name(layout);
        return Err(value.refuse(format_args!(
            "no `survive`, or layout \"mirror\": layout \"{layout}\" has one copy of each block"
        )));
    }
    let survive = value.integer(0..=u64::from(most), " (one less than its copies)")?;
    Ok(u8::try_from(survive).expect("the range is that of copies"))
}

/// The order in which the stream's client asks. One that asks in the volume's order comes to each
/// disk with a part of the blocks only if they are striped, or if `parts` say which disk has which:
/// a mirror's reads may go to any copy.
fn order(fields: &Table<'_>, layout: Layout) -> Result<StreamOrder, InputError> {
    let Some(value) = fields.value("order") else { return Ok(StreamOrder::Any) };
    match one_of(fields.value("order"), &ORDERS, StreamOrder::Any)? {
        StreamOrder::Sequential if layout == Layout::Single && fields.value("parts").is_none() => {
            let any = order_name(StreamOrder::Any);
            Err(value.refuse(format_args!(
                "\"{any}\", a stripe, or `parts` beside it: each disk of layout \"single\" may get \
                 every block"
            )))
        }
        StreamOrder::Sequential if !matches!(layout, Layout::Single | Layout::Stripe) => {
            let (any, layout) = (order_name(StreamOrder::Any), layout_name(layout));
            Err(value.refuse(format_args!(
                "\"{any}\", or a stripe: each disk of layout \"{layout}\" may get every block"
            )))
        }
        order => Ok(order),
    }
}

/// The stream's contract on one disk.
pub(crate) fn part(
    table: &Table<'_>,
    (disk, worst): (&Disk, &WorstCase),
    stream: PoolStream,
    spread: &Spread<'_>,
    index: DiskIndex,
) -> Result<engine::StreamContract, InputError> {
    let Some(task) = task((disk, worst), stream.requested, spread, index) else {
        let value = table.require("stream", "a stream")?;
        let RequestedStream { bandwidth, block } = stream.requested;
        // The longest period is that of a round of the disks.
        let round = match stream.order {
            StreamOrder::Any => block,
            StreamOrder::Sequential => block.max(spread.round()),
        };
        let requested = RequestedStream { bandwidth, block: round };
        return Err(too_seldom(&value.table(&STREAM)?, requested));
    };
    let range = Some(spread.reach(disk, index));
    let block = spread.longest_piece(disk, stream.requested.block);
    Ok(engine::StreamContract { task, block, range })
}
