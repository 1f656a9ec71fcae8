//! A write buffer that is emptied before a read: writes that continue the run on its way to the
//! disk, and the wait of a read or of a forced write.

use units::{Duration, Extent, Instant, Sectors};

use super::Device;
use crate::mechanism::{Feed, Transfer};

impl Device {
    /// Accepts a write of `extent` that continues a run too long for its segment, from when the run
    /// goes to the disk and as far as the media have taken it. Returns when the transfer of its
    /// data begins and when all of it is in the buffer; `None` for another write.
    pub(super) fn continue_run(
        &mut self,
        extent: Extent,
        ready: Instant,
        carried: Sectors,
    ) -> Option<(Instant, Instant)> {
        let run_max = self.model.firmware().destage_before_read?.run_max;
        let mut from = ready;
        let end = loop {
            match self.writes.under_way(from) {
                Some((run, end)) if run.end() == extent.start => break end,
                _ if !self.writes.ends_at(extent.start) || self.writes.fits(extent, from) => {
                    return None;
                }
                Some((_, end)) => from = end,
                None => drop(self.destage(from)),
            }
        };
        let bus = self.model.firmware().bus;
        let data = from + bus.prepare;
        let sector = self.model.bus_write(Sectors(carried.0.min(1)));
        let feed = Feed { gate: data + sector, first: data + sector, sector };
        let mark = extent.len.0.saturating_sub(run_max.0);
        let order =
            Transfer { write: true, at: from, settled: from, feed, mark, zero_latency: false };
        let access = self.mechanism.access(&self.model, extent, &order);
        // The segment has room for all of it when the media have written up to its length before.
        let room = if mark > 0 {
            access.marked
        } else {
            let ahead = run_max.0 - extent.len.0;
            let time = access.end.since(access.first).as_nanos() / extent.len.0 * ahead;
            let until = end.since(Instant::ZERO).saturating_sub(Duration::from_nanos(time));
            Instant::ZERO + until
        };
        let at = room.max(data + self.model.bus_write(carried)) + bus.write_done;
        let tail = extent.len.0.min(run_max.0);
        let tail = Extent::new(extent.start + Sectors(extent.len.0 - tail), Sectors(tail));
        self.writes.begun(tail, access.end);
        Some((from, at))
    }

    /// Writes all cached runs to the disk, if the drive does so before a command that needs the
    /// media. Returns when the command can begin.
    pub(super) fn destage_first(&mut self, start: Instant) -> Instant {
        if self.model.firmware().destage_before_read.is_none() {
            return start;
        }
        let mut at = self.writes.under_way(start).map_or(start, |(_, end)| end);
        while let Some(access) = self.destage(at) {
            at = access.end;
        }
        at
    }
}
