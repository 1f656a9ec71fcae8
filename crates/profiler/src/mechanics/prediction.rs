//! Whether sectors pass when predicted, which just-in-time seeks depend on (FAST 2003 §3.2, §3.4).

use units::Share;

use crate::bench::StopReason;
use crate::estimate::number::{duration, ns, real, round_u32};
use crate::mechanics::prober::{ProbeKind, Prober, SeekDistance};
use drive_profile::findings::Prediction;

/// The time before its sector at which the heads are to arrive: 1 ms, as in FAST 2003.
const OFFSET: f64 = 1_000_000.0;
/// The number of seeks.
const WAYS: u32 = 160;
/// The share of missed revolutions, in parts per billion, beyond which just-in-time seeks cost more
/// than they gain: the engine's limit.
const WORTH: u32 = 250_000_000;

/// Seeks over random distances to sectors that pass an offset after the predicted arrival.
///
/// `base` is the time of a zero-distance access, in ns.
///
pub(crate) fn prediction(
    prober: &mut Prober<'_, '_>,
    curve: &drive_profile::SeekTable,
    base: f64,
) -> Result<Prediction, StopReason> {
    let ways = if prober.bench.budget().quick { WAYS / 4 } else { WAYS };
    let (mut missed, mut samples) = (0, 0);
    for _ in 0..ways {
        let last = prober.stroke();
        // Distances between uniformly random cylinders are more often short than long.
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
        just_in_time_gains: samples > 0 && missed.ppb() <= WORTH && prober.rotation.is_settled(),
    })
}
