//! The share that gives an application its rate (Zygaria, RTAS 2008 §2.4).
//!
//! A run of n requests takes `t = ½ s_max + ½ p + n·x`: half the longest seek, half a revolution,
//! and n transfers. A rate of r requests a second then takes the share `u = r · t ÷ n`. (RTAS 2008
//! prints `u = r ÷ t` with n inside t, which is not a share; divided by n and multiplied by t, it
//! is.) n is the run length that the application declares, `b_a`, or the longest that fits into a
//! batch, `b_s`, whichever is shorter.
//!
//! The guarantee is soft: the share is kept; the rate follows from it if the application behaves as
//! declared.

use core::num::NonZeroU64;

use units::{DiskTime, Duration, Sectors, Share};

/// The constants of a drive that the formula needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanics {
    /// The longest seek, `s_max`.
    pub seek_max: Duration,
    /// One revolution, p.
    pub rotation_period: Duration,
    /// The electronics of a command that moves the arm.
    pub overhead: Duration,
    /// The least service time of a command that continues a sequential run.
    pub hit: Duration,
    /// The time of one sector in the slowest zone.
    pub sector: Duration,
}

/// The rate that an application requires, and its declared behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRequirement {
    /// The mean time between two of its requests.
    pub interval: Duration,
    /// The number of consecutive requests before it jumps: `b_a`.
    pub run: NonZeroU64,
    /// The length of each.
    pub block: Sectors,
}

/// The rate that a volume requires, and the share that it takes on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateContract {
    /// The required rate and the declared behaviour.
    pub requirement: RateRequirement,
    /// The share of the disk's time that gives it.
    pub share: Share,
    /// The disk for which it was computed.
    pub mechanics: Mechanics,
    /// The disk's batches.
    pub batch: Duration,
}

impl RateContract {
    /// The mean time between two requests that the share achieves for such runs of such requests.
    pub fn achievable_interval(&self, run: NonZeroU64, block: Sectors) -> Option<Duration> {
        self.mechanics.interval(self.share, run, block, self.batch)
    }
}

/// Shares are rounded up to a multiple of this, in 10⁻⁹: a hundredth of a percentage point.
const STEP: u128 = 100_000;
const WHOLE: u128 = Share::ALL.ppb() as u128;
const _: () = assert!(WHOLE.is_multiple_of(STEP));

impl Mechanics {
    /// The transfer of one request in a sequential run, x: limited by the media or the electronics.
    fn transfer(&self, block: Sectors) -> u128 {
        let media = u128::from(self.sector.as_nanos()) * u128::from(block.0);
        let transfer = media.max(self.hit.as_nanos().into()).max(1);
        debug_assert!(transfer >= media, "a transfer takes at least the time on the media");
        transfer
    }

    /// The number of requests between two seeks: `min(b_s, b_a)`.
    fn run(&self, run: NonZeroU64, block: Sectors, batch: Duration) -> u128 {
        let fitting = u128::from(batch.as_nanos()) / self.transfer(block);
        let count = u128::from(run.get()).min(fitting.max(1));
        debug_assert!(count >= 1, "a run has a request");
        debug_assert!(count <= u128::from(run.get()), "no more than the application sends");
        count
    }

    /// The time of a run of `run` requests up to the next seek, and the number of its requests.
    fn pass(&self, run: NonZeroU64, block: Sectors, batch: Duration) -> (u128, u128) {
        let count = self.run(run, block, batch);
        let positioning = (self.seek_max / 2 + self.rotation_period / 2 + self.overhead).as_nanos();
        let pass = u128::from(positioning) + count * self.transfer(block);
        debug_assert!(pass >= count, "each transfer takes time");
        (pass, count)
    }

