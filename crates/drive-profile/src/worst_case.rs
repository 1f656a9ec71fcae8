//! The longest service time of a command, with which a stream is admitted (Clockwise, RTAS 2000
//! §3.1: worst-case seek, an extra rotational delay, and the transfer where the range is slowest).
//!
//! The bound holds for a drive that is otherwise idle, that has nothing left to destage, and whose
//! profile is right. It is the sum of:
//!
//! ```text
//! electronics and bus ─ a movement in progress ─ the longest movement ─ a revolution
//!   ─ the slowest transfer, or the bus if that is slower
//! ```
//!
//! On a bus that several disks share, the bus is that of the worst share ([`crate::BusShare`]).
//!
//! Single seeks vary about their curve. The bound allows [`SEEK_DEVIATIONS`] standard deviations:
//! if seek times are normally distributed, one in a billion exceeds it; those of the emulated drive
//! never do.

use units::{Angle, Duration, Extent, FULL_REVOLUTION, Lba, Sectors, Share};

use crate::band::{Band, Skew};
use crate::geometry::PhysicalAddress;
use crate::profile::Profile;

/// The number of standard deviations by which a single seek may lie above its curve.
pub const SEEK_DEVIATIONS: u64 = 6;
/// A standard deviation is at most this fraction of the movement: a short movement cannot vary by
/// as much as a long one.
const VARIATION_PART: u64 = 8;

/// The direction of a transfer between a command and the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// From the media.
    Read,
    /// To the media. The command completes when its data is on the media: a drive with a write
    /// buffer needs forced unit access for this.
    Write,
}

impl Profile {
    /// The longest service time of a command of `len` sectors inside `range` from any position of
    /// the arm: from the command's arrival at the drive to its completion.
    ///
    /// # Panics
    /// If `range` is empty or leaves the disk, or `len` is zero or longer than `range`.
    pub fn worst_case(&self, range: Extent, len: Sectors, transfer: TransferKind) -> Duration {
        let Some(bus) = self.extremes.bus else { return self.worst_alone(range, len, transfer) };
        // A write whose data the media need before it has crossed loses whole revolutions: less
        // than one more than it waits, where its longest movement is not needed.
        let lost = match transfer {
            TransferKind::Read => Duration::ZERO,
            TransferKind::Write => {
                self.longest_revolution().saturating_sub(self.longest_movement(transfer))
            }
        };
        let alone = |len| self.worst_alone(range, len, transfer) + lost;
        bus.bound(len, alone(len), alone(len.min(bus.burst + Sectors(1))))
    }

    /// The same with a bus for this disk alone.
    fn worst_alone(&self, range: Extent, len: Sectors, transfer: TransferKind) -> Duration {
        assert!(!range.is_empty() && range.end().0 <= self.capacity().0, "{range} is on the disk");
        assert!(len > Sectors::ZERO && len <= range.len, "{len:?} fit {range}");
        debug_assert_eq!(self.check(), Ok(()), "a bound needs a valid profile");
        let bands = self.bands_of(range);
        let movement = self.longest_movement(transfer);
        let media = self.longest_pass(bands, len, transfer);
        let one = self.extremes.bus_sector_write.max(self.bus_sector);
        let moved = match transfer {
            TransferKind::Read => {
                let share = u128::from(self.extremes.read_share.ppb());
                let held = u128::from(media.as_nanos()) * share / u128::from(Share::ALL.ppb()) + 1;
                let held = Duration::from_nanos(u64::try_from(held).unwrap_or(u64::MAX));
                movement + media.max(held + self.bus_sector * len.0)
            }
            TransferKind::Write => {
                // Where the media overtake the bus, a revolution is lost, in which the bus gains
                // more than it was behind. The last such loss counts: everything before it went as
                // fast as the bus, whatever the positioning took.
                let bus = self.extremes.bus_sector_write;
                let step = self.longest_change(bands, transfer)
                    + self.longest_breaks(bands, len, transfer);
                let ahead = bus * self.extremes.write_ahead.0.min(len.0);
                (movement + media).max(bus * len.0 + step) + ahead
            }
        };
        self.longest_electronics(transfer)
            + self.longest_revolution()
            + moved
            + one
            + self.completion
    }

