//! Sizes as claims ask for them.

use tonic::Status;
use units::Bytes;

use crate::limits::{SIZE_DEFAULT, SIZE_UNIT};
use crate::proto::CapacityRange;

/// The smallest and the largest size that a claim accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeRange {
    least: Bytes,
    most: Option<Bytes>,
}

impl SizeRange {
    /// The range of a request.
    ///
    /// # Errors
    /// A number is negative, or the range is empty.
    pub(crate) fn of(range: Option<&CapacityRange>) -> Result<Self, Status> {
        let (required, limit) = range.map_or((0, 0), |one| (one.required_bytes, one.limit_bytes));
        let (Ok(required), Ok(limit)) = (u64::try_from(required), u64::try_from(limit)) else {
            return Err(Status::invalid_argument(
                "capacity_range: found a negative size, expected none",
            ));
        };
        let most = (limit > 0).then_some(Bytes(limit));
        if most.is_some_and(|most| most.0 < required) {
            return Err(Status::invalid_argument(format!(
                "capacity_range: found a limit of {limit} bytes, expected at least the {required} \
                 that are required"
            )));
        }
        Ok(Self { least: Bytes(required), most })
    }

    /// Whether a volume of this size is within it.
    pub(crate) fn accepts(self, size: Bytes) -> bool {
        self.least <= size && self.most.is_none_or(|most| size <= most)
    }

    /// The size of a new volume: whole units, at least `least`.
    ///
    /// # Errors
    /// There is no such size in the range.
    pub(crate) fn choose(self, least: Bytes) -> Result<Bytes, Status> {
        let asked = match (self.least, self.most) {
            (Bytes(0), Some(most)) => SIZE_DEFAULT.min(most),
            (Bytes(0), None) => SIZE_DEFAULT,
            (asked, _) => asked,
        };
        // A clone without a size of its own has that of its source.
        let asked = if self.least == Bytes(0) && least > Bytes(0) { least } else { asked };
        let size = Bytes(asked.max(least).0.div_ceil(SIZE_UNIT.0).saturating_mul(SIZE_UNIT.0));
        if self.most.is_some_and(|most| size > most) {
            return Err(Status::out_of_range(format!(
                "expected a limit of at least {} bytes: volumes have whole units of {} bytes",
                size.0, SIZE_UNIT.0
            )));
        }
        Ok(size)
    }
}

/// A size in an answer.
pub(crate) fn signed(size: Bytes) -> i64 {
    i64::try_from(size.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(required_bytes: i64, limit_bytes: i64) -> Result<SizeRange, Status> {
        SizeRange::of(Some(&CapacityRange { required_bytes, limit_bytes }))
    }

    #[test]
    fn sizes_are_rounded_up_within_the_limit() {
        let size = |required, limit, least| {
            range(required, limit).and_then(|range| range.choose(Bytes(least))).ok()
        };
        assert_eq!(size(1, 0, 0), Some(SIZE_UNIT));
        assert_eq!(size(1, 4_096, 0), None, "a unit is larger than the limit");
        assert_eq!(size(0, 0, 0), Some(SIZE_DEFAULT));
        assert_eq!(size(0, 0, 5 << 20), Some(Bytes(5 << 20)), "as large as its source");
        assert_eq!(size(1 << 20, 0, 5 << 20), Some(Bytes(5 << 20)));
        assert_eq!(size(1 << 20, 2 << 20, 5 << 20), None);
        assert!(range(-1, 0).is_err() && range(2, 1).is_err());
    }
}
