//! Whether anything turns.
//!
//! A read of a place that nobody has read waits for an arm and for the place to come round: it takes milliseconds, and
//! never the same. What answers at once after a rest, whatever the place, has no such place; what takes equally long
//! everywhere neither. Everything else may turn, and whoever looks for a period finds one or none.
//!
//! A host that has other things to do notices answers late, some by milliseconds, and none early: so it is the sooner ones
//! that are believed.

use drive_profile::findings::{AccessPattern, RotationTest, RotationVerdict};
use units::{Duration, Sectors, Share};

use crate::bench::{Bench, StopReason};
use crate::throughput::load::{Addresses, Until, read, rest};
use crate::throughput::service_times::quantile;

/// Faster than this no arm is at a random place: half of the fastest drives' half turn.
const ARM_MIN: Duration = Duration::from_micros(700);
/// So many of a hundred reads are answered as soon where there is no arm, however late the others are noticed. Of an arm's
/// disk fewer lie in its memory by chance.
const SOON_PERCENT: u32 = 25;
/// On turning disks latencies spread over a turn, the shortest of which is 4 ms: between the tenth and the fiftieth of a
/// hundred lie 1.6 ms of it and more.
const SPREAD_MIN: Duration = Duration::from_micros(800);
const READS: usize = 48;
/// Between reads, so that what is rationed is not out of rations: of a hundred commands a second each comes at once.
const REST: Duration = Duration::from_millis(20);
const READS_OF_A_BUFFER: usize = 8;

/// Reads single blocks at random places, with rests between.
///
/// # Errors
/// As [`Bench::check`].
pub fn test_rotation(bench: &mut Bench<'_>) -> Result<RotationTest, StopReason> {
    let block = bench.facts().block.max(Sectors(8));
    let mut places = Addresses::new(AccessPattern::Random, block, bench.facts().sectors, 1);
    let mut latencies = Vec::new();
    let one = Until { time: Duration::MAX, commands: 1 };
    for _ in 0..READS {
        rest(bench, REST)?;
        latencies.extend(read(bench, 1, one, &mut places)?.latencies());
        if latencies.len() == READS_OF_A_BUFFER && latencies.iter().all(|time| *time < ARM_MIN / 4)
        {
            // Far too soon, each of them: there is nothing to be found out.
            break;
        }
    }
    let at = |percent| quantile(&latencies, Share::from_percent(percent)).unwrap_or(Duration::ZERO);
    let (median, spread) = (at(50), at(90).saturating_sub(at(10)));
    let (soon, sooner_half) = (at(SOON_PERCENT), median.saturating_sub(at(10)));
    let verdict = match () {
        // Whoever answers nothing says nothing.
        () if latencies.is_empty() => RotationVerdict::MayRotate,
        () if soon < ARM_MIN => RotationVerdict::TooFast,
        () if sooner_half < SPREAD_MIN => RotationVerdict::Uniform,
        () => RotationVerdict::MayRotate,
    };
    let samples = u32::try_from(latencies.len()).unwrap_or(u32::MAX);
    Ok(RotationTest { verdict, median, spread, samples })
}
