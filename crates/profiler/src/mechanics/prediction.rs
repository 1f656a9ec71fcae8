//! Whether sectors come when they are foretold: what just-in-time seeks stand on (FAST 2003 §3.2, §3.4).

use units::Share;

use crate::bench::StopReason;
use crate::estimate::number::{duration, ns, real, round_u32};
use crate::mechanics::prober::{ProbeKind, Prober, SeekDistance};
use drive_profile::findings::Prediction;

/// How long before its sector the heads are to arrive: the paper's offset, 1 ms.
const OFFSET: f64 = 1_000_000.0;
/// Ways that are tried.
const WAYS: u32 = 160;
/// When more than this part loses a turn, just-in-time seeks cost more than they bring: what the engine trusts.
const WORTH: u32 = 250_000_000;

/// Goes over random distances so that each sector comes an offset after the heads should.
///
/// `base` is what a way of no distance takes, in ns.
pub(crate) fn prediction(
    prober: &mut Prober<'_, '_>,
    curve: &drive_profile::SeekTable,
    base: f64,
) -> Result<Prediction, StopReason> {
    let ways = if prober.bench.budget().quick { WAYS / 4 } else { WAYS };
    let (mut missed, mut samples) = (0, 0);
    for _ in 0..ways {
        let last = prober.stroke();
        // Ways between places drawn evenly are short more often than long.
        let [one, two, _] = prober.draw();
        let distance = round_u32((one - two).abs() * f64::from(last)).clamp(1, last.max(1));
        let gap = base + ns(curve.time(distance)) + OFFSET;
        if let Some(bound) =
            prober.probe(SeekDistance::Cylinders(distance), gap, ProbeKind::Read)?
        {
            samples += 1;
            missed += u32::from(bound.reach > gap + prober.rotation.period() / 2.0);
        }
    }
    let share = real(missed.into()) / real(samples.max(1).into());
    let missed = Share::from_ppb(round_u32(share * 1e9).min(1_000_000_000));
    Ok(Prediction {
        noise: duration(prober.rotation.noise()),
        offset: duration(OFFSET),
        missed,
        samples,
        worth_it: samples > 0 && missed.ppb() <= WORTH && prober.rotation.is_settled(),
    })
}
