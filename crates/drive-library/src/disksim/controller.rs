//! `disksim_disk`, and the bus and controller above it: overheads, buffer, bus protocol.

use drive::{
    AGE_LIMIT_MAX, Bus, Choosing, Discipline, ExtraDisconnect, Firmware, Overheads,
    QUEUE_DEPTH_MAX, ReadAhead, ReadBuffer, SEGMENTS_MAX, WriteAhead,
};
use units::{Duration, Sectors, Share};

use super::mechanics::{milliseconds, time};
use super::tree::{Block, Node, Tree};
use super::warning::{Warning, Warnings};
use input::InputError;

const SEGMENT_SECTORS_MAX: u64 = 1 << 24;
const AHEAD_MAX: &str = "Maximum read-ahead (blks)";
/// The sectors of a write that are in the buffer before the media begins, for a drive with an extra
/// disconnection.
const AHEAD: WriteAhead =
    WriteAhead::Sectors { short: Sectors(10), long: Sectors(45), of_long: Sectors(15) };

/// The electronics of a disk.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) overheads: Overheads,
    pub(crate) overheads_after_write: Overheads,
    pub(crate) bus_sector: Duration,
    pub(crate) read_buffer: ReadBuffer,
    pub(crate) write_buffer: Sectors,
    pub(crate) write_cache: bool,
    pub(crate) queue_depth_max: u32,
    pub(crate) discipline: Discipline,
    pub(crate) firmware: Firmware,
}

/// The times that the bus and the controller above the disk add.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub(crate) read_sector: Duration,
    pub(crate) write_sector: Duration,
}

/// The times of one disk, multiplied by its scale.
struct Times<'b> {
    block: &'b Block,
    scale: f64,
}

impl Times<'_> {
    fn of(&self, key: &str) -> Result<Duration, InputError> {
        let number = self.block.number(key)?.unwrap_or(0.0) * self.scale;
        milliseconds(self.block.at(key), key, number)
    }
}

pub(crate) fn read(
    disk: &Block,
    path: Path,
    warnings: &mut Warnings,
) -> Result<Controller, InputError> {
    let scale_key = "Time scale for overheads";
    let scale = disk.number(scale_key)?.unwrap_or(1.0);
    let times = Times { block: disk, scale };
    let fast = disk.whole_or("Fast write level", (0, 2), 0)? > 0;
    let own = time(disk, "Bulk sector transfer time")?;
    let bus_sector = own.max(path.read_sector);
    let write_sector = own.max(path.write_sector);
    let read_buffer = buffer(disk)?;
    let segment = disk.whole_or("Segment size (in blks)", (0, SEGMENT_SECTORS_MAX), 0)?;
    let write_segments =
        disk.whole_or("Maximum number of write segments", (0, SEGMENTS_MAX.into()), 1)?;
    let separate = disk.flag("Use separate write segment")?;
    let kept = Kept::read(disk, warnings)?;
    let mut firmware = firmware(disk, kept)?;
    firmware.writes_in_segments = !separate && disk.flag("Allow read hits on write data")?;
    if fast {
        firmware.write_segments = u32::try_from(write_segments.max(1)).expect("in its range");
    }
    firmware.bus = bus(disk, &times)?;
    firmware.bus.write_sector = (write_sector != bus_sector).then_some(write_sector);
    // The scale of overheads applies to this delay too.
    firmware.write_seek_min = times.of("Minimum seek delay")?;
    let depth = disk.whole_or("Max queue length", (0, QUEUE_DEPTH_MAX.into()), 1)?.max(1);
    let overheads_after_read = overheads(&times, "read", fast)?;
    Ok(Controller {
        overheads: overheads_after_read,
        overheads_after_write: overheads(&times, "write", fast)?,
        bus_sector,
        read_buffer,
        write_buffer: Sectors(if fast { segment * write_segments.max(1) } else { 0 }),
        write_cache: fast,
        queue_depth_max: u32::try_from(depth).expect("in its range"),
        discipline: discipline(disk, depth, &overheads_after_read)?,
        firmware,
    })
}