    /// The longest service time of a command of `len` sectors that begins where the drive's last
    /// command ended, inside `range`: there is no movement but to the next track. The command is
    /// sent at once, which a lateness of the host in `Extremes::command` may delay.
    ///
    /// A read that the drive has read ahead, or is reading, loses no revolution: its time is that
    /// of the electronics, of the media and of the bus, one after the other. Where the drive does
    /// not certainly read ahead for a revolution, and in a write, the sector may just have passed.
    /// A read-ahead that fills its segment stops, and goes on a revolution later at most; before
    /// that counts, the host has taken from the buffer what was a revolution of the media, whose
    /// time is in this bound although it has passed before.
    ///
    /// # Panics
    /// As [`Profile::worst_case`].
    pub fn worst_continuation(
        &self,
        range: Extent,
        len: Sectors,
        transfer: TransferKind,
    ) -> Duration {
        let alone = self.worst_continuation_alone(range, len, transfer);
        let Some(bus) = self.extremes.bus else { return alone };
        // However far the disk has read ahead, all of it crosses after the disk has done its part.
        let lost = match transfer {
            TransferKind::Read => Duration::ZERO,
            TransferKind::Write => self.longest_revolution(),
        };
        bus.after(len, alone + lost).min(self.worst_case(range, len, transfer))
    }

    /// The same with a bus for this disk alone.
    fn worst_continuation_alone(
        &self,
        range: Extent,
        len: Sectors,
        transfer: TransferKind,
    ) -> Duration {
        let from_anywhere = self.worst_alone(range, len, transfer);
        let write = transfer == TransferKind::Write;
        let step = self.step(1, write).max(self.step(0, write));
        let on_track = from_anywhere - self.longest_movement(transfer)
            + step.min(self.longest_movement(transfer));
        let bands = self.bands_of(range);
        let track = bands.iter().map(|band| u64::from(band.sectors_per_track)).max();
        let needed = Sectors(track.expect("some band")) + len;
        if write || self.read_buffer.read_ahead < needed {
            return on_track;
        }
        let electronics = self.overheads.hit.max(self.extremes.command);
        let media = self.longest_pass(bands, len, transfer);
        let bus = self.bus_sector * (len.0 + 1);
        (electronics + media + bus + self.completion).min(on_track)
    }

    /// The most by which the worst case of a command anywhere exceeds that of the same command as a
    /// continuation: what a preemption between two commands of a request costs.
    pub fn worst_preemption(&self) -> Duration {
        debug_assert_eq!(self.check(), Ok(()), "a bound needs a valid profile");
        let (read, write) =
            (self.longest_movement(TransferKind::Read), self.longest_movement(TransferKind::Write));
        let step = |write: bool| self.step(1, write).max(self.step(0, write));
        let moved = read.saturating_sub(step(false)).max(write.saturating_sub(step(true)));
        let shortest = self.bands.iter().map(|band| u64::from(band.sectors_per_track)).min();
        if self.read_buffer.read_ahead.0 <= shortest.expect("some band") {
            return moved;
        }
        let electronics = self.longest_electronics(TransferKind::Read)
            - self.overheads.hit.max(self.extremes.command);
        let bus = self.extremes.bus_sector_write.saturating_sub(self.bus_sector);
        let rounding = Duration::from_nanos(1);
        moved.max(electronics + self.longest_revolution() + read + bus + rounding)
    }

    /// The time until the arm moves.
    fn longest_electronics(&self, transfer: TransferKind) -> Duration {
        let electronics = match transfer {
            TransferKind::Read => self.overheads.read.max(self.overheads.hit),
            TransferKind::Write => self.overheads.write.max(self.overheads.cached),
        };
        // The drive may be moving to the next track to read ahead.
        let in_progress = self.seek.time(1).max(self.head_switch);
        electronics.max(self.extremes.command) + in_progress
    }

