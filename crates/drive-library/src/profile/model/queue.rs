//! The discipline of a drive's queue: the one whose model has the measured rates at depth.

use std::sync::Arc;

use ::drive::{Choosing, Device, Discipline, Model, Spec, Tag};
use drive_profile::findings::{DepthPoint, Dynamics};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

/// The assumed age limit of a command, if starvation was not measured: that of the library's
/// drives.
const AGE_LIMIT: Duration = Duration::from_secs(2);
/// The assumed time for which the drive continues a stream, likewise.
const STREAM_HOLD: Duration = Duration::from_millis(1);
/// Reads at each depth, and the ones before them that are not counted.
const READS: u64 = 400;
const READS_BEFORE: u64 = 100;
/// The length of a read, 4 KiB.
const READ: Sectors = Sectors(8);
/// The step of a sequence that covers a disk evenly: the golden ratio, in 2⁻⁶⁴.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The discipline with which the drive comes nearest to its measured rates at depth.
pub(super) fn discipline(spec: &Spec, dynamics: &Dynamics) -> Discipline {
    let waits = dynamics.starvation.iter().flat_map(|starved| &starved.waits);
    // A starved command is served when its limit is over: the longest wait is the limit and one
    // command.
    let longest = waits.map(|(_, wait)| *wait).max().unwrap_or(AGE_LIMIT);
    let age_limit = longest.max(AGE_LIMIT / 20);
    let choosing =
        Choosing { age_limit, stream_hold: STREAM_HOLD, decision_latency: Duration::ZERO };
    let off = |discipline: Discipline| off(spec, discipline, &dynamics.depths);
    [
        Discipline::Fifo,
        Discipline::ShortestPositioning(choosing),
        Discipline::ShortestSeek(choosing),
    ]
    .into_iter()
    .min_by_key(|discipline| off(*discipline))
    .unwrap_or_default()
}

/// The drive's deviation from its rates at depth, in thousandths summed over all depths. An invalid
/// drive deviates equally under each discipline; its check reports it.
fn off(spec: &Spec, discipline: Discipline, depths: &[DepthPoint]) -> u64 {
    let spec = Spec { discipline, ..spec.clone() };
    let deep =
        || depths.iter().filter(|point| point.depth > 1 && point.depth <= spec.queue_depth_max);
    if deep().next().is_none() {
        return 0;
    }
    let Ok(model) = spec.clone().check() else { return u64::MAX };
    let model = Arc::new(model);
    let off = |point: &DepthPoint| {
        let is = per_1000_s(&model, point.depth);
        is.abs_diff(point.per_1000_s).saturating_mul(1_000) / point.per_1000_s.max(1)
    };
    deep().map(off).fold(0, u64::saturating_add)
}

/// Random reads at a depth, in 1000 seconds.
fn per_1000_s(model: &Arc<Model>, depth: u32) -> u64 {
    let blocks = model.capacity().0 / READ.0;
    if blocks == 0 {
        return 0;
    }
    let mut device = Device::new(Arc::clone(model));
    let (mut now, mut began) = (Instant::ZERO, Instant::ZERO);
    let (mut submitted, mut done) = (0_u64, 0);
    while done < READS_BEFORE + READS {
        while device.outstanding() < depth {
            submitted += 1;
            let place = u128::from(submitted.wrapping_mul(GOLDEN)) * u128::from(blocks);
            let block = u64::try_from(place >> 64).unwrap_or(0);
            let extent = Extent::new(Lba(block * READ.0), READ);
            device.submit(now, Tag(submitted), Operation::read(extent));
        }
        let Some(at) = device.next_completion() else { return 0 };
        now = now.max(at);
        if device.complete(now).is_some() {
            done += 1;
            if done == READS_BEFORE {
                began = now;
            }
        }
    }
    let took = u128::from(now.since(began).as_nanos().max(1));
    u64::try_from(u128::from(READS) * 1_000_000_000_000 / took).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn the_discipline_is_told_by_what_it_does_at_depth() {
        for name in catalogue::names() {
            let Some(spec) = catalogue::find_mechanical(name) else { continue };
            let model = Arc::new(spec.clone().check().expect("a drive"));
            let depths =
                [1, 2, 4, 8, 16, 32].into_iter().filter(|depth| *depth <= spec.queue_depth_max);
            let point =
                |depth| DepthPoint { depth, per_1000_s: per_1000_s(&model, depth), samples: 9 };
            let dynamics = Dynamics { depths: depths.map(point).collect(), ..Dynamics::default() };
            let found =
                discipline(&Spec { discipline: Discipline::Fifo, ..spec.clone() }, &dynamics);
            let kind = core::mem::discriminant::<Discipline>;
            assert_eq!(kind(&found), kind(&spec.discipline), "{name}: {found:?}");
        }
    }
}
