//! One stream under the guard.

use units::{DiskTime, Instant};

use super::byte_blocks::ByteBlocks;
use crate::policy::deadline::{DemandForecast, Rate, Releases};

/// The guarantee of one stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) blocks: Box<ByteBlocks>,
    /// Whether its volume has a reserve besides.
    pub(super) has_reserve: bool,
    /// Whether it releases blocks.
    pub(super) is_active: bool,
    /// The utilization of its task.
    pub(super) rate: Rate,
    /// The cost of the preemption that it may cause.
    pub(super) extra: DiskTime,
    /// The worst case of its volume's next command; `None` if nothing is queued.
    pub(super) head: Option<DiskTime>,
    /// The deadline of its head while that is real time.
    pub(super) due: Option<Instant>,
    /// Whether the selector does not serve its head: it is real time, or more is to be gathered.
    pub(super) is_withheld: bool,
}

impl Stream {
    /// Adds what its block, and those that may be released from now on, demand.
    pub(super) fn forecast(
        &self,
        forecast: &mut DemandForecast,
        preemption: DiskTime,
        now: Instant,
    ) {
        debug_assert!(self.is_active, "a stream demands nothing before");
        let task = self.blocks.task();
        if let (Some(due), Some(head)) = (self.due, self.head) {
            let rest = self.blocks.remaining(head, preemption);
            forecast.add_pending(due, rest + self.extra);
        }
        let releases = Releases {
            at_once: 0,
            first: self.blocks.next_release(now),
            period: task.period(),
            deadline: task.period(),
            cost: task.cost() + self.extra,
            rate: self.rate,
        };
        forecast.add_releases(releases, now);
    }
}
