//! What a command takes longer when nothing was asked for a while.
//!
//! Whoever stands on the way to a drive falls asleep meanwhile: the threads of servers, a processor, a link. A way of no
//! length is asked for most of a turn after the read before it, and a seek at once, so that seeks would come out that much
//! too short. Where the way can be timed on its own, all on it are woken before they are asked for something
//! ([`crate::Bench::wait_awake`]). Elsewhere memory answers: what it has it gives as fast after a silence as after none, so
//! that the difference is made on the way.

use units::{Duration, Extent, Lba, Operation, Sectors};

use crate::bench::StopReason;
use crate::cache::hit_timing::{MISS, read_ahead};
use crate::estimate::number::{duration, instant_ns, median, median_with_error, ns};
use crate::mechanics::prober::Prober;

/// How long it is looked at, by default and at a glance, in ns.
const TIME: [f64; 2] = [2.5e9, 0.6e9];
/// Reads of one run that was read ahead, each other one after a silence.
const EACH: u64 = 48;
/// Fewer tell nothing.
const LEAST: usize = 16;
/// So many errors of the difference tell that there is one.
const TELLS: f64 = 4.0;

/// What a command takes longer after a silence of so many ns than after none, in ns; 0 where nobody can tell or everybody is woken
/// before. `ahead` is how far the drive reads on.
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

/// By how much some are longer than others, if that can be told.
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
