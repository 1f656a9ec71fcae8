//! The expected wait for a sector, given that predictions err.

/// Steps of the table for each standard deviation.
const STEPS: u64 = 16;
/// Deviations beyond which an error is not expected.
const DEVIATIONS: u64 = 4;
const ENTRIES: usize = 65;
/// One, as a probability.
const CERTAIN: u64 = 1 << 16;

const _: () = assert!(ENTRIES as u64 == STEPS * DEVIATIONS + 1);

/// Φ(−z), the probability that a normal variable is below −z deviations, at z = 0, 1/16, … 4.
const BELOW: [u32; ENTRIES] = [
    32_768, 31_135, 29_508, 27_894, 26_299, 24_729, 23_189, 21_684, 20_220, 18_801, 17_432, 16_114,
    14_852, 13_648, 12_503, 11_420, 10_398, 9_437, 8_539, 7_701, 6_924, 6_205, 5_542, 4_934, 4_378,
    3_872, 3_413, 2_999, 2_625, 2_291, 1_992, 1_726, 1_491, 1_283, 1_101, 941, 801, 680, 575, 485,
    407, 341, 284, 236, 195, 161, 132, 108, 88, 72, 58, 47, 38, 30, 24, 19, 15, 12, 9, 7, 6, 5, 3,
    3, 2,
];

/// The expected time until a sector passes that is predicted to pass `wait` after the head's
/// arrival, where the arrival has a standard deviation of `deviation` and a revolution takes
/// `period`, all in ns: an arrival after the passage loses a revolution, one before the passage of
/// the revolution before gains one.
pub(super) fn expected_wait(wait: u64, deviation: u64, period: u64) -> i64 {
    debug_assert!(wait <= period, "a sector passes once in each revolution");
    let near = deviation * DEVIATIONS;
    let late = if wait < near { part(wait, deviation, period) } else { 0 };
    let early = if period - wait < near { part(period - wait, deviation, period) } else { 0 };
    wait.cast_signed() + late.cast_signed() - early.cast_signed()
}

/// `period` times the probability of an error beyond `margin`.
fn part(margin: u64, deviation: u64, period: u64) -> u64 {
    let entry = margin * STEPS / deviation.max(1);
    debug_assert!(entry < BELOW.len() as u64, "the margin is within the table");
    let entry = usize::try_from(entry).unwrap_or(ENTRIES);
    let below = BELOW.get(entry).copied().unwrap_or(0);
    period * u64::from(below) / CERTAIN
}

/// The probability, in 2⁻¹⁶, that a command whose sector is predicted to pass `wait` after the
/// heads' arrival errs by a revolution.
pub(super) fn error(wait: u64, deviation: u64, period: u64) -> u64 {
    debug_assert!(wait <= period, "a sector passes once in each revolution");
    let chance = |margin| {
        if margin < deviation * DEVIATIONS { part(margin, deviation, CERTAIN) } else { 0 }
    };
    (chance(wait) + chance(period - wait)).min(CERTAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_errors_cannot_change_is_itself() {
        assert_eq!(expected_wait(4_000_000, 100_000, 8_000_000), 4_000_000);
    }

    #[test]
    fn a_short_wait_costs_the_revolution_that_it_may_lose() {
        // Half of the arrivals are late, and none is a revolution early.
        assert_eq!(expected_wait(0, 100_000, 8_000_000), 4_000_000);
        // One deviation: 15.9 %.
        let cost = expected_wait(100_000, 100_000, 8_000_000);
        assert!((1_360_000..1_375_000).contains(&cost), "{cost}");
    }

    #[test]
    fn a_long_wait_may_be_none() {
        let cost = expected_wait(7_900_000, 100_000, 8_000_000);
        assert!((6_600_000..6_640_000).contains(&cost), "{cost}");
    }
}
