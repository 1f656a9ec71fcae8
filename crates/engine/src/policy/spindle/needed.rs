//! How many places in the drive a volume's reserve takes.
//!
//! What a light volume waits for is divided sparingly ([`super::places`]), but no volume has fewer
//! places for its sake than give it its reserve: of what the drive completes when it is full. That
//! is measured now and then, while all places are lent. A volume that keeps more requests than it
//! has places completes in proportion to these at most, so
//!
//! ```text
//! needed = places × reserve × (completed by a full drive ÷ completed by the volume)
//! ```
//!
//! If its share of a full drive is missing, the number grows; if it has more, the number shrinks,
//! by less than it could where the drive is full. How long commands take besides, in the host or on
//! a busy machine, is part of it. The fraction of a place is given as one place more while work is
//! missing: of the four and a fifth that half of samsung-870evo-1t takes, five would cost a light
//! volume 7 %, and four cost its neighbour 5 %.

use units::{Duration, Instant, Share};

/// The time after which what a volume needs is computed, and the least commands in it.
const INTERVAL: Duration = Duration::from_millis(10);
const COMMANDS_MIN: u32 = 16;
/// The least commands by which a full drive is measured.
const FULL_MIN: u32 = 64;
/// A volume that misses less than one part in this number of its reserve has it.
const MISSING_DIVISOR: u128 = 32;
/// One, as a fraction: of a place, or of what is due in an interval.
const ONE: u32 = 1 << 8;
/// A place of which no more than this fraction is not needed is given.
const ROUNDED_UP: u32 = ONE / 4;
/// The most that may be missing, or in excess: what is due in one interval.
const MISSING_MAX: i64 = 1 << 8;

/// What completed in a time, by weight ([`crate::accounting::meter::weight_of`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    weight: u64,
    time: Duration,
}

/// What completes from the first of some completions on.
#[derive(Clone, Copy, Debug, Default)]
struct Completed {
    since: Option<Instant>,
    weight: u64,
    commands: u32,
}

impl Completed {
    /// A command of this weight completes. Returns what has completed in that time.
    fn add(&mut self, weight: u64, now: Instant) -> Work {
        debug_assert!(weight > 0, "a command has a weight");
        let Some(since) = self.since else {
            self.since = Some(now);
            return Work { weight: 0, time: Duration::ZERO };
        };
        self.weight = self.weight.saturating_add(weight);
        self.commands += 1;
        Work { weight: self.weight, time: now.since(since) }
    }
}

/// What the drive completes when it is full.
#[derive(Debug, Default)]
pub(super) struct FullDrive {
    completed: Completed,
    known: Option<Work>,
}

impl FullDrive {
    /// A command completes while all places are lent.
    pub(super) fn add(&mut self, weight: u64, now: Instant) {
        let work = self.completed.add(weight, now);
        if self.completed.commands >= FULL_MIN && work.time > Duration::ZERO {
            self.known = Some(work);
        }
        debug_assert!(self.known.is_none_or(|work| work.weight > 0), "commands have weights");
    }

    /// From now on it is measured again.
    pub(super) fn restart(&mut self) {
        self.completed = Completed::default();
        debug_assert_eq!(self.completed.commands, 0, "what was completed before is not counted");
    }

    /// What it completes; `None` until that is known.
    pub(super) fn known(&self) -> Option<Work> {
        debug_assert!(self.known.is_none_or(|work| work.weight > 0), "commands have weights");
        self.known
    }
}

/// What a volume needs that keeps more requests than it has places.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needed {
    completed: Completed,
    /// The sum, over its commands, of those that it had in the drive.
    inside: u64,
    least: u32,
    /// What it has not had of its due in the last intervals, as a fraction of one interval's.
    missing: i64,
}

impl Needed {
    /// The places that its reserve takes; 0 until that is known.
    pub(super) fn places(&self) -> u32 {
        debug_assert!(self.missing.abs() <= MISSING_MAX, "what is missing is bounded");
        self.least
    }

    /// The volume had fewer requests than places, or it is another time: what it completes says
    /// nothing about its places.
    pub(super) fn interrupt(&mut self) {
        (self.completed, self.inside) = (Completed::default(), 0);
        debug_assert_eq!(self.completed.commands, 0, "nothing is counted");
    }

