//! Whether a device rotates.
//!
//! A read of an uncached sector waits for the arm and for the sector to pass: it takes
//! milliseconds, and its time varies. A device that completes any read at once after idle time, or
//! all reads in equal time, does not rotate. Any other device may, and the search for its period
//! decides.
//!
//! A loaded host observes some completions late, by milliseconds, and none early. The faster reads
//! are therefore decisive.

use drive_profile::findings::{AccessPattern, RotationTest, RotationVerdict};
use units::{Duration, Sectors, Share};

use crate::bench::{Bench, StopReason};
use crate::throughput::load::{Addresses, Until, read, rest};
use crate::throughput::service_times::quantile;

/// The least service time of a random read with an arm: half of the fastest drive's mean rotational
/// latency.
const ARM_MIN: Duration = Duration::from_micros(700);
/// The share of reads in per cent that complete that fast on a device without an arm, however late
/// the others are observed. On a disk fewer are cache hits by chance.
const SOON_PERCENT: u32 = 25;
/// On a rotating disk latencies spread over a revolution, at least 4 ms: the 10th and the 50th
/// percentile differ by at least 1.6 ms.
const SPREAD_MIN: Duration = Duration::from_micros(800);
const READS: usize = 48;
/// The idle time between reads, so that a rate limit has tokens: at a hundred commands per second
/// each read completes at once.
const REST: Duration = Duration::from_millis(20);
const READS_OF_A_BUFFER: usize = 8;

/// Reads single blocks at random addresses, with idle time between them.
///
/// # Errors
/// As [`Bench::check`].
pub fn test_rotation(bench: &mut Bench<'_>) -> Result<RotationTest, StopReason> {
    let block = bench.facts().block.max(Sectors(8));
    let mut addresses = Addresses::new(AccessPattern::Random, block, bench.facts().sectors, 1);
    let mut latencies = Vec::new();
    let one = Until { time: Duration::MAX, commands: 1 };
    for _ in 0..READS {
        rest(bench, REST)?;
        latencies.extend(read(bench, 1, one, &mut addresses)?.latencies());
        if latencies.len() == READS_OF_A_BUFFER && latencies.iter().all(|time| *time < ARM_MIN / 4)
        {
            // All reads are far too fast for an arm: more of them would not change the verdict.
            break;
        }
    }
    let at = |percent| quantile(&latencies, Share::from_percent(percent)).unwrap_or(Duration::ZERO);
    let (median, spread) = (at(50), at(90).saturating_sub(at(10)));
    let (soon, sooner_half) = (at(SOON_PERCENT), median.saturating_sub(at(10)));
    let verdict = match () {
        // Without completions there is no evidence.
        () if latencies.is_empty() => RotationVerdict::MayRotate,
        () if soon < ARM_MIN => RotationVerdict::TooFast,
        () if sooner_half < SPREAD_MIN => RotationVerdict::Uniform,
        () => RotationVerdict::MayRotate,
    };
    let samples = u32::try_from(latencies.len()).unwrap_or(u32::MAX);
    Ok(RotationTest { verdict, median, spread, samples })
}
