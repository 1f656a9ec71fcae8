//! Whether a short read pays on a drive without a seek command: random reads are carried out by the
//! profile, in virtual time and with the decisions of [`positioning`](super::positioning), once
//! with short reads ahead of transfers and once without.
//!
//! A seek takes what the curve says and a normal error of the profile's deviation, which the same
//! request has both times. The drive's read-ahead, which would serve the transfer behind a short
//! read sooner, is left out.

use drive_profile::Profile;
use units::{Angle, Duration, Extent, Instant, Lba, Operation, Sectors};

use super::arm::Arm;
use super::execution::{Approach, Jit, Preemptible};
use super::positioning::{GUARD_MIN, PositioningContext, PositioningStep};
use super::rotation::RotationTracker;

/// The requests that are carried out.
const REQUESTS: u64 = 1_024;
/// The length of each.
const REQUEST: Sectors = Sectors(128);
/// The part of the expected wait that short reads must save. Each is a command more for the drive
/// and the host, of which a profile knows nothing.
const SAVED_MIN_PER_MILLE: i64 = 50;
/// The part of the throughput that they may cost.
const LOST_MAX_PER_MILLE: i64 = 10;
/// The normal distribution's quantiles at (i + ½)/16, in thousandths of a deviation.
const QUANTILES: [i64; 16] = [
    -1_863, -1_318, -1_010, -776, -579, -402, -237, -78, 78, 237, 402, 579, 776, 1_010, 1_318,
    1_863,
];
/// 2⁶⁴ divided by the golden ratio: its multiples fill a range evenly.
const GOLDEN: u64 = 11_400_714_819_323_198_485;

/// What short reads bring and cost by a drive's profile, in parts per thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortReadTrade {
    /// Of the time that a request of high priority waits at an arrival at any time (FAST 2003,
    /// equation 2), the part that is saved.
    pub waiting_saved: i64,
    /// Of the throughput of random reads of 64 KiB, the part that is lost.
    pub throughput_lost: i64,
}

impl ShortReadTrade {
    /// Whether it saves enough for what it costs.
    pub fn pays(&self) -> bool {
        debug_assert!(self.waiting_saved <= 1_000, "no more is saved than there is");
        self.waiting_saved >= SAVED_MIN_PER_MILLE && self.throughput_lost <= LOST_MAX_PER_MILLE
    }

    /// By the profile of a drive without a seek command, if heads are to arrive `offset` early.
    pub fn of(profile: &Profile, offset: Duration) -> Self {
        debug_assert!(!profile.seek_command, "a seek command costs less");
        let [with, without] = [true, false].map(|short| Run::of(profile, offset, short));
        // The expected wait is Σ T² / 2 Σ t.
        let wait = |run: &Run| run.squares / u128::from(2 * run.total.as_nanos().max(1));
        Self {
            waiting_saved: decrease(wait(&without), wait(&with)),
            throughput_lost: -decrease(
                u128::from(without.total.as_nanos()),
                u128::from(with.total.as_nanos()),
            ),
        }
    }
}

/// By how much `after` is less than `before`, in parts per thousand of `before`, rounded down.
fn decrease(before: u128, after: u128) -> i64 {
    let [before, after] = [before, after].map(|n| i128::try_from(n).unwrap_or(i128::MAX >> 10));
    let part = ((before - after) * 1_000).div_euclid(before.max(1));
    debug_assert!(part <= 1_000, "no more than all");
    i64::try_from(part).unwrap_or(i64::MIN)
}

/// How preemptible execution moves the arm ahead of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeeksAhead {
    /// Not at all: seeks are not just in time, or in time with the transfer.
    Off,
    /// By a seek command.
    SeekCommand,
    /// By a short read.
    ShortRead(ShortReadTrade),
    /// Not at all: the drive has no seek command, and a short read does not pay or is not wanted.
    Transfer(ShortReadTrade),
}

impl SeeksAhead {
    /// As the settings say, and the profile where they leave it open.
    pub(super) fn new(settings: &Preemptible, profile: &Profile) -> Self {
        let Some(Jit { approach, offset, .. }) = settings.jit else { return Self::Off };
        let trade = match approach {
            Approach::InTime | Approach::Published => return Self::Off,
            Approach::Transfer if profile.seek_command => return Self::Off,
            Approach::Ahead | Approach::ShortRead if profile.seek_command => {
                return Self::SeekCommand;
            }
            Approach::Ahead | Approach::ShortRead | Approach::Transfer => {
                ShortReadTrade::of(profile, offset)
            }
        };
        debug_assert!(!profile.seek_command, "a seek command costs less");
        match approach {
            Approach::ShortRead => Self::ShortRead(trade),
            Approach::Ahead if trade.pays() => Self::ShortRead(trade),
            _ => Self::Transfer(trade),
        }
    }

    pub(super) const fn is_by_short_reads(self) -> bool {
        matches!(self, Self::ShortRead(_))
    }
}

/// Random reads, one after the other.
#[derive(Debug)]
struct Run {
    total: Duration,
    /// Σ T² of the commands, in ns².
    squares: u128,
}