/// The order in which the disk serves its queue. With a queue of one command all orders are equal.
fn discipline(disk: &Block, depth: u64, overheads: &Overheads) -> Result<Discipline, InputError> {
    if depth == 1 || disk.find("Scheduler").is_none() {
        return Ok(Discipline::Fifo);
    }
    let queue = disk.block("Scheduler", "a disksim_ioqueue block")?;
    let key = "Scheduling policy";
    match queue.whole_or(key, (0, u64::MAX), 1)? {
        0 | 1 => Ok(Discipline::Fifo),
        4 | 7 => Ok(Discipline::ShortestSeek(choosing(overheads))),
        8..=10 => Ok(Discipline::ShortestPositioning(choosing(overheads))),
        other => {
            let expected = "1 (first come first served), 4 or 7 (shortest seek), 8, 9 or 10 \
                 (shortest \
                            positioning) in a disk that holds more than one command";
            Err(queue.at(key).refuse(key, Some(&other.to_string()), expected))
        }
    }
}

/// The queue discipline of drives from these files. Commands there do not age. The decision latency
/// is the electronics' time for a command without a seek, a hit after a read: the earliest time
/// after a choice at which it takes effect.
pub(crate) fn choosing(overheads: &Overheads) -> Choosing {
    Choosing {
        age_limit: AGE_LIMIT_MAX,
        stream_hold: Duration::ZERO,
        decision_latency: overheads.read_hit,
    }
}

fn overheads(times: &Times<'_>, after: &str, fast: bool) -> Result<Overheads, InputError> {
    let each = times.of("Per-request overhead time")?;
    let of = |what: &str| times.of(&format!("{what} over. after {after}"));
    // A drive that acknowledges writes early has one overhead for all of them.
    let write = if fast { of("Write hit")? } else { of("Write miss")? };
    Ok(Overheads {
        read_hit: each + of("Read hit")?,
        read_miss: each + of("Read miss")?,
        write_cached: each + write,
        write_media: each + write,
        control: each,
    })
}

fn buffer(disk: &Block) -> Result<ReadBuffer, InputError> {
    let segments = disk.whole_or("Number of buffer segments", (0, SEGMENTS_MAX.into()), 1)?;
    let separate = u64::from(disk.flag("Use separate write segment")?);
    let segment = disk.whole_or("Segment size (in blks)", (0, SEGMENT_SECTORS_MAX), 0)?;
    let most = disk.whole_or(AHEAD_MAX, (0, SEGMENT_SECTORS_MAX), 0)?;
    let caching = disk.whole_or("Enable caching in buffer", (0, 2), 1)? > 0;
    let reads = if caching && segment > 0 { segments.saturating_sub(separate) } else { 0 };
    // Without a value, a whole segment.
    let most = if most == 0 { segment } else { most };
    Ok(ReadBuffer {
        segments: u32::try_from(reads).expect("in its range"),
        segment: Sectors(segment),
        read_ahead_max: Sectors(most.min(segment)),
    })
}

/// What becomes of the sectors of a read, in their segment, beside the read-ahead that follows:
/// "Read-ahead over requested".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// They stay, and the read-ahead ends when the segment is full (0).
    Requested,
    /// The read-ahead may replace them (1).
    Replaced,
    /// They leave the segment when the read is done (-1).
    Erased,
}

impl Kept {
    fn read(disk: &Block, warnings: &mut Warnings) -> Result<Self, InputError> {
        let key = "Read-ahead over requested";
        let number = disk.number(key)?.unwrap_or(0.0);
        let is = |one: f64| (number - one).abs() < f64::EPSILON;
        if is(-1.0) {
            let made = "the sectors of a read leave their segment when it is done, so that the \
                        whole segment is for read-ahead";
            warnings.push(Warning::new(disk.at(key), key, made.to_owned()));
            return Ok(Self::Erased);
        }
        if is(0.0) || is(1.0) {
            return Ok(if is(0.0) { Self::Requested } else { Self::Replaced });
        }
        Err(disk.at(key).refuse(key, Some(&number.to_string()), "-1, 0 or 1"))
    }
}

