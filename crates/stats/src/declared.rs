//! What a volume declared, what it does, and what its share is worth then (RTAS 2008 §2.4).

use engine::{RateContract, RateRequirement};
use serde::Serialize;
use units::Duration;

use crate::Runs;

/// A rate that a volume's share was worked out from, beside what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeclaredReport {
    /// Requests a second that were asked for.
    pub iops: f64,
    /// Requests a run that were declared.
    pub run: u64,
    /// Bytes a request that were declared.
    pub block: u64,
    /// Requests a run that were seen; nothing if there were none.
    pub seen_run: Option<u64>,
    /// Bytes a request that were seen, on the mean.
    pub seen_block: Option<u64>,
    /// Requests a second that the reserve gives to what was seen.
    pub gives_iops: Option<f64>,
    /// What to do about it, if the behaviour no longer fits.
    pub warning: Option<String>,
}

/// The least part of the declared rate that a share must give: measured runs never equal the
/// declared ones exactly.
const FITS: f64 = 0.9;
/// The least number of requests for a verdict.
const REQUESTS_MIN: u64 = 100;

impl DeclaredReport {
    /// Compares the measured load with the declared one.
    pub fn new(declared: &RateContract, seen: &Runs) -> Self {
        let RateRequirement { interval, run, block } = declared.requirement;
        let (run, block) = (run.get(), block.bytes().0);
        let per_second = |interval: Duration| 1.0 / interval.as_secs_f64();
        let known = seen.requests() >= REQUESTS_MIN;
        let iops = per_second(interval);
        let seen_run = seen.mean().filter(|_| known).map(core::num::NonZeroU64::get);
        let seen_block = seen.block().filter(|_| known).map(|block| block.bytes().0);
        let gives = seen
            .mean()
            .zip(seen.block())
            .and_then(|(run, block)| declared.achievable_interval(run, block));
        let gives_iops = gives.filter(|_| known).map(per_second);
        let short = gives_iops.filter(|gives| *gives < FITS * iops);
        let warning = short.map(|gives| {
            let seen = seen_run.unwrap_or(0);
            let longer = seen_block.filter(|seen| *seen > block);
            let longer = longer
                .map_or_else(String::new, |seen| format!(" of {seen} bytes rather than {block}"));
            let percent = declared.share.as_f64() * 100.0;
            format!(
                "declared runs of {run}, seen {seen}{longer}: {percent:.2} % gives \
                     {gives:.0} IOPS, not {iops:.0}"
            )
        });
        Self { iops, run, block, seen_run, seen_block, gives_iops, warning }
    }
}

#[cfg(test)]
mod tests {
    use engine::Mechanics;
    use units::{Extent, Lba, Sectors, Share};

    use super::*;

    /// A disk with 12 ms of positioning for each run and 1 ms for each block; 380 a second take
    /// 45.13 % of it.
    fn declared() -> RateContract {
        let mechanics = Mechanics {
            seek_max: Duration::from_millis(16),
            rotation_period: Duration::from_millis(8),
            overhead: Duration::ZERO,
            hit: Duration::from_micros(100),
            sector: Duration::from_micros(125),
        };
        let run = core::num::NonZeroU64::new(64).expect("some");
        let interval = Duration::from_nanos(2_631_579);
        let demand = RateRequirement { interval, run, block: Sectors(8) };
        let batch = Duration::from_millis(250);
        let share = mechanics.share(demand, batch).expect("it fits");
        assert_eq!(share, Share::from_ppb(451_300_000));
        RateContract { requirement: demand, share, mechanics, batch }
    }

    fn seen(requests: u64, run: u64, block: u64) -> Runs {
        let mut runs = Runs::default();
        for request in 0..requests {
            let start = request / run * 1_000_000 + request % run * block;
            runs.record(Extent::new(Lba(start), Sectors(block)), Sectors(100));
        }
        runs
    }

    #[test]
    fn shorter_runs_are_told_with_what_they_cost() {
        let warning = |runs| DeclaredReport::new(&declared(), &runs).warning;
        // Three blocks take 15 ms: 200 a second of the whole disk.
        let told = "declared runs of 64, seen 3: 45.13 % gives 90 IOPS, not 380";
        assert_eq!(warning(seen(300, 3, 8)).as_deref(), Some(told));
        let told = "declared runs of 64, seen 64 of 8192 bytes rather than 4096: 45.13 % gives \
                    206 IOPS, not 380";
        assert_eq!(warning(seen(640, 64, 16)).as_deref(), Some(told));
    }

    #[test]
    fn what_fits_or_is_not_known_yet_is_no_warning() {
        let warned = |runs| DeclaredReport::new(&declared(), &runs).warning.is_some();
        assert_eq!([seen(99, 3, 8), seen(600, 60, 8), seen(200, 200, 8)].map(warned), [false; 3]);
    }
}
