//! What was found of the dynamics, in the profile that the engine takes.

use engine::{Band, CommandOverheads, Curve, Profile};
use units::{Duration, Sectors};

use super::findings::{Dynamics, Overheads, Seeks};
use super::num::{duration, ns, part, whole};
use crate::{Facts, Figure};

/// The smallest and the largest chunk that is worth while: a block of a file system, and what operating systems use.
const CHUNKS: (u64, u64) = (8, 256);

impl Seeks {
    /// As the engine takes it.
    pub fn curve(&self) -> Curve {
        Curve { points: self.points.iter().map(|point| (point.distance, point.time)).collect() }
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
        let Overheads { hit, read, cached, write, seek, bus_read, .. } = self.overheads;
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
        let period = profile.period;
        let bus_write = value(self.overheads.bus_write).unwrap_or(bus_sector);
        let overheads = profile.overheads;
        for band in &mut profile.bands {
            band.chunk_read = chunk(band, period, overheads.hit, bus_sector);
            band.chunk_write = chunk(band, period, overheads.cached, bus_write);
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

/// The smallest command that keeps up with the media: its overhead and its time on the bus pass while so many sectors do.
fn chunk(band: &Band, period: Duration, overhead: Duration, bus_sector: Duration) -> Sectors {
    let pass = ns(period) / part(band.sectors_per_track.into());
    let gained = (pass - ns(bus_sector)).max(1.0);
    Sectors(whole((ns(overhead) / gained).ceil()).clamp(CHUNKS.0, CHUNKS.1))
}
