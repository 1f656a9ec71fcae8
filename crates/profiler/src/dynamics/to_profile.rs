//! What was found of the dynamics, in the profile that the engine takes.

use drive_profile::{Band, CommandOverheads, Profile, SeekTable};
use units::{Duration, Sectors};

use super::findings::{Dynamics, Overheads, Seeks};
use super::num::{duration, ns, part, whole};
use crate::{Facts, Figure};

/// The smallest and the largest chunk that is worth while: a block of a file system, and what operating systems use.
const CHUNKS: (u64, u64) = (8, 256);
/// A band with smaller ones was not measured.
pub const CHUNK_MIN: Sectors = Sectors(CHUNKS.0);

/// A chunk is shorter than the likeliest by no more than this part.
const LESS_PART: f64 = 32.0;

impl Seeks {
    /// As the engine takes it.
    pub fn curve(&self) -> SeekTable {
        SeekTable { points: self.points.iter().map(|point| (point.distance, point.time)).collect() }
    }

    /// What single movements vary by, on the mean over ways between places drawn evenly.
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
    /// Puts what was found into a profile that says where sectors lie; what was not found stays as it is.
    pub fn apply(&self, profile: &mut Profile, facts: &Facts) {
        if let Some(seek) = &self.seek {
            profile.seek = seek.curve();
            profile.seek_variation = seek.variation();
        }
        if let Some(seek) = self.seek_write.as_ref().or(self.seek.as_ref()) {
            profile.seek_write = seek.curve();
        }
        let Overheads { hit, read, cached, write, seek, bus_read, bus_write, .. } = self.overheads;
        let value = |figure: Option<Figure<Duration>>| figure.map(|figure| figure.value);
        // The way of a block over the bus comes after the block: a read of one begins to be foretold there.
        let bus_sector = value(bus_read).unwrap_or(profile.bus_sector);
        let completion = bus_sector * facts.block.0;
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
        profile.seek_command = facts.seeks;
        if let Some(buffer) = &self.write_buffer {
            profile.write_cache = buffer.answers_early;
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

/// What a command takes that memory answers, in ns, each with its error.
#[derive(Clone, Copy, Debug)]
struct Line {
    overhead: (f64, f64),
    sector: (f64, f64),
}

impl Line {
    /// Of figures, or of what is known where there are none.
    fn of(figures: [Option<Figure<Duration>>; 2], known: [Duration; 2]) -> Self {
        let one = |nth: usize| match figures[nth] {
            Some(figure) => (ns(figure.value), ns(figure.spread)),
            None => (ns(known[nth]), 0.0),
        };
        Self { overhead: one(0), sector: one(1) }
    }
}

/// The smallest command that keeps up with the media: its overhead and its time on the bus pass while so many sectors do.
///
/// Of those that it may be, one from the lower end: one that is a sector too long makes one command of a request of two
/// chunks, and who comes then waits twice as long; one that is a sector too short costs that sector's time. But who
/// hardly knows is not to cut too fine.
fn chunk(band: &Band, period: Duration, line: Line) -> Sectors {
    let pass = ns(period) / part(band.sectors_per_track.into());
    let gained = (pass - line.sector.0).max(1.0);
    let likeliest = line.overhead.0 / gained;
    let (one, other) = (line.overhead.1 / gained, likeliest * line.sector.1 / gained);
    let off = 2.0 * (one * one + other * other).sqrt();
    let least = likeliest - off.min(likeliest / LESS_PART);
    Sectors(whole(least.ceil()).clamp(CHUNKS.0, CHUNKS.1))
}
