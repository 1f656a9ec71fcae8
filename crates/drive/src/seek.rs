//! The seek curve, looked up in constant time: a hint gives the segment of a distance.
//!
//! A table with one entry per distance is simpler and was slower: for a drive of 600,000 cylinders
//! it exceeds the near caches. A curve has few points.

use units::Duration;

use crate::spec::SeekCurve;

/// Hints there are at most: several to each point of any curve.
const HINTS_MAX: u32 = 4_096;

/// Time to move the arm, for every distance from 0 on.
#[derive(Clone, Debug)]
pub(crate) struct SeekTable {
    /// The lines that the curve is made of, by the distances behind their ends.
    lines: Box<[Line]>,
    /// The first line that may hold a distance, by its upper bits.
    hints: Box<[u32]>,
    hint_shift: u32,
    cylinders: u32,
}

/// A straight part of the curve.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The first distance that is on the next one.
    behind: u32,
    /// A distance on it, its time in ns, and how that rises over a run of distances.
    at: u32,
    run: u32,
    time: i64,
    rise: i64,
}

impl Line {
    /// In ns. Halves go up, so that a curve read back in whole microseconds is the one written.
    fn time(&self, distance: u32) -> u32 {
        let along = i64::from(distance) - i64::from(self.at);
        let run = i64::from(self.run);
        let time = self.time + (2 * along * self.rise + run).div_euclid(2 * run);
        u32::try_from(time.clamp(0, u32::MAX.into())).expect("clamped")
    }
}

impl SeekTable {
    /// The curve at every distance under `cylinders`. The caller has checked it: there is at least
    /// one point, distances rise from 1 on and no time is above `MOVE_MAX`. Linear between points,
    /// and from the last two beyond; under the first point as long as it.
    pub(crate) fn of(curve: &SeekCurve, cylinders: u32) -> Self {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).expect("under MOVE_MAX");
        let points = &curve.points;
        let level = |point: &(u32, Duration), behind| Line {
            behind,
            at: point.0,
            run: 1,
            time: nanos(point.1),
            rise: 0,
        };
        let mut lines = vec![level(&points[0], points[0].0)];
        lines.extend(points.windows(2).map(|pair| Line {
            behind: pair[1].0,
            at: pair[0].0,
            run: pair[1].0 - pair[0].0,
            time: nanos(pair[0].1),
            rise: nanos(pair[1].1) - nanos(pair[0].1),
        }));
        match lines.last_mut() {
            Some(last) if points.len() > 1 => last.behind = u32::MAX,
            _ => lines.push(level(&points[0], u32::MAX)),
        }
        let mut hint_shift = 0;
        while cylinders >> hint_shift >= HINTS_MAX {
            hint_shift += 1;
        }
        let hint = |upper: u32| {
            let line = lines.partition_point(|line| line.behind <= upper << hint_shift);
            u32::try_from(line).expect("points are fewer")
        };
        let hints = (0..=cylinders >> hint_shift).map(hint).collect();
        Self { hints, lines: lines.into_boxed_slice(), hint_shift, cylinders }
    }

    /// The time to move by `distance` cylinders, less than there are.
    pub(crate) fn time(&self, distance: u32) -> Duration {
        if distance == 0 {
            return Duration::ZERO;
        }
        assert!(distance < self.cylinders, "a seek stays on the disk");
        let mut line = self.hints[(distance >> self.hint_shift) as usize] as usize;
        while distance >= self.lines[line].behind {
            line += 1;
        }
        Duration::from_nanos(self.lines[line].time(distance).into())
    }

    /// The longest of all movements, which on a measured curve need not be the farthest.
    pub(crate) fn longest(&self) -> Duration {
        // A line is longest at one of its ends.
        let last = self.cylinders - 1;
        let ends = self.lines.iter().flat_map(|line| [line.at, line.behind]);
        let ends = ends.chain([last]).map(|distance| distance.min(last));
        ends.map(|distance| self.time(distance)).max().unwrap_or(Duration::ZERO)
    }

    /// The mean over pairs of cylinders drawn evenly and independently, rounded down: what data
    /// sheets call the average seek.
    pub(crate) fn mean(&self) -> Duration {
        let cylinders = u128::from(self.cylinders);
        let nanos = |distance: u32| u128::from(self.time(distance).as_nanos());
        let sum: u128 = (1..self.cylinders)
            .map(|distance| 2 * (cylinders - u128::from(distance)) * nanos(distance))
            .sum();
        Duration::from_nanos(u64::try_from(sum / (cylinders * cylinders)).expect("a mean of u32s"))
    }
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