impl Run {
    fn of(profile: &Profile, offset: Duration, short_reads: bool) -> Self {
        let mut phase = RotationTracker::new(profile.rotation_period, 0);
        phase.observe(Angle::ZERO, Instant::ZERO);
        let jit = Jit { offset, approach: Approach::Ahead };
        let settings = Preemptible { jit: Some(jit), ..Preemptible::default() };
        let (mut now, mut squares) = (Instant::ZERO, 0_u128);
        let nothing = Extent::new(Lba(0), Sectors::ZERO);
        let mut arm = Arm { cylinder: 0, surface: 0, arrived: None, read: nothing, written: None };
        let last = profile.capacity().0.saturating_sub(REQUEST.0).max(1);
        for nth in 1..=REQUESTS {
            let part = nth.wrapping_mul(GOLDEN);
            let at = (u128::from(part) * u128::from(last)) >> 64;
            let start = Lba(u64::try_from(at).expect("a sector of the disk"));
            let len = REQUEST.min(Sectors(profile.capacity().0 - start.0));
            let head = Operation::read(Extent::new(start, len));
            let quantile = QUANTILES[usize::try_from(part >> 20).unwrap_or(0) % QUANTILES.len()];
            let mut target = None;
            loop {
                let context = PositioningContext {
                    profile,
                    phase: &phase,
                    settings: &settings,
                    jit,
                    arm: &arm,
                    short_reads,
                    guard: GUARD_MIN,
                    is_careful: false,
                    buffered: Duration::ZERO,
                    target,
                    parts_left: None,
                    now,
                };
                let step = context.next(&head).unwrap_or(PositioningStep::Go);
                target = Some(start);
                let extent = match step {
                    PositioningStep::Wait(until) => {
                        now = until;
                        continue;
                    }
                    PositioningStep::Read(extent) => extent,
                    PositioningStep::Go | PositioningStep::Seek { .. } => head.extent,
                };
                let ends = completion(profile, &phase, &arm, extent, (quantile, now));
                let took = u128::from(ends.since(now).as_nanos());
                squares = squares.saturating_add(took * took);
                now = ends;
                let spot = profile.end_of(extent);
                let (cylinder, surface) = (spot.cylinder, spot.surface);
                let arrived = Some(start);
                arm = Arm { cylinder, surface, arrived, read: nothing, written: None };
                if extent == head.extent {
                    arm.arrived = None;
                    break;
                }
            }
        }
        debug_assert!(now > Instant::ZERO, "requests take time");
        Self { total: now.since(Instant::ZERO), squares }
    }
}

/// When a read of `extent` that is sent at `now` has completed, if its seek errs by `quantile`
/// thousandths of a deviation.
fn completion(
    profile: &Profile,
    phase: &RotationTracker,
    arm: &Arm,
    extent: Extent,
    (quantile, now): (i64, Instant),
) -> Instant {
    let start = profile.locate(extent.start);
    let travel = profile.movement_time((arm.cylinder, arm.surface), &start, false);
    let deviation = profile.seek_variation.min(travel / 8);
    let error = deviation * quantile.unsigned_abs() / 1_000;
    let travel = if quantile < 0 { travel.saturating_sub(error) } else { travel + error };
    let arrives = now + profile.overheads.read + travel;
    let passes = phase.next(start.angle, arrives).unwrap_or(arrives);
    let media = profile.transfer_time(extent);
    let bus = profile.bus_sector * extent.len.0;
    debug_assert!(passes >= arrives, "a sector passes after the arrival");
    passes + media + profile.completion + bus.saturating_sub(media)
}

#[cfg(test)]
mod tests {
    use drive_profile::example_profile;

    use super::*;

    fn profile(variation: Duration) -> Profile {
        Profile { seek_command: false, seek_variation: variation, ..example_profile() }
    }

    #[test]
    fn a_part_saved_is_rounded_down_and_a_loss_is_negative() {
        assert_eq!(decrease(1_000, 900), 100);
        assert_eq!(decrease(1_000, 1_001), -1);
        assert_eq!(decrease(3, 2), 333);
        assert_eq!(decrease(0, 0), 0);
    }

    #[test]
    fn a_seek_command_is_used_where_there_is_one_and_nothing_is_assessed() {
        let settings = Preemptible::default();
        assert_eq!(SeeksAhead::new(&settings, &example_profile()), SeeksAhead::SeekCommand);
        let off = Preemptible { jit: None, ..settings };
        assert_eq!(SeeksAhead::new(&off, &profile(Duration::ZERO)), SeeksAhead::Off);
    }

    #[test]
    fn the_settings_decide_and_where_they_do_not_the_trade_does() {
        for micros in [0, 100, 500, 1_000] {
            let profile = profile(Duration::from_micros(micros));
            let offset = Duration::from_millis(1);
            let trade = ShortReadTrade::of(&profile, offset);
            println!("{micros} us: {trade:?}");
            assert!(trade.pays(), "{micros} us: {trade:?}");
            let new = |approach| {
                let jit = Some(Jit { offset, approach });
                SeeksAhead::new(&Preemptible { jit, ..Preemptible::default() }, &profile)
            };
            assert_eq!(new(Approach::ShortRead), SeeksAhead::ShortRead(trade));
            assert_eq!(new(Approach::Transfer), SeeksAhead::Transfer(trade));
            assert_eq!(new(Approach::Ahead), SeeksAhead::ShortRead(trade));
        }
    }

    #[test]
    fn where_no_wait_hides_another_command_short_reads_are_off() {
        let mut profile = profile(Duration::ZERO);
        profile.overheads.read = Duration::from_micros(9_500);
        let SeeksAhead::Transfer(trade) = SeeksAhead::new(&Preemptible::default(), &profile) else {
            panic!("a command takes most of a revolution")
        };
        assert!(!trade.pays(), "{trade:?}");
    }
}