    /// The longest movement over the disk: any volume may have been served before.
    fn longest_movement(&self, transfer: TransferKind) -> Duration {
        let (curve, settle) = match transfer {
            TransferKind::Read => (&self.seek, Duration::ZERO),
            TransferKind::Write => (&self.seek_write, self.write_settle),
        };
        let stroke = curve.time(self.cylinders - 1);
        let points = curve.points.iter().filter(|(distance, _)| *distance < self.cylinders);
        let longest = points.map(|(_, time)| *time).fold(stroke, Duration::max);
        let longest = longest.max(self.head_switch + settle);
        let deviation = self.seek_variation.min(longest / VARIATION_PART);
        longest + deviation * SEEK_DEVIATIONS
    }

    /// The shortest and the longest revolution within the profile's uncertainty.
    fn revolution_range(&self) -> (Duration, Duration) {
        let nanos = u128::from(self.rotation_period.as_nanos());
        let error = (nanos * u128::from(self.rotation_error_ppb)).div_ceil(1_000_000_000);
        let error = Duration::from_nanos(u64::try_from(error).unwrap_or(u64::MAX));
        (self.rotation_period - error, self.rotation_period + error)
    }

    /// The longest revolution within the profile's uncertainty.
    fn longest_revolution(&self) -> Duration {
        self.revolution_range().1
    }

    fn bands_of(&self, range: Extent) -> &[Band] {
        let first = self.bands.partition_point(|band| band.lbas.end() <= range.start);
        let behind = self.bands.partition_point(|band| band.lbas.start < range.end());
        &self.bands[first..behind]
    }

    /// The longest time from the first of `len` sectors to the last: all of them in the slowest
    /// band, with the most track changes, and over the most expensive breaks between bands.
    fn longest_pass(&self, bands: &[Band], len: Sectors, transfer: TransferKind) -> Duration {
        let within = bands.iter().map(|band| self.pass_on(band, len, transfer));
        let detour = self.longest_movement(transfer) + self.longest_revolution();
        within.max().expect("some band")
            + self.longest_breaks(bands, len, transfer)
            + detour * (2 * self.extremes.detours.min(len.0))
    }

    /// The longest time from the first of `len` sectors to the last, on tracks like those of
    /// `band`.
    fn pass_on(&self, band: &Band, len: Sectors, transfer: TransferKind) -> Duration {
        let per_track = u64::from(band.sectors_per_track);
        let rotation =
            (u128::from(len.0) * u128::from(FULL_REVOLUTION)).div_ceil(u128::from(per_track));
        let changes = (len.0 - 1).div_ceil(per_track);
        let of_cylinders = changes.div_ceil(u64::from(self.surfaces));
        let (track, cylinder) = self.changes(band, transfer);
        sweep(rotation, self.longest_revolution())
            + cylinder * of_cylinders
            + track * (changes - of_cylinders)
    }

    /// The times from the end of a track to the beginning of the next one on its cylinder, and to
    /// the next cylinder. The second is at least the first.
    fn changes(&self, band: &Band, transfer: TransferKind) -> (Duration, Duration) {
        let write = transfer == TransferKind::Write;
        let change = |skew: Skew, step| self.change(u128::from(skew.0 >> 32), step);
        let cylinder = change(band.cylinder_skew, self.step(1, write));
        let track = match self.surfaces {
            1 => cylinder,
            _ => change(band.track_skew, self.step(0, write)),
        };
        (track, cylinder.max(track))
    }

    /// The longest time from the end of a track to the beginning of the next.
    fn longest_change(&self, bands: &[Band], transfer: TransferKind) -> Duration {
        let changes = bands.iter().map(|band| self.changes(band, transfer).1);
        changes.max().expect("some band")
    }

