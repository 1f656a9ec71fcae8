//! How sequential a volume's requests are, for comparison with its declaration.

use units::{Extent, Lba, Sectors};

/// Requests and the runs that they came in, in the order in which they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    requests: u64,
    jumps: u64,
    sectors: u64,
    last_end: Option<Lba>,
}

impl Runs {
    /// Counts a request for `extent`; one without an extent is none. It goes on with a run if it
    /// starts nearer than `within` to where the last one ended.
    pub fn record(&mut self, extent: Extent, within: Sectors) {
        if extent.is_empty() {
            return;
        }
        let goes_on = self.last_end.is_some_and(|end| extent.start.distance(end) < within);
        self.requests += 1;
        self.jumps += u64::from(!goes_on);
        self.sectors += extent.len.0;
        self.last_end = Some(extent.end());
    }

    /// The requests since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            jumps: self.jumps - earlier.jumps,
            sectors: self.sectors - earlier.sectors,
            last_end: self.last_end,
        }
    }

    /// Requests a run, rounded to the nearest; `None` if there were none.
    pub fn mean(&self) -> Option<core::num::NonZeroU64> {
        let runs = self.jumps.max(1);
        core::num::NonZeroU64::new((self.requests + runs / 2) / runs)
    }

    /// Sectors a request, rounded up; `None` if there were none.
    pub fn block(&self) -> Option<Sectors> {
        (self.requests > 0).then(|| Sectors(self.sectors.div_ceil(self.requests)))
    }

    /// Their number.
    pub fn requests(&self) -> u64 {
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_their_jumps() {
        let mut runs = Runs::default();
        for start in [0, 8, 16, 1_000, 1_008, 1_016, 5_000, 5_008, 5_016] {
            runs.record(Extent::new(Lba(start), Sectors(8)), Sectors(100));
        }
        runs.record(Extent::new(Lba(0), Sectors(0)), Sectors(100));
        assert_eq!(runs.mean().map(core::num::NonZeroU64::get), Some(3));
        assert_eq!((runs.block(), runs.requests()), (Some(Sectors(8)), 9));
        let earlier = runs;
        runs.record(Extent::new(Lba(9_000), Sectors(16)), Sectors(100));
        let later = runs.since(&earlier);
        assert_eq!(
            (later.mean().map(core::num::NonZeroU64::get), later.block()),
            (Some(1), Some(Sectors(16)))
        );
    }
}
