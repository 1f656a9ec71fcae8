//! Seek times.

use units::Duration;

/// Seek time against distance: linear between points and beyond the last, constant before the
/// first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeekTable {
    /// Distances in cylinders, strictly increasing from at least 1, and times.
    pub points: Vec<(u32, Duration)>,
}

impl SeekTable {
    /// The time to move by `distance` cylinders; zero for a distance of zero.
    pub fn time(&self, distance: u32) -> Duration {
        if distance == 0 || self.points.is_empty() {
            return Duration::ZERO;
        }
        let above = self.points.partition_point(|point| point.0 < distance);
        let (low, high) = match above {
            0 => return self.points[0].1,
            _ if self.points.len() == 1 => return self.points[0].1,
            above if above == self.points.len() => (self.points[above - 2], self.points[above - 1]),
            above => (self.points[above - 1], self.points[above]),
        };
        debug_assert!(low.0 < high.0, "distances increase");
        let (run, along) = (i128::from(high.0 - low.0), i128::from(distance - low.0));
        let rise = i128::from(high.1.as_nanos()) - i128::from(low.1.as_nanos());
        let time = i128::from(low.1.as_nanos()) + along * rise / run;
        Duration::from_nanos(u64::try_from(time.max(0)).unwrap_or(u64::MAX))
    }

    /// Whether the distances start above zero and increase strictly.
    pub fn is_increasing(&self) -> bool {
        self.points.first().is_none_or(|first| first.0 > 0)
            && self.points.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_times_are_linear_between_points_and_beyond_the_last() {
        let curve = SeekTable {
            points: vec![(1, Duration::from_millis(1)), (11, Duration::from_millis(2))],
        };
        let times: Vec<u64> = [0, 1, 6, 11, 21].map(|d| curve.time(d).as_micros()).to_vec();
        assert_eq!(times, [0, 1_000, 1_500, 2_000, 3_000]);
    }
}
