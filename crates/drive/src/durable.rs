//! What it costs to make writes durable in each way past a drive's write buffer.
//!
//! A drive with a write buffer completes a write before it is on the medium. There are three ways
//! to have it there: the write is forced (FUA), the buffer is switched off, or a flush follows.
//! What each costs depends on the drive: by how much a second command delays the first, whether the
//! drive orders its queue or its buffer better, and what a log on the disk does. So the drive's
//! model is asked, with the writes of a volume whose writes are buffered by the host.

use core::fmt;
use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::{Device, Model, Spec, Tag};

/// A way past a drive's write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheBypass {
    /// Writes are forced (FUA). Those longer than a command go to the buffer, and a flush follows.
    Forced,
    /// The buffer is switched off.
    Off,
    /// Writes go to the buffer, and a flush follows those of one volume.
    Flushed,
}

impl CacheBypass {
    /// All of them, in the order that is taken where no costs are known: that of the library's
    /// drives with a buffer of 16 MiB or more.
    pub const ALL: [Self; 3] = [Self::Forced, Self::Flushed, Self::Off];
}

impl fmt::Display for CacheBypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forced => "forced writes",
            Self::Off => "off while served",
            Self::Flushed => "a flush after forced writes",
        })
    }
}

/// What durable writes cost in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableCost {
    /// One write of 4 KiB anywhere on the disk, alone.
    pub short: Duration,
    /// 32 of them that are outstanding at once, together.
    pub batch: Duration,
    /// 16 MiB in order, in commands of 1 MiB.
    pub long: Duration,
}

impl DurableCost {
    /// The mean of the three, each as a part of that of `base`, in thousandths.
    pub fn relative_to(&self, base: &Self) -> u64 {
        let part = |own: Duration, base: Duration| {
            debug_assert!(base > Duration::ZERO, "a write takes time");
            own.as_nanos() * 1_000 / base.as_nanos().max(1)
        };
        let three = [(self.short, base.short), (self.batch, base.batch), (self.long, base.long)];
        three.map(|(own, base)| part(own, base)).iter().sum::<u64>() / 3
    }

    fn slowed(&self, stretch: impl Fn(Duration) -> Duration) -> Self {
        debug_assert!(stretch(self.short) >= self.short, "a slowed drive is slower");
        Self { short: stretch(self.short), batch: stretch(self.batch), long: stretch(self.long) }
    }
}

/// What durable writes cost in each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableCosts {
    /// Of [`CacheBypass::Forced`].
    pub forced: DurableCost,
    /// Of [`CacheBypass::Off`].
    pub off: DurableCost,
    /// Of [`CacheBypass::Flushed`].
    pub flushed: DurableCost,
}

/// By how much a way has to be cheaper, in thousandths of the cost of forced writes, to be
/// preferred: less is within what drives of one kind differ by, and other volumes wait for a flush.
pub const CHEAPER_BY: u64 = 50;
/// Writes of each kind that are timed: the mean counts.
const SHORT: u64 = 64;
const BATCHES: u64 = 8;
const LONG: u64 = 8;
/// The writes of a batch.
const BATCH: u64 = 32;
const WRITE: Sectors = Sectors(8);
const COMMAND: Sectors = Sectors(2_048);
const DESTAGE: Sectors = Sectors(32_768);
/// Addresses that follow each other by this part of the disk, in units of 2⁻³², are spread evenly:
/// the golden ratio.
const SPREAD: u64 = 2_654_435_769;

impl DurableCosts {
    /// The costs of a drive; `None` if it has no write buffer.
    pub fn of(model: &Arc<Model>) -> Option<Self> {
        if !model.spec().write_cache || model.capacity() < DESTAGE {
            return None;
        }
        let off = Spec { write_cache: false, ..model.spec().clone() }.check().ok()?;
        debug_assert_eq!(off.capacity(), model.capacity(), "only the buffer differs");
        let off = Arc::new(off);
        Some(Self {
            forced: cost(model, CacheBypass::Forced),
            off: cost(&off, CacheBypass::Off),
            flushed: cost(model, CacheBypass::Flushed),
        })
    }

    /// The costs of one way.
    pub fn way(&self, way: CacheBypass) -> DurableCost {
        match way {
            CacheBypass::Forced => self.forced,
            CacheBypass::Off => self.off,
            CacheBypass::Flushed => self.flushed,
        }
    }

    /// The mean cost of one way, in thousandths of that of forced writes.
    pub fn relative(&self, way: CacheBypass) -> u64 {
        let relative = self.way(way).relative_to(&self.forced);
        debug_assert!(way != CacheBypass::Forced || relative == 1_000, "it is the base");
        relative
    }

    /// All ways, the cheapest first. One that costs less than those before it in
    /// [`CacheBypass::ALL`] by under [`CHEAPER_BY`] is not put before them.
    pub fn order(&self) -> [CacheBypass; 3] {
        let mut order = CacheBypass::ALL;
        for place in 1..order.len() {
            let mut at = place;
            while at > 0 && self.is_cheaper(order[at], order[at - 1]) {
                order.swap(at, at - 1);
                at -= 1;
            }
        }
        debug_assert!(!self.is_cheaper(order[1], order[0]), "in order");
        order
    }

    /// Whether a write and a flush take longer than a forced write by a tenth or more.
    pub fn flushes_cost(&self) -> bool {
        let (forced, flushed) = (self.forced.short.as_nanos(), self.flushed.short.as_nanos());
        debug_assert!(forced > 0, "a write takes time");
        flushed - flushed / 11 >= forced
    }

    fn is_cheaper(&self, way: CacheBypass, than: CacheBypass) -> bool {
        self.relative(way) + CHEAPER_BY <= self.relative(than)
    }