    /// A command of this weight completes, of `inside` that the volume had in the drive, while it
    /// keeps more requests than it has places. It may have `most`.
    pub(super) fn add(
        &mut self,
        weight: u64,
        (inside, most): (u32, u32),
        (reserve, full): (Share, Work),
        now: Instant,
    ) {
        debug_assert!(inside > 0, "a command was in the drive");
        debug_assert!(most > 0, "a volume may have a place");
        let work = self.completed.add(weight, now);
        if self.completed.commands == 0 {
            return;
        }
        self.inside += u64::from(inside);
        if work.time < INTERVAL || self.completed.commands < COMMANDS_MIN {
            return;
        }
        self.settle(due_and_done(work, (reserve, full)), most);
        self.interrupt();
    }

    /// An interval ends in which this was due, and done.
    fn settle(&mut self, (due, done): (u128, u128), most: u32) {
        let one = u128::from(ONE);
        let of_due = i64::try_from(done * one / due.max(1)).unwrap_or(i64::MAX);
        let missing = (self.missing + i64::from(ONE)).saturating_sub(of_due);
        self.missing = missing.clamp(-MISSING_MAX, MISSING_MAX);
        let (inside, commands) = (u128::from(self.inside), u128::from(self.completed.commands));
        let needed = due.saturating_mul(inside * one) / (done * commands).max(1);
        let places = (needed + u128::from(ROUNDED_UP)) / one;
        let places = u32::try_from(places).unwrap_or(most);
        self.least = places.saturating_add(u32::from(self.missing > 0)).min(most);
        debug_assert!(done > 0, "commands have completed");
    }
}

/// The work that is due to a volume with this reserve of a full drive, and what it has done of it,
/// by the same measure.
fn due_and_done(work: Work, (reserve, full): (Share, Work)) -> (u128, u128) {
    let of = |share: Share, work: Work, time: Duration| {
        u128::from(share.ppb()) * u128::from(work.weight) * u128::from(time.as_nanos())
    };
    let (due, done) = (of(reserve, full, work.time), of(Share::ALL, work, full.time));
    debug_assert!(full.weight > 0, "a full drive completes something");
    (due - due / MISSING_DIVISOR, done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHT: u64 = 12;
    const FULL: Work = Work { weight: 94 * WEIGHT, time: Duration::from_millis(1) };

    /// The mean of the commands a millisecond, and of the places, of a volume that completes so
    /// many a second with these places.
    fn settled(percent: u32, first: u32, rate: impl Fn(u32) -> u64) -> (f64, f64) {
        let mut needed = Needed { least: first, ..Needed::default() };
        let (mut now, mut places, mut commands) = (Instant::ZERO, 0_u64, 0_u32);
        let (warm, end) = (Duration::from_millis(500), Duration::from_secs(2));
        while now < Instant::ZERO + end {
            let inside = needed.places().max(1);
            now += Duration::from_nanos(1_000_000_000 / rate(inside));
            needed.add(WEIGHT, (inside, 16), (Share::from_percent(percent), FULL), now);
            if now >= Instant::ZERO + warm {
                (places, commands) = (places + u64::from(inside), commands + 1);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let mean = places as f64 / f64::from(commands);
        let millis = u32::try_from((end - warm).as_nanos() / 1_000_000).expect("a few");
        (f64::from(commands) / f64::from(millis), mean)
    }

    #[test]
    fn a_volume_has_the_places_that_its_share_takes() {
        for (percent, first) in [(20, 0), (20, 16), (50, 0), (50, 16), (80, 1)] {
            let rate = |inside: u32| (u64::from(inside) * 11_300).min(94_000);
            let (done, places) = settled(percent, first, rate);
            let due = f64::from(percent) * 0.94;
            assert!((0.95..1.1).contains(&(done / due)), "{done} of {due}");
            assert!((places - due / 11.3).abs() < 0.5, "{places} for {due}");
        }
    }

    #[test]
    fn places_are_given_back_where_one_gives_as_much_as_several() {
        let (done, places) = settled(50, 16, |inside| if inside > 1 { 94_000 } else { 50_000 });
        assert!(done >= 47.0, "{done}");
        assert!(places < 1.1, "{places}");
    }

    #[test]
    fn a_drive_that_cannot_give_a_share_gives_all_places() {
        let (_, places) = settled(50, 1, |_| 10_000);
        assert!(places > 15.9, "{places}");
    }
}
