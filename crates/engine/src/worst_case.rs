//! The longest that a command can take: what a stream is admitted with (RTAS 2000 §3.1: worst-case seek, an extra rotational
//! delay, and the transfer where the range is slowest).
//!
//! The bound holds for a drive that is otherwise idle, that has nothing left to destage, and whose profile is right:
//!
//! ```text
//! electronics and bus ─ a movement under way ─ the longest movement ─ a turn ─ the slowest transfer, or the bus if that is slower
//! ```
//!
//! Single seeks vary about their curve. They are taken to be longer by no more than [`SEEK_DEVIATIONS`] standard deviations: where
//! they vary normally, one in a billion is; the emulated drive's never are.

use units::{Angle, Duration, Extent, Lba, Sectors, Share};

use crate::profile::{Band, Profile, Skew, Spot};

/// By how many standard deviations a single seek may lie above its curve.
pub const SEEK_DEVIATIONS: u64 = 6;
/// A standard deviation is at most this part of the movement: a short one cannot vary by as much as a long one.
const VARIATION_PART: u64 = 8;
const TURN: u128 = 1 << 32;

/// What a bound has to know of a drive beyond what predictions are made of: the most, where the rest of a profile says what
/// is usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The most that electronics and the messages of the bus take of one command, whatever came before it.
    pub command: Duration,
    /// One sector of a write on the bus.
    pub bus_sector_write: Duration,
    /// How much of a read has come off the media before its data goes on the bus.
    pub read_share: Share,
    /// Sectors of a write that have crossed the bus before the first goes to the media.
    pub write_ahead: Sectors,
    /// Runs of sectors, on the whole disk, that lie elsewhere than the bands say: each costs the way there and back.
    pub detours: u64,
}

/// What a command does to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// It reads.
    Read,
    /// It writes, and is done when it is written: a drive that answers writes out of its memory is to be told to force them.
    Write,
}

impl Profile {
    /// The longest that a command of `len` sectors inside `range` can take from any place of the arm, from its arrival at the
    /// drive to its completion.
    ///
    /// # Panics
    /// If `range` is empty or leaves the disk, or `len` is nothing or longer than it.
    pub fn worst_case(&self, range: Extent, len: Sectors, transfer: Transfer) -> Duration {
        assert!(!range.is_empty() && range.end().0 <= self.capacity().0, "{range} is on the disk");
        assert!(len > Sectors::ZERO && len <= range.len, "{len:?} fit {range}");
        let bands = self.bands_of(range);
        let movement = self.longest_movement(transfer);
        let media = self.longest_pass(bands, len, transfer);
        let one = self.extremes.bus_sector_write.max(self.bus_sector);
        let moved = match transfer {
            Transfer::Read => {
                let share = u128::from(self.extremes.read_share.ppb());
                let held = u128::from(media.as_nanos()) * share / u128::from(Share::ALL.ppb()) + 1;
                let held = Duration::from_nanos(u64::try_from(held).unwrap_or(u64::MAX));
                movement + media.max(held + self.bus_sector * len.0)
            }
            Transfer::Write => {
                // Where the media overtake the bus a turn is lost, in which the bus gains more than it was behind. What counts is
                // the last time: all that came before went as fast as the bus, whatever the way there took.
                let bus = self.extremes.bus_sector_write;
                let step = self.longest_change(bands, transfer)
                    + self.longest_breaks(bands, len, transfer);
                let ahead = bus * self.extremes.write_ahead.0.min(len.0);
                (movement + media).max(bus * len.0 + step) + ahead
            }
        };
        self.longest_electronics(transfer) + self.turn() + moved + one + self.completion
    }

    /// Everything up to the moment when the arm moves.
    fn longest_electronics(&self, transfer: Transfer) -> Duration {
        let electronics = match transfer {
            Transfer::Read => self.overheads.read.max(self.overheads.hit),
            Transfer::Write => self.overheads.write.max(self.overheads.cached),
        };
        // The drive may be on its way to the next track to read ahead.
        let under_way = self.seek.time(1).max(self.head_switch);
        electronics.max(self.extremes.command) + under_way
    }