    /// The time of a step to the next track, over `distance` cylinders.
    fn step(&self, distance: u32, write: bool) -> Duration {
        let to = PhysicalAddress {
            cylinder: distance.min(self.cylinders - 1),
            surface: u32::from(self.surfaces > 1),
            angle: Angle::ZERO,
            run: Sectors(1),
            sector: Angle::ZERO,
        };
        self.movement_time((0, 0), &to, write)
    }

    /// The time from the end of one track to the beginning of the next, which follows `gap` of a
    /// revolution later: `gap` alone if the movement fits into it, else whole revolutions more.
    fn change(&self, gap: u128, movement: Duration) -> Duration {
        let (fastest, slowest) = self.revolution_range();
        let (soonest, gap) = (sweep(gap, fastest), sweep(gap, slowest));
        if movement < soonest || movement == Duration::ZERO {
            return gap;
        }
        gap + slowest * (1 + movement.saturating_sub(gap).as_nanos() / slowest.as_nanos())
    }

    /// The most that breaks between bands cost `len` consecutive sectors.
    fn longest_breaks(&self, bands: &[Band], len: Sectors, transfer: TransferKind) -> Duration {
        // After a break at the beginning of a track, every track change is counted already.
        let longest = self.longest_change(bands, transfer);
        let more = |band: &Band| match band.first_sector % u64::from(band.sectors_per_track) {
            0 => Duration::ZERO,
            _ => longest,
        };
        let costs: Vec<Duration> = bands
            .windows(2)
            .map(|pair| {
                let (last, first) = (self.end_of(pair[0].lbas), self.locate(pair[1].lbas.start));
                let movement = self.movement_time(
                    (last.cylinder, last.surface),
                    &first,
                    transfer == TransferKind::Write,
                );
                self.change(u128::from((first.angle - last.angle).0), movement) + more(&pair[1])
            })
            .collect();
        let starts: Vec<Lba> = bands.iter().skip(1).map(|band| band.lbas.start).collect();
        let (mut longest, mut sum, mut oldest) = (Duration::ZERO, Duration::ZERO, 0);
        for (start, cost) in starts.iter().zip(&costs) {
            sum += *cost;
            // Both breaks lie within `len` sectors if one sector precedes the first break and the
            // others reach past the last.
            while start.distance(starts[oldest]).0 + 2 > len.0 && starts[oldest] < *start {
                sum = sum - costs[oldest];
                oldest += 1;
            }
            longest = longest.max(sum);
        }
        if len.0 > 1 { longest } else { Duration::ZERO }
    }
}

