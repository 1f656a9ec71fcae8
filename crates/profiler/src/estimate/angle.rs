//! Arithmetic on a circle: phases are parts of a revolution, and only their differences have a
//! meaning.

use crate::estimate::number::fraction;

/// A difference of phases, from −½ up to ½ of a revolution.
pub(crate) fn wrap(difference: f64) -> f64 {
    difference - (difference + 0.5).floor()
}

/// The centre of a cluster of phases, and the scatter of all phases about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Centre {
    /// The mean phase of the cluster.
    pub(crate) mean: f64,
    /// The mean distance of all phases from the mean, each limited to `reach`.
    pub(crate) scatter: f64,
    /// The number of phases in the cluster.
    pub(crate) count: u32,
}

/// The largest cluster of phases: the mean of all within `reach` of the phase with the most others
/// near it. `None` without phases.
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
    Some(Centre { mean: fraction(mean), scatter: off(mean) / f64::from(all), count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_centre_of_phases_is_where_most_of_them_are_also_across_phase_zero() {
        let found = centre(&[0.99, 0.01, 0.02, 0.98, 0.5], 0.1).expect("some");
        assert!(wrap(found.mean).abs() < 1e-9, "{found:?}");
        assert_eq!(found.count, 4);
        assert_eq!(centre(&[], 0.1), None);
    }
}