    /// The longest movement of the arm over the disk: anybody may have had it before.
    fn longest_movement(&self, transfer: Transfer) -> Duration {
        let (curve, settle) = match transfer {
            Transfer::Read => (&self.seek, Duration::ZERO),
            Transfer::Write => (&self.seek_write, self.write_settle),
        };
        let stroke = curve.time(self.cylinders - 1);
        let points = curve.points.iter().filter(|(distance, _)| *distance < self.cylinders);
        let longest = points.map(|(_, time)| *time).fold(stroke, Duration::max);
        let longest = longest.max(self.head_switch + settle);
        let deviation = self.seek_variation.min(longest / VARIATION_PART);
        longest + deviation * SEEK_DEVIATIONS
    }

    /// A turn that is as fast as it may be, and one that is as slow.
    fn turns(&self) -> (Duration, Duration) {
        let nanos = u128::from(self.period.as_nanos());
        let error = (nanos * u128::from(self.period_error_ppb)).div_ceil(1_000_000_000);
        let error = Duration::from_nanos(u64::try_from(error).unwrap_or(u64::MAX));
        (self.period - error, self.period + error)
    }

    /// A turn that is as slow as it may be.
    fn turn(&self) -> Duration {
        self.turns().1
    }

    fn bands_of(&self, range: Extent) -> &[Band] {
        let first = self.bands.partition_point(|band| band.lbas.end() <= range.start);
        let behind = self.bands.partition_point(|band| band.lbas.start < range.end());
        &self.bands[first..behind]
    }

    /// The longest from the first of `len` sectors to the last: all of them in the slowest band, with as many changes of track as
    /// there can be, and over the breaks that cost most.
    fn longest_pass(&self, bands: &[Band], len: Sectors, transfer: Transfer) -> Duration {
        let within = bands.iter().map(|band| self.pass(band, len, transfer));
        let way = self.longest_movement(transfer) + self.turn();
        within.max().expect("some band")
            + self.longest_breaks(bands, len, transfer)
            + way * (2 * self.extremes.detours.min(len.0))
    }

    /// The longest from the first of `len` sectors to the last, on tracks like those of `band`.
    fn pass(&self, band: &Band, len: Sectors, transfer: Transfer) -> Duration {
        let per_track = u64::from(band.sectors_per_track);
        let rotation = (u128::from(len.0) * TURN).div_ceil(u128::from(per_track));
        let changes = (len.0 - 1).div_ceil(per_track);
        let of_cylinders = changes.div_ceil(u64::from(self.surfaces));
        let (track, cylinder) = self.changes(band, transfer);
        sweep(rotation, self.turn()) + cylinder * of_cylinders + track * (changes - of_cylinders)
    }

    /// From the end of a track to the beginning of the next of its cylinder, and of the next cylinder; the latter is taken for no
    /// shorter.
    fn changes(&self, band: &Band, transfer: Transfer) -> (Duration, Duration) {
        let write = transfer == Transfer::Write;
        let change = |skew: Skew, step| self.change(u128::from(skew.0 >> 32), step);
        let cylinder = change(band.cylinder_skew, self.step(1, write));
        let track = match self.surfaces {
            1 => cylinder,
            _ => change(band.track_skew, self.step(0, write)),
        };
        (track, cylinder.max(track))
    }

    /// The longest from the end of a track to the beginning of the next.
    fn longest_change(&self, bands: &[Band], transfer: Transfer) -> Duration {
        let changes = bands.iter().map(|band| self.changes(band, transfer).1);
        changes.max().expect("some band")
    }

    /// The time of a step to the next track, over so many cylinders.
    fn step(&self, distance: u32, write: bool) -> Duration {
        let to = Spot {
            cylinder: distance.min(self.cylinders - 1),
            surface: u32::from(self.surfaces > 1),
            angle: Angle::ZERO,
            run: Sectors(1),
            sector: Angle::ZERO,
        };
        self.movement((0, 0), &to, write)
    }

