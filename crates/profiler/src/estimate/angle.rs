//! Arithmetic on a circle: phases are parts of a turn, and only their differences mean anything.

/// As a floating-point number.
#[expect(
    clippy::cast_precision_loss,
    reason = "addresses and times are far under 2^53 or rounded harmlessly"
)]
pub(crate) const fn real(number: u64) -> f64 {
    number as f64
}

/// A signed one as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "as above")]
pub(crate) const fn signed(number: i64) -> f64 {
    number as f64
}

/// The whole part of a number that is not negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as said")]
pub(crate) fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

/// The nearest whole number to one that is not negative.
pub(crate) fn nearest(number: f64) -> u64 {
    whole(number + 0.5)
}

/// A phase from 0 up to a turn.
pub(crate) fn part(phase: f64) -> f64 {
    phase - phase.floor()
}

/// A difference of phases, from minus half a turn up to half a turn.
pub(crate) fn wrap(difference: f64) -> f64 {
    difference - (difference + 0.5).floor()
}

/// Where most phases lie, and what the rest of them lies off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Centre {
    /// The mean of those that lie together.
    pub(crate) mean: f64,
    /// Their mean distance from it, and that of the others cut off at `reach`.
    pub(crate) scatter: f64,
    /// How many lie together.
    pub(crate) count: u32,
}

/// Where most of the phases lie: the mean of all within `reach` of the phase that most others are near to.
/// None of none.
pub(crate) fn centre(phases: &[f64], reach: f64) -> Option<Centre> {
    let off = |of: f64| phases.iter().map(|phase| wrap(phase - of).abs().min(reach)).sum::<f64>();
    let mut best = (f64::INFINITY, 0.0);
    for phase in phases {
        let sum = off(*phase);
        if sum < best.0 {
            best = (sum, *phase);
        }
    }
    let near: Vec<f64> =
        phases.iter().map(|phase| wrap(phase - best.1)).filter(|off| off.abs() < reach).collect();
    let count = u32::try_from(near.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return None;
    }
    let mean = best.1 + near.iter().sum::<f64>() / f64::from(count);
    let all = u32::try_from(phases.len()).unwrap_or(u32::MAX);
    Some(Centre { mean: part(mean), scatter: off(mean) / f64::from(all), count })
}

/// The parameters that fit best, in the sense of least squares, to rows of `N` weights and an outcome. None if the
/// rows do not tell.
pub(crate) fn fit<const N: usize>(rows: &[([f64; N], f64)]) -> Option<[f64; N]> {
    let mut matrix = [[0.0_f64; N]; N];
    let mut outcome = [0.0_f64; N];
    for (weights, value) in rows {
        for row in 0..N {
            outcome[row] += weights[row] * value;
            for column in 0..N {
                matrix[row][column] += weights[row] * weights[column];
            }
        }
    }
    for pivot in 0..N {
        let largest = (pivot..N)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, largest);
        outcome.swap(pivot, largest);
        if matrix[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        for row in 0..N {
            if row != pivot {
                let by = matrix[row][pivot] / matrix[pivot][pivot];
                let of = matrix[pivot];
                for (cell, above) in matrix[row].iter_mut().zip(of) {
                    *cell -= by * above;
                }
                outcome[row] -= by * outcome[pivot];
            }
        }
    }
    let mut parameters = [0.0; N];
    for (nth, parameter) in parameters.iter_mut().enumerate() {
        *parameter = outcome[nth] / matrix[nth][nth];
    }
    Some(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_centre_of_phases_is_where_most_of_them_are_also_across_the_turn() {
        let found = centre(&[0.99, 0.01, 0.02, 0.98, 0.5], 0.1).expect("some");
        assert!(wrap(found.mean).abs() < 1e-9, "{found:?}");
        assert_eq!(found.count, 4);
        assert_eq!(centre(&[], 0.1), None);
    }

    #[test]
    fn a_line_is_found_again() {
        let rows: Vec<([f64; 2], f64)> =
            (0..9_u32).map(f64::from).map(|x| ([1.0, x], 3.0 - 0.25 * x)).collect();
        let [level, slope] = fit(&rows).expect("a line");
        assert!((level - 3.0).abs() < 1e-12 && (slope + 0.25).abs() < 1e-12);
        assert_eq!(fit::<2>(&rows[..1]), None);
    }
}