/// The time that `part`, in 2⁻³² of a revolution, takes at `period` per revolution, rounded up.
fn sweep(part: u128, period: Duration) -> Duration {
    let nanos = (part * u128::from(period.as_nanos())).div_ceil(FULL_REVOLUTION.into());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BusShare;
    use crate::example_profile;

    fn range(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    #[test]
    fn a_bound_is_the_sum_of_its_longest_parts() {
        let profile = example_profile();
        let worst = profile.worst_case(range(0, 200_000), Sectors(10), TransferKind::Read);
        // 500 us of electronics, a step of 1 ms in progress, the stroke of 11 ms, a revolution of
        // 10 ms, ten sectors of 100 us, a change of cylinder (1 ms, which its skew of 1.2 ms
        // hides), and a sector on the bus before and after.
        let expected = 500 + 1_000 + 11_000 + 10_000 + 1_000 + 1_200 + 3 + 3;
        assert_eq!(worst.as_micros(), expected);
    }

    #[test]
    fn a_command_that_continues_moves_no_arm_and_waits_for_no_sector_that_is_read_ahead() {
        let mut profile = example_profile();
        let all = range(0, 200_000);
        let chunk = Sectors(10);
        let whole = |profile: &Profile, kind| profile.worst_case(all, chunk, kind);
        let next = |profile: &Profile, kind| profile.worst_continuation(all, chunk, kind);
        // A step of 1 ms in place of the stroke of 11 ms.
        let saved = Duration::from_millis(10);
        for kind in [TransferKind::Read, TransferKind::Write] {
            assert_eq!(whole(&profile, kind) - next(&profile, kind), saved);
        }
        // With a revolution of read-ahead: 300 us of electronics, 1,000 of the media and 1,200 of a
        // change of cylinder, 33 on the bus, 3 until the completion.
        let read_ahead = Sectors(110);
        profile.read_buffer.read_ahead = read_ahead;
        let micros = next(&profile, TransferKind::Read).as_micros();
        assert_eq!(micros, 300 + 1_000 + 1_200 + 33 + 3);
        assert_eq!(
            whole(&profile, TransferKind::Write) - next(&profile, TransferKind::Write),
            saved
        );
        for len in 1..=10 {
            let (anywhere, on) = (
                profile.worst_case(all, Sectors(len), TransferKind::Read),
                profile.worst_continuation(all, Sectors(len), TransferKind::Read),
            );
            let preemption = profile.worst_preemption();
            assert!(anywhere <= on + preemption, "{len}: {anywhere} > {on} + {preemption}");
        }
        profile.read_buffer.read_ahead = Sectors(109);
        assert_eq!(whole(&profile, TransferKind::Read) - next(&profile, TransferKind::Read), saved);
    }

    #[test]
    fn on_a_shared_bus_a_longer_command_never_takes_less_nor_a_preemption_more() {
        for (disks, micros, burst) in [(1, 1, 1), (2, 10, 7), (3, 100, 50), (4, 1_000, 128)] {
            let mut profile = example_profile();
            profile.read_buffer.read_ahead = Sectors(100 * u64::from(disks));
            let alone = profile.clone();
            let (sector, burst) = (Duration::from_micros(micros), Sectors(burst));
            profile.extremes.bus = Some(BusShare { disks, sector, burst });
            assert_eq!(profile.worst_preemption(), alone.worst_preemption());
            for kind in [TransferKind::Read, TransferKind::Write] {
                let all = range(0, 200_000);
                let worst = |len| profile.worst_case(all, Sectors(len), kind);
                let next = |len| profile.worst_continuation(all, Sectors(len), kind);
                for len in 1..400 {
                    assert!(worst(len) <= worst(len + 1), "{len} sectors on {disks} disks");
                    assert!(worst(len) <= next(len) + profile.worst_preemption(), "{len}");
                    assert!(worst(len) > alone.worst_case(all, Sectors(len), kind), "{len}");
                }
            }
        }
    }

    #[test]
    fn a_step_that_its_skew_does_not_hide_costs_a_revolution() {
        let mut profile = example_profile();
        let before = profile.worst_case(range(0, 200_000), Sectors(10), TransferKind::Read);
        profile.seek.points[0].1 = Duration::from_micros(1_300);
        let after = profile.worst_case(range(0, 200_000), Sectors(10), TransferKind::Read);
        // A revolution, and the step in progress is longer by 300 us.
        assert_eq!((after - before).as_micros(), 10_300);
    }

    #[test]
    fn a_block_takes_longer_where_tracks_are_shorter_and_never_less_for_being_longer() {
        let mut profile = example_profile();
        let mut inner = profile.bands[0];
        profile.bands[0].lbas.len = Sectors(100_000);
        inner.lbas = range(100_000, 50_000);
        inner.first_cylinder = 500;
        inner.sectors_per_track = 50;
        profile.bands.push(inner);
        profile.assert_valid();
        let worst = |within, len| profile.worst_case(within, Sectors(len), TransferKind::Write);
        let (outer, inner) = (range(0, 100_000), range(100_000, 50_000));
        assert!(worst(outer, 100) < worst(inner, 100));
        assert!(worst(inner, 100) <= worst(range(0, 150_000), 100));
        let all: Vec<Duration> = (1..300).map(|len| worst(range(0, 150_000), len)).collect();
        assert!(all.is_sorted());
    }
}