    /// From the end of one track to the beginning of the next, which comes `gap` of a turn later: in time for the heads, or
    /// whole turns later than that.
    fn change(&self, gap: u128, movement: Duration) -> Duration {
        let (fastest, slowest) = self.turns();
        let (soonest, gap) = (sweep(gap, fastest), sweep(gap, slowest));
        if movement < soonest || movement == Duration::ZERO {
            return gap;
        }
        gap + slowest * (1 + movement.saturating_sub(gap).as_nanos() / slowest.as_nanos())
    }

    /// What the breaks between bands cost the `len` sectors in a row that meet the dearest of them.
    fn longest_breaks(&self, bands: &[Band], len: Sectors, transfer: Transfer) -> Duration {
        // Behind a break at the beginning of a track there is no change that was not counted.
        let longest = self.longest_change(bands, transfer);
        let more = |band: &Band| match band.first_sector % u64::from(band.sectors_per_track) {
            0 => Duration::ZERO,
            _ => longest,
        };
        let costs: Vec<Duration> = bands
            .windows(2)
            .map(|pair| {
                let (last, first) = (self.end(pair[0].lbas), self.spot(pair[1].lbas.start));
                let movement = self.movement(
                    (last.cylinder, last.surface),
                    &first,
                    transfer == Transfer::Write,
                );
                self.change(u128::from((first.angle - last.angle).0), movement) + more(&pair[1])
            })
            .collect();
        let starts: Vec<Lba> = bands.iter().skip(1).map(|band| band.lbas.start).collect();
        let (mut longest, mut sum, mut oldest) = (Duration::ZERO, Duration::ZERO, 0);
        for (start, cost) in starts.iter().zip(&costs) {
            sum += *cost;
            // Both lie within `len` sectors if there is one before the first break, and all others reach past the last.
            while start.distance(starts[oldest]).0 + 2 > len.0 && starts[oldest] < *start {
                sum = sum - costs[oldest];
                oldest += 1;
            }
            longest = longest.max(sum);
        }
        if len.0 > 1 { longest } else { Duration::ZERO }
    }
}

/// The part of a turn in 2⁻³² of it, rounded up.
fn sweep(part: u128, turn: Duration) -> Duration {
    let nanos = (part * u128::from(turn.as_nanos())).div_ceil(TURN);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::sample;

    fn range(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    #[test]
    fn a_bound_is_the_sum_of_its_longest_parts() {
        let profile = sample();
        let worst = profile.worst_case(range(0, 200_000), Sectors(10), Transfer::Read);
        // 500 us of electronics, a step of 1 ms under way, the stroke of 11 ms, a turn of 10, ten sectors of 100 us, a change of
        // cylinder (1 ms, which its skew of 1.2 ms hides), and a sector on the bus before and after.
        let expected = 500 + 1_000 + 11_000 + 10_000 + 1_000 + 1_200 + 3 + 3;
        assert_eq!(worst.as_micros(), expected);
    }

    #[test]
    fn a_step_that_its_skew_does_not_hide_costs_a_turn() {
        let mut profile = sample();
        let before = profile.worst_case(range(0, 200_000), Sectors(10), Transfer::Read);
        profile.seek.points[0].1 = Duration::from_micros(1_300);
        let after = profile.worst_case(range(0, 200_000), Sectors(10), Transfer::Read);
        // A turn, and the step under way is longer by 300 us.
        assert_eq!((after - before).as_micros(), 10_300);
    }

    #[test]
    fn a_block_takes_longer_where_tracks_are_shorter_and_never_less_for_being_longer() {
        let mut profile = sample();
        let mut inner = profile.bands[0];
        profile.bands[0].lbas.len = Sectors(100_000);
        inner.lbas = range(100_000, 50_000);
        inner.first_cylinder = 500;
        inner.sectors_per_track = 50;
        profile.bands.push(inner);
        profile.assert_sane();
        let worst = |within, len| profile.worst_case(within, Sectors(len), Transfer::Write);
        let (outer, inner) = (range(0, 100_000), range(100_000, 50_000));
        assert!(worst(outer, 100) < worst(inner, 100));
        assert!(worst(inner, 100) <= worst(range(0, 150_000), 100));
        let all: Vec<Duration> = (1..300).map(|len| worst(range(0, 150_000), len)).collect();
        assert!(all.is_sorted());
    }
}
