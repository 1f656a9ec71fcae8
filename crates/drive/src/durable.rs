//! What it costs to make writes durable in each way past a drive's write buffer.
//!
//! A drive with a write buffer completes a write before it is on the medium. There are three ways
//! to have it there: the write is forced (FUA), the buffer is switched off, or a flush follows.
//! What each costs depends on the drive: by how much a second command delays the first, whether the
//! drive orders its queue or its buffer better, and what a log on the disk does. So the drive's
//! model is asked, with the writes of a volume whose writes are buffered by the host.

use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::durable_costs::{CacheBypass, DurableCost, DurableCosts};
use crate::{Device, Model, Spec, Tag};

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

impl Model {
    /// What writes cost that are to be durable; `None` if it has no write buffer. The first call
    /// takes some milliseconds.
    pub fn durable_costs(self: &Arc<Self>) -> Option<DurableCosts> {
        *self.durable_memo().get_or_init(|| DurableCosts::of(self))
    }
}

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
}