    /// The costs of the drive whose times are stretched so.
    #[must_use]
    pub fn slowed(&self, stretch: impl Fn(Duration) -> Duration) -> Self {
        Self {
            forced: self.forced.slowed(&stretch),
            off: self.off.slowed(&stretch),
            flushed: self.flushed.slowed(&stretch),
        }
    }
}

fn cost(model: &Arc<Model>, way: CacheBypass) -> DurableCost {
    let mut timed = Timed::new(model, way);
    let short = (0..SHORT).map(|_| timed.batch(1)).sum::<Duration>() / SHORT;
    let batch = (0..BATCHES).map(|_| timed.batch(BATCH)).sum::<Duration>() / BATCHES;
    let long = (0..LONG).map(|_| timed.long()).sum::<Duration>() / LONG;
    DurableCost { short, batch, long }
}

/// A drive that is given writes.
struct Timed {
    device: Device,
    way: CacheBypass,
    now: Instant,
    tag: u64,
    /// Addresses that were drawn.
    drawn: u64,
}

impl Timed {
    fn new(model: &Arc<Model>, way: CacheBypass) -> Self {
        let device = Device::new(Arc::clone(model));
        Self { device, way, now: Instant::ZERO, tag: 0, drawn: 0 }
    }

    /// Somewhere, with `len` sectors behind it.
    fn address(&mut self, len: Sectors) -> Lba {
        self.drawn += 1;
        let part = u128::from(self.drawn.wrapping_mul(SPREAD) & 0xffff_ffff);
        let blocks = u128::from((self.device.capacity() - len).0 / WRITE.0);
        let block = u64::try_from((blocks * part) >> 32).expect("a part of the disk");
        debug_assert!(block * WRITE.0 + len.0 <= self.device.capacity().0, "it is on the disk");
        Lba(block * WRITE.0)
    }

    fn submit(&mut self, operation: Operation) {
        self.device.submit(self.now, Tag(self.tag), operation);
        self.tag += 1;
    }

    /// Waits for a command.
    fn complete(&mut self) {
        self.now = self.device.next_completion().expect("a command is in the drive");
        let done = self.device.complete(self.now);
        debug_assert!(done.is_some(), "it is due");
    }

    /// Carries out these writes, with as many in the drive as it holds, and a flush if `flush`.
    fn carry_out(&mut self, writes: &[Operation], flush: bool) -> Duration {
        let begun = self.now;
        let depth = u64::from(self.device.model().queue_depth_max()).min(BATCH);
        for (index, write) in (0..).zip(writes) {
            if index >= depth {
                self.complete();
            }
            self.submit(*write);
        }
        while self.device.outstanding() > 0 {
            self.complete();
        }
        if flush {
            self.submit(Operation::flush());
            self.complete();
        }
        self.now.since(begun)
    }

    /// Short writes, in the order of their addresses.
    fn batch(&mut self, count: u64) -> Duration {
        let mut starts: Vec<Lba> = (0..count).map(|_| self.address(WRITE)).collect();
        starts.sort_unstable();
        let forced = self.way == CacheBypass::Forced;
        let write = |start: &Lba| {
            let write = Operation::write(Extent::new(*start, WRITE));
            if forced { write.with_fua() } else { write }
        };
        let writes: Vec<Operation> = starts.iter().map(write).collect();
        debug_assert_eq!(writes.len() as u64, count, "one for each address");
        self.carry_out(&writes, self.way == CacheBypass::Flushed)
    }

    fn long(&mut self) -> Duration {
        let start = self.address(DESTAGE).0;
        let commands = DESTAGE.0 / COMMAND.0;
        let command = |index| Extent::new(Lba(start + index * COMMAND.0), COMMAND);
        let writes: Vec<Operation> =
            (0..commands).map(|index| Operation::write(command(index))).collect();
        debug_assert_eq!(writes.len(), 16, "it is whole");
        self.carry_out(&writes, self.way != CacheBypass::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn each_way_costs_the_work_on_the_medium_at_least() {
        let model = Arc::new(samples::small().check().expect("a sound drive"));
        let costs = DurableCosts::of(&model).expect("it has a write buffer");
        for way in CacheBypass::ALL {
            let DurableCost { short, batch, long } = costs.way(way);
            println!("{way:?}: {short}, {batch}, {long}");
            assert!(short >= model.spec().overheads.write_cached, "{way:?}: {short}");
            assert!(batch > short, "{way:?}: {batch}");
            assert!(long > model.period(), "{way:?}: {long}");
        }
        // Its buffer is shorter than a command, and its queue is served in the order of arrival.
        assert_eq!(costs.order(), CacheBypass::ALL);
    }

    #[test]
    fn a_way_is_preferred_that_is_cheaper_by_more_than_drives_differ_by() {
        let cost = |short, batch, long| {
            let [short, batch, long] = [short, batch, long].map(Duration::from_millis);
            DurableCost { short, batch, long }
        };
        let forced = cost(10, 200, 100);
        let order = |off, flushed| DurableCosts { forced, off, flushed }.order();
        use CacheBypass::{Flushed, Forced, Off};
        // 4.7 % less, and 8 %.
        assert_eq!(order(forced, cost(10, 172, 100)), [Forced, Flushed, Off]);
        assert_eq!(order(forced, cost(10, 150, 100)), [Flushed, Forced, Off]);
        // Where it loses a revolution with each command.
        assert_eq!(order(cost(10, 200, 200), cost(11, 210, 100)), [Forced, Flushed, Off]);
        assert_eq!(order(cost(10, 200, 100), cost(20, 210, 100)), [Forced, Off, Flushed]);
    }
}