    /// The share that gives `demand` on a disk with this batch length; `None` if it exceeds the
    /// whole.
    pub fn share(&self, demand: RateRequirement, batch: Duration) -> Option<Share> {
        let (pass, count) = self.pass(demand.run, demand.block, batch);
        let per_pass = u128::from(demand.interval.as_nanos()) * count;
        let ppb = (pass * WHOLE).div_ceil(per_pass.max(1)).div_ceil(STEP) * STEP;
        debug_assert!(ppb > 0, "a rate takes disk time");
        debug_assert!(ppb.is_multiple_of(STEP), "a share is a multiple of the step");
        u32::try_from(ppb).ok().filter(|ppb| *ppb <= Share::ALL.ppb()).map(Share::from_ppb)
    }

    /// The mean time between two requests that `share` achieves for such runs; `None` if it never
    /// serves one.
    pub fn interval(
        &self,
        share: Share,
        run: NonZeroU64,
        block: Sectors,
        batch: Duration,
    ) -> Option<Duration> {
        let (pass, count) = self.pass(run, block, batch);
        debug_assert!(count > 0, "a run has a request");
        let nanos = i64::try_from(pass / count).ok()?;
        share.time_to_accrue(DiskTime::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A disk with round figures: 16 ms for the longest seek, 8 ms per revolution, 1 ms per block
    /// of 8 sectors.
    const DISK: Mechanics = Mechanics {
        seek_max: Duration::from_millis(16),
        rotation_period: Duration::from_millis(8),
        overhead: Duration::ZERO,
        hit: Duration::from_micros(100),
        sector: Duration::from_micros(125),
    };
    const BATCH: Duration = Duration::from_millis(250);

    fn demand(interval_ms: u64, run: u64) -> RateRequirement {
        let run = NonZeroU64::new(run).expect("not zero");
        RateRequirement { interval: Duration::from_millis(interval_ms), run, block: Sectors(8) }
    }

    #[test]
    fn the_formula_of_rtas_2008_by_hand() {
        // 12 ms of positioning and 1 ms of transfer for each request, ten a second.
        assert_eq!(DISK.share(demand(100, 1), BATCH), Some(Share::from_percent(13)));
        // Twelve requests share the positioning: 24 ms for them; 120 a second would be 24 %.
        assert_eq!(DISK.share(demand(100, 12), BATCH), Some(Share::from_percent(2)));
        // A batch fits 250, however long the run: 262 ms ÷ 250.
        let endless = DISK.share(demand(2, 1_000_000), BATCH).expect("it fits");
        assert_eq!(endless, Share::from_ppb(524_000_000));
        assert_eq!(DISK.share(demand(1, 4), BATCH), None, "4 ms per request do not fit 1 ms");
    }

    #[test]
    fn shorter_runs_than_declared_get_a_lower_rate() {
        let run = |n| NonZeroU64::new(n).expect("not zero");
        let given = |n| DISK.interval(Share::from_percent(40), run(n), Sectors(8), BATCH);
        // 40 % of the disk: (12 + 64) ms for 64, and 15 ms for 3.
        assert_eq!(given(64), Some(Duration::from_nanos(2_968_750)));
        assert_eq!(given(3), Some(Duration::from_micros(12_500)));
        assert_eq!(DISK.interval(Share::NONE, run(3), Sectors(8), BATCH), None);
    }

    proptest! {
        #[test]
        fn the_computed_share_achieves_the_required_rate(
            interval_us in 100_u64..1_000_000,
            run in 1_u64..100_000,
            block in 1_u64..2_048,
        ) {
            let run = NonZeroU64::new(run).expect("not zero");
            let interval = Duration::from_micros(interval_us);
            let demand = RateRequirement { interval, run, block: Sectors(block) };
            if let Some(share) = DISK.share(demand, BATCH) {
                let given = DISK.interval(share, run, Sectors(block), BATCH).expect("not nothing");
                let latest = interval + Duration::from_nanos(1);
                prop_assert!(given <= latest, "{} gives one in {}", share, given);
            }
        }
    }
}
