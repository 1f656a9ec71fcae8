//! The additional latency of a command after idle time.
//!
//! The path to a drive falls asleep during idle time: server threads, a processor, a link. A
//! zero-distance access is issued most of a revolution after the read before it, and a seek at
//! once, so that seek times would be too short by this latency. Where the path can be timed alone,
//! it is woken before each request ([`crate::Bench::wait_awake`]). Elsewhere cache hits show the
//! difference: the cache itself answers as fast after idle time as without, so the difference is
//! the path's.

use units::{Duration, Extent, Lba, Operation, Sectors};

use crate::bench::StopReason;
use crate::cache::hit_timing::{MISS, read_ahead};
use crate::estimate::number::{duration, instant_ns, median, median_with_error, ns};
use crate::mechanics::prober::Prober;

/// The time of the measurement, of a full and of a quick profile, in ns.
const TIME: [f64; 2] = [2.5e9, 0.6e9];
/// Reads of one read-ahead, every second of them after idle time.
const EACH: u64 = 48;
/// The least number of samples.
const LEAST: usize = 16;
/// The significance of a difference, in standard errors.
const TELLS: f64 = 4.0;

/// The additional latency of a command after `silence` ns of idle time, in ns. Zero where it is not
/// observable, or where the path is woken before each command. `ahead` is the length of the
/// read-ahead.
pub(crate) fn after(
    prober: &mut Prober<'_, '_>,
    silence: f64,
    ahead: Sectors,
) -> Result<f64, StopReason> {
    let block = prober.block();
    let each = (ahead.0.saturating_sub(block.0) / block.0).min(EACH);
    if each < 3 || prober.bench.path(Duration::ZERO)?.is_some() {
        return Ok(0.0);
    }
    let until = instant_ns(prober.bench.now()) + TIME[usize::from(prober.bench.budget().quick)];
    let (mut at_once, mut later) = (Vec::new(), Vec::new());
    while instant_ns(prober.bench.now()) < until {
        let first = read_ahead(prober, ahead)?;
        for nth in 0..each {
            if nth % 2 == 0 {
                let now = prober.bench.now();
                prober.bench.wait_until(now + duration(silence));
            }
            let extent = Extent::new(Lba(first.end().0 + nth * block.0), block);
            let took = ns(prober.bench.time(Operation::read(extent))?.took());
            if nth % 2 == 0 { later.push(took) } else { at_once.push(took) }
        }
    }
    Ok(more(&later, &at_once))
}

/// The difference of the medians, if it is significant.
fn more(later: &[f64], at_once: &[f64]) -> f64 {
    let hits = |of: &[f64]| -> Vec<f64> {
        let most = median(of.to_vec()).unwrap_or(0.0) + MISS;
        of.iter().copied().filter(|took| *took < most).collect()
    };
    let (later, at_once) = (hits(later), hits(at_once));
    if later.len().min(at_once.len()) < LEAST {
        return 0.0;
    }
    let ((later, error), (at_once, other)) =
        (median_with_error(&later), median_with_error(&at_once));
    let more = later - at_once;
    if more > TELLS * error.hypot(other) { more } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::number::real;

    #[test]
    fn what_noise_makes_is_nothing() {
        let hits =
            |from: f64| (0..60_u64).map(|nth| from + real(nth * 7 % 60) * 1e3).collect::<Vec<_>>();
        assert!(more(&hits(400e3), &hits(395e3)).abs() < 1.0, "5 us of hits that vary by 60");
        assert!((more(&hits(480e3), &hits(400e3)) - 80e3).abs() < 1.0);
        let mut one_missed = hits(480e3);
        one_missed[3] = 9e6;
        assert!((more(&one_missed, &hits(400e3)) - 80e3).abs() < 2e3);
        assert!(more(&hits(480e3)[..8], &hits(400e3)).abs() < 1.0, "too few");
    }
}
