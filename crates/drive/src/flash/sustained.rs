//! The rate at which a flash drive stores what is written to it for long, measured on its model:
//! its buffer answers faster, and its dies are not all busy all the time.

use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use super::device::FlashDevice;
use super::model::FlashModel;
use crate::completion::Tag;

/// The length of a write, and the number in the drive.
const BLOCK: Sectors = Sectors(128);
const DEPTH: u32 = 4;
/// Buffers that are written before the rate is taken, and while it is.
const WARM_UP: u64 = 8;
const BUFFERS: u64 = 24;
/// The most writes: with a larger buffer they do not show the rate.
const WRITES_MAX: u64 = 1 << 16;
/// The distance of two writes that do not continue each other, in blocks: coprime to any number of
/// blocks that has no such large factor.
const STRIDE: u64 = 0x9E37_79B1;

impl FlashModel {
    /// The mean time in which the drive stores a [stripe](Self::stripe), when it has been written
    /// to for so long that its buffer is full: writes that continue another, or not (`is_random`).
    pub fn sustained_store_time(self: &Arc<Self>, is_random: bool) -> Duration {
        let computed = self.store_time(is_random);
        let buffer = self.spec().memory.write_buffer.0.div_ceil(BLOCK.0);
        let (blocks, writes) = (self.capacity().0 / BLOCK.0, buffer * BUFFERS);
        if blocks < buffer || writes > WRITES_MAX {
            return computed;
        }
        let mut device = FlashDevice::new(Arc::clone(self));
        let (mut now, mut begin, mut outstanding) = (Instant::ZERO, Instant::ZERO, 0);
        for write in 0..writes {
            let block = if is_random { write * STRIDE % blocks } else { write % blocks };
            if outstanding == DEPTH.min(self.queue_depth_max()) {
                now = complete_one(&mut device, now);
                outstanding -= 1;
            }
            if write == buffer * WARM_UP {
                begin = now;
            }
            let extent = Extent::new(Lba(block * BLOCK.0), BLOCK);
            device.submit(now, Tag(write), Operation::write(extent));
            outstanding += 1;
        }
        let stored = (writes - buffer * WARM_UP) * BLOCK.0;
        let nanos = u128::from(now.since(begin).as_nanos()) * u128::from(self.stripe().0);
        let nanos = nanos / u128::from(stored);
        computed.max(Duration::from_nanos(u64::try_from(nanos).expect("a short time")))
    }
}

/// When the next command of the drive is completed.
fn complete_one(device: &mut FlashDevice, mut now: Instant) -> Instant {
    loop {
        if device.complete(now).is_some() {
            return now;
        }
        now = device.next_completion().expect("a command is in the drive").max(now);
    }
}
