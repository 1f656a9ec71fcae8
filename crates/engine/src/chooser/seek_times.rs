//! Seek times of a profile, for look-ups without a search.

use drive_profile::{Profile, SeekTable};
use units::Duration;

/// Distances below this have an entry each.
const EXACT: usize = 256;
/// The bits of a distance below its highest that select an entry.
const MANTISSA: u32 = 6;
const OCTAVES: usize = 25;
const ENTRIES: usize = EXACT + (OCTAVES << MANTISSA) + 1;
/// The octave of [`EXACT`].
const FIRST: u32 = EXACT.ilog2();

/// A seek table with 64 entries an octave, linear between two.
#[derive(Clone, Debug)]
pub(super) struct SeekTimes {
    nanos: Box<[u32]>,
    head_switch: u32,
}

impl SeekTimes {
    /// The movements before reads, or before writes.
    pub(super) fn of(profile: &Profile, writes: bool) -> Self {
        let (table, settle): (&SeekTable, _) = if writes {
            (&profile.seek_write, profile.write_settle)
        } else {
            (&profile.seek, Duration::ZERO)
        };
        let nanos = |time: Duration| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX >> 1);
        let time = |entry| table.time(u32::try_from(distance(entry)).unwrap_or(u32::MAX));
        let nanos_of = (0..ENTRIES).map(|entry| nanos(time(entry)));
        let times: Box<[u32]> = nanos_of.collect();
        debug_assert_eq!(times.len(), ENTRIES, "each entry has a time");
        Self { nanos: times, head_switch: nanos(profile.head_switch + settle) }
    }

    /// The time in ns to move by `distance` cylinders, and to another head if `switches`.
    pub(super) fn time(&self, distance: u32, switches: bool) -> u64 {
        let seek = if (distance as usize) < EXACT {
            u64::from(self.nanos[distance as usize])
        } else {
            let octave = distance.ilog2();
            let shift = octave - MANTISSA;
            let entry = EXACT
                + (((octave - FIRST) << MANTISSA) as usize)
                + ((distance >> shift) as usize - (1 << MANTISSA));
            debug_assert!(entry + 1 < ENTRIES, "a distance has two entries");
            let (low, high) = (u64::from(self.nanos[entry]), u64::from(self.nanos[entry + 1]));
            let along = u64::from(distance) & ((1 << shift) - 1);
            low + ((high.saturating_sub(low) * along) >> shift)
        };
        if switches { seek.max(u64::from(self.head_switch)) } else { seek }
    }
}

/// The distance of an entry.
fn distance(entry: usize) -> u64 {
    let Some(above) = entry.checked_sub(EXACT) else { return entry as u64 };
    let (octave, mantissa) = (above >> MANTISSA, above & ((1 << MANTISSA) - 1));
    debug_assert!(octave <= OCTAVES, "an entry has an octave");
    ((1 << MANTISSA) + mantissa as u64) << (octave + FIRST as usize - MANTISSA as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use drive_profile::example_profile;

    #[test]
    fn it_says_what_the_profile_says() {
        let profile = example_profile();
        let times = SeekTimes::of(&profile, false);
        for distance in (0..1_000).chain((1_000..1 << 18).step_by(777)) {
            let exact = profile.seek.time(distance).as_nanos();
            assert!(times.time(distance, false).abs_diff(exact) <= 2, "{distance}");
        }
        assert_eq!(times.time(0, true), 800_000);
    }
}