fn firmware(disk: &Block, kept: Kept) -> Result<Firmware, InputError> {
    let immediate = |key| disk.flag(key);
    Ok(Firmware {
        read_ahead: match disk.whole_or("Buffer continuous read", (0, 4), 0)? {
            0 => ReadAhead::Never,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            // Without a largest read-ahead, until the segment is full.
            3 if disk.whole_or(AHEAD_MAX, (0, SEGMENT_SECTORS_MAX), 0)? == 0
                && kept == Kept::Requested =>
            {
                ReadAhead::Segment
            }
            3 => ReadAhead::Fixed,
            _ => ReadAhead::TrackAndNext,
        },
        strict_hits: !disk.flag("Allow almost read hits")?,
        rest_on_hit: !disk.flag("Read-ahead on idle hit")?,
        discard_after_read: kept == Kept::Erased,
        whole_track: disk.flag("Read any free blocks")?,
        zero_latency_read: immediate("Immediate buffer read")?,
        zero_latency_write: immediate("Immediate buffer write")?,
        ..Firmware::default()
    })
}

fn bus(disk: &Block, times: &Times<'_>) -> Result<Bus, InputError> {
    let never = disk.flag("Never disconnect")?;
    let parted = |key| if never { Ok(Duration::ZERO) } else { times.of(key) };
    let extra = disk.flag("Extra write disconnect")?;
    let extra_disconnect = ExtraDisconnect {
        command: times.of("Extradisc command overhead")?,
        disconnect: times.of("Extradisc disconnect overhead")?,
        pause: times.of("Extradisc inter-disconnect delay")?,
        second_disconnect: times.of("Extradisc 2nd disconnect overhead")?,
        second_reselect: times.of("Other reselect overhead")?,
        seek_delay: times.of("Extradisc seek delta")?,
    };
    let mark = "High (read) water mark";
    let share = disk.number(mark)?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&share) {
        return Err(disk.at(mark).refuse(mark, Some(&share.to_string()), "a share from 0 to 1"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the whole"
    )]
    let share = Share::from_ppb((share * 1e9).round() as u32);
    Ok(Bus {
        write_sector: None,
        read_disconnect: parted("Read disconnect afterread")?,
        read_disconnect_after_write: parted("Read disconnect afterwrite")?,
        write_disconnect: parted("Write disconnect overhead")?,
        reselect: parted("First reselect overhead")?,
        prepare: times.of("Data preparation overhead")?,
        read_done: times.of("Read completion overhead")?,
        write_done: times.of("Write completion overhead")?,
        // A drive that keeps the bus transfers each sector as it arrives.
        read_share: if never { Share::NONE } else { share },
        write_ahead: if extra && !never { AHEAD } else { WriteAhead::One },
        extra_disconnect: (extra && !never).then_some(extra_disconnect),
    })
}

/// The path between the host and the disk: the slowest of its buses and controllers.
pub(crate) fn path(tree: &Tree, disk: &str) -> Result<Path, InputError> {
    let instances: Vec<&str> = tree
        .instances
        .iter()
        .filter(|(_, block)| block == disk)
        .map(|(name, _)| name.as_str())
        .collect();
    let mut above = Vec::new();
    for node in &tree.topology {
        if find(node, &instances, &mut above) {
            break;
        }
    }
    let mut path = Path::default();
    for name in above {
        let block = tree.instances.iter().find(|(instance, _)| *instance == name);
        let Some(block) = block.and_then(|(_, kind)| tree.blocks.iter().find(|b| b.name == *kind))
        else {
            continue;
        };
        let (read, write) = match block.kind.as_str() {
            "disksim_bus" => (
                time(block, "Read block transfer time")?,
                time(block, "Write block transfer time")?,
            ),
            "disksim_ctlr" => {
                let both = time(block, "Bulk sector transfer time")?;
                (both, both)
            }
            _ => continue,
        };
        path.read_sector = path.read_sector.max(read);
        path.write_sector = path.write_sector.max(write);
    }
    Ok(path)
}

/// The names above the first of the instances, if the node has one below it.
fn find(node: &Node, instances: &[&str], above: &mut Vec<String>) -> bool {
    if instances.contains(&node.name.as_str()) {
        return true;
    }
    above.push(node.name.clone());
    if node.children.iter().any(|child| find(child, instances, above)) {
        return true;
    }
    above.pop();
    false
}
