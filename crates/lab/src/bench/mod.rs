//! `spindle-lab bench`: measurements of a live daemon with real clients.

mod attack;
mod checksums;
mod clients;
mod clockwise;
mod connections;
mod depth;
mod fronts;
mod insulation;
mod live;
mod nbd;
mod pool;
mod preempt;
mod profile;
mod real;
mod rebuild;
mod shares;
mod vdisk;

pub(crate) use attack::attack;
pub(crate) use checksums::checksums;
pub(crate) use clients::clients;
pub(crate) use clockwise::clockwise;
pub(crate) use connections::connections;
pub(crate) use depth::depth;
pub(crate) use fronts::fronts;
pub(crate) use insulation::insulation;
pub(crate) use nbd::nbd;
pub(crate) use pool::pool;
pub(crate) use preempt::preempt;
pub(crate) use profile::profile;
pub(crate) use real::real;
pub(crate) use rebuild::rebuild;
pub(crate) use shares::shares;
pub(crate) use vdisk::vdisk;

/// The median; for an even number of values the mean of the middle two, for none NaN.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_one_whatever_the_order() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0].into_iter()) - 2.5).abs() < 1e-9);
        assert!(median(core::iter::empty()).is_nan());
    }
}
