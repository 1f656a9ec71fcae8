//! The seek curve as a table, one entry a distance: a lookup costs the same whatever the curve's shape.

use units::Duration;

use crate::spec::SeekCurve;

/// Time to move the arm, for every distance from 0 on.
#[derive(Clone, Debug)]
pub(crate) struct SeekTable {
    /// In ns; entry 0 is 0.
    nanos: Box<[u32]>,
}

impl SeekTable {
    /// The curve at every distance under `cylinders`. The caller has checked it: there is at least one point,
    /// distances rise from 1 on and no time is above `MOVE_MAX`.
    pub(crate) fn of(curve: &SeekCurve, cylinders: u32) -> Self {
        let mut nanos = vec![0_u32; cylinders as usize];
        for (distance, nano) in (0_u32..).zip(nanos.iter_mut()).skip(1) {
            *nano = at(curve, distance);
        }
        Self { nanos: nanos.into_boxed_slice() }
    }

    /// The time to move by `distance` cylinders, less than there are.
    pub(crate) fn time(&self, distance: u32) -> Duration {
        Duration::from_nanos(u64::from(self.nanos[distance as usize]))
    }

    /// The longest of all movements, which on a measured curve need not be the farthest.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(u64::from(self.nanos.iter().copied().max().unwrap_or(0)))
    }

    /// The mean over pairs of cylinders drawn evenly and independently, rounded down: what data sheets call
    /// the average seek.
    pub(crate) fn mean(&self) -> Duration {
        let cylinders = self.nanos.len() as u128;
        let sum: u128 = (0_u128..)
            .zip(&self.nanos)
            .map(|(distance, nanos)| 2 * (cylinders - distance) * u128::from(*nanos))
            .sum();
        Duration::from_nanos(u64::try_from(sum / (cylinders * cylinders)).expect("a mean of u32s"))
    }
}

/// Linear between points, and from the last two beyond; under the first point as long as it.
fn at(curve: &SeekCurve, distance: u32) -> u32 {
    let points = &curve.points;
    let above = points.partition_point(|point| point.0 < distance);
    let (low, high) = match above {
        0 => return nanos(points[0].1.as_nanos().into()),
        _ if points.len() == 1 => return nanos(points[0].1.as_nanos().into()),
        above if above == points.len() => (points[above - 2], points[above - 1]),
        above => (points[above - 1], points[above]),
    };
    let run = i128::from(high.0) - i128::from(low.0);
    let rise = i128::from(high.1.as_nanos()) - i128::from(low.1.as_nanos());
    let along = i128::from(distance) - i128::from(low.0);
    // Halves go up, so that a table read back in whole microseconds is the one written.
    let time = i128::from(low.1.as_nanos()) + (2 * along * rise + run).div_euclid(2 * run);
    nanos(time)
}

fn nanos(time: i128) -> u32 {
    u32::try_from(time.clamp(0, u32::MAX.into())).expect("clamped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(points: &[(u32, u64)], cylinders: u32) -> SeekTable {
        let points = points.iter().map(|p| (p.0, Duration::from_nanos(p.1))).collect();
        SeekTable::of(&SeekCurve { points, fall_max: Duration::ZERO }, cylinders)
    }

    #[test]
    fn the_curve_is_linear_between_and_beyond_its_points() {
        let seek = table(&[(1, 1_000), (11, 2_000), (21, 4_000)], 100);
        let times: Vec<u64> =
            [0, 1, 6, 11, 16, 21, 31].iter().map(|d| seek.time(*d).as_nanos()).collect();
        assert_eq!(times, [0, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000]);
    }

    #[test]
    fn the_mean_is_over_random_pairs_of_cylinders() {
        // Two cylinders: half of the pairs are one apart.
        assert_eq!(table(&[(1, 1_000)], 2).mean(), Duration::from_nanos(500));
        // A straight curve from nothing: a third of the stroke.
        let straight = table(&[(1, 1_000), (2, 2_000)], 1_000);
        assert_eq!(straight.mean().as_nanos() / 1_000, 333);
    }
}
