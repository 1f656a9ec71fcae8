//! The profile of the findings, as the engine takes it.

use units::{Duration, Sectors};

use super::dynamics::{Dynamics, Overheads, Seeks};
use super::figure::Figure;
use super::number::{duration, ns, real, round};
use crate::{Band, BufferSegments, CommandOverheads, Profile, SeekTable};

/// The smallest and the largest useful chunk: a block of a file system, and the largest command
/// that operating systems commonly issue.
const CHUNKS: (u64, u64) = (8, 256);
/// The smallest chunk that is measured: the chunks of a band with smaller ones are not.
pub const CHUNK_MIN: Sectors = Sectors(CHUNKS.0);

/// A chunk is shorter than the most probable one by at most this part of it.
const REDUCTION_PART: f64 = 32.0;

impl Seeks {
    /// The curve as the engine takes it.
    pub fn curve(&self) -> SeekTable {
        SeekTable { points: self.points.iter().map(|point| (point.distance, point.time)).collect() }
    }

    /// The standard deviation of single seeks, averaged over uniformly random cylinders.
    pub fn variation(&self) -> Duration {
        let last = self.points.last().map_or(1.0, |point| f64::from(point.distance) + 1.0);
        let (mut sum, mut weights, mut before) = (0.0, 0.0, 0.0);
        for point in &self.points {
            let distance = f64::from(point.distance);
            let weight = (distance - before) * (last - distance);
            sum += weight * ns(point.variation);
            weights += weight;
            before = distance;
        }
        duration(sum / f64::max(weights, 1.0))
    }
}

impl Dynamics {
    /// Adds these findings to a profile with a map. Values that were not found stay as they are.
    /// `block` is the target's logical block, and `seek_command` whether it takes seek commands.
    pub fn apply(&self, profile: &mut Profile, block: Sectors, seek_command: bool) {
        if let Some(seek) = &self.seek {
            profile.seek = seek.curve();
            profile.seek_variation = seek.variation();
        }
        if let Some(seek) = self.seek_write.as_ref().or(self.seek.as_ref()) {
            profile.seek_write = seek.curve();
        }
        let Overheads { hit, read, cached, write, seek, bus_read, bus_write, .. } = self.overheads;
        let value = |figure: Option<Figure<Duration>>| figure.map(|figure| figure.value);
        // The transfer of a block on the bus follows the block's passing: the prediction of a read
        // of one block ends before it.
        let bus_sector = value(bus_read).unwrap_or(profile.bus_sector);
        let completion = bus_sector * block.0;
        let read = value(read).map(|read| read.saturating_sub(completion));
        let write = value(write).map(|write| write.saturating_sub(completion));
        let known = profile.overheads;
        profile.overheads = CommandOverheads {
            hit: value(hit).unwrap_or(known.hit),
            read: read.unwrap_or(known.read),
            cached: value(cached).or(write).unwrap_or(known.cached),
            write: write.or(read).unwrap_or(known.write),
            seek: value(seek).unwrap_or(known.seek),
        };
        profile.bus_sector = bus_sector;
        profile.completion = completion;
        profile.seek_command = seek_command;
        if let Some(buffer) = &self.write_buffer {
            profile.write_cache = buffer.write_back;
        }
        if let Some(buffer) = &self.read_buffer {
            // Where it was not observed whether a read waits for its sectors, none is expected to.
            let waits = buffer.waits == Some(true);
            let goes_on = waits && !buffer.ends_with_track && buffer.keeps != Some(false);
            let read_ahead = if goes_on { buffer.ahead.value } else { Sectors::ZERO };
            profile.read_buffer = BufferSegments {
                segments: buffer.segments.value,
                segment: buffer.segment.value,
                read_ahead: read_ahead.min(buffer.segment.value),
                read_ahead_max: buffer.ahead.value.min(buffer.segment.value),
            };
        }
        self.heads(profile);
        let period = profile.rotation_period;
        let known = profile.overheads;
        let reads = Line::of([hit, bus_read], [known.hit, bus_sector]);
        let writes = Line::of([cached, bus_write.or(bus_read)], [known.cached, bus_sector]);
        for band in &mut profile.bands {
            band.chunk_read = chunk(band, period, reads);
            band.chunk_write = chunk(band, period, writes);
        }
    }

    fn heads(&self, profile: &mut Profile) {
        let Overheads { head_switch, head_switch_write, .. } = self.overheads;
        if let Some(head_switch) = head_switch {
            profile.head_switch = head_switch.value;
        }
        if let Some(write) = head_switch_write {
            profile.write_settle = write.value.saturating_sub(profile.head_switch);
        }
    }
}

/// The service time of a cache hit as a line over its length: height and slope in ns, each with
/// its standard error.
#[derive(Clone, Copy, Debug)]
struct Line {
    overhead: (f64, f64),
    sector: (f64, f64),
}

impl Line {
    /// The line of `figures`, with the `known` values where a figure is missing.
    fn of(figures: [Option<Figure<Duration>>; 2], known: [Duration; 2]) -> Self {
        let one = |nth: usize| match figures[nth] {
            Some(figure) => (ns(figure.value), ns(figure.spread)),
            None => (ns(known[nth]), 0.0),
        };
        Self { overhead: one(0), sector: one(1) }
    }
}

/// The smallest command that keeps up with the media: its overhead and its bus time are no longer
/// than its sectors take to pass under the head.
///
/// The result is at the lower end of its confidence interval. A chunk that is one sector too long
/// makes one command of a request of two chunks, and doubles the wait of a request that arrives
/// meanwhile. A chunk that is one sector too short costs that sector's time. The reduction is
/// limited, because an uncertain estimate would reduce the chunk too far.
fn chunk(band: &Band, period: Duration, line: Line) -> Sectors {
    let pass = ns(period) / real(band.sectors_per_track.into());
    let gained = (pass - line.sector.0).max(1.0);
    let most_probable = line.overhead.0 / gained;
    let (one, other) = (line.overhead.1 / gained, most_probable * line.sector.1 / gained);
    let off = 2.0 * (one * one + other * other).sqrt();
    let least = most_probable - off.min(most_probable / REDUCTION_PART);
    Sectors(round(least.ceil()).clamp(CHUNKS.0, CHUNKS.1))
}
