//! The worth of a reserve: the rate that a client gets beside others, divided by the rate that the
//! same client gets alone on a drive slowed to its reserve.
//!
//! Both rates are measured by simulation, over the same time, with the same random numbers. The
//! reference runs under `fcfs` with whole commands and without read-ahead in the host: it is the
//! drive, without a scheduler.

use std::sync::Arc;

use config::{LoadedVolume, Plan, Requests, VolumeIndex, Workload};
use engine::{Contract, Execution, PolicyName, Priority, ReadAheadSettings};
use stats::{LatencyMs, WorthReport};
use units::{Duration, Instant, Share};

use crate::Simulation;

/// The longest start of a run that is not measured, unless a caller chooses another.
const WARM_UP_MAX: Duration = Duration::from_secs(5);

/// What one volume got after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Requests answered a second.
    pub rate: f64,
    /// From a request's arrival to its answer.
    pub latency_ms: LatencyMs,
}

/// The start of a run of this length that is not measured: 5 s, at most a quarter of it.
pub fn default_warm_up(duration: Duration) -> Duration {
    WARM_UP_MAX.min(duration / 4)
}

/// What each volume of the plan gets, in the plan's order.
///
/// # Panics
/// If the plan has no duration or one that is not longer than the warm-up, when an oracle does not
/// hold, or a trace cannot be replayed.
pub fn measure(plan: &Plan, warm_up: Duration) -> Vec<Measured> {
    let duration = plan.duration.expect("a scenario has a duration");
    assert!(warm_up < duration, "a part of the run is measured");
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + warm_up);
    let volumes = || (0..plan.volumes.len()).map(VolumeIndex);
    let before: Vec<u64> = volumes().map(|volume| simulation.volume(volume).requests).collect();
    simulation.restart_latencies();
    simulation.run_until(Instant::ZERO + duration);
    let seconds = (duration - warm_up).as_secs_f64();
    volumes()
        .zip(before)
        .map(|(volume, before)| {
            #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
            let requests = (simulation.volume(volume).requests - before) as f64;
            Measured { rate: requests / seconds, latency_ms: simulation.latency(volume) }
        })
        .collect()
}

/// The plan with the load of this volume alone, on its disk slowed to `share` of its speed.
///
/// # Panics
/// If the share is zero.
pub fn alone(plan: &Plan, volume: VolumeIndex, share: Share) -> Plan {
    let mut plan = plan.clone();
    for disk in &mut plan.disks {
        let depth = disk.depth;
        disk.set_policy(PolicyName::Fcfs);
        // As many commands as the drive had, in its own order.
        disk.depth = depth;
        disk.execution = Execution::Whole { split: None };
        disk.best_effort = None;
        disk.read_ahead = ReadAheadSettings::OFF;
    }
    let disk = &mut plan.disks[plan.volumes[volume.0].disk.0];
    disk.slowed = product(disk.slowed, share);
    for other in &mut plan.volumes {
        other.contract = Contract::BEST_EFFORT;
        (other.stream, other.declared, other.priority) = (None, None, Priority::Normal);
    }
    // Each workload keeps its index, and with it its stream of random numbers.
    let own = LoadedVolume::Single(volume);
    for workload in plan.workloads.iter_mut().filter(|workload| workload.volume != own) {
        workload.requests = Requests::Listed(Arc::from([]));
    }
    plan
}

/// The same with one command at a time: the reference of what a reserve is worth, whatever the
/// drive makes of its own queue.
///
/// # Panics
/// If the share is zero.
pub fn alone_in_order(plan: &Plan, volume: VolumeIndex, share: Share) -> Plan {
    let mut plan = alone(plan, volume, share);
    plan.disks.iter_mut().for_each(|disk| disk.depth = 1);
    plan
}

/// The worth of each volume's reserve; `None` for a volume without a reserve, or with another load
/// than generated closed loops. The start of both runs up to `warm_up` is not measured.
///
/// # Panics
/// As [`measure`].
pub fn worths(plan: &Plan, warm_up: Duration) -> Vec<Option<WorthReport>> {
    let shared = measure(plan, warm_up);
    let worth = |(index, shared): (usize, &Measured)| {
        let reserve = plan.volumes[index].contract.reserve;
        if reserve.is_none() || !is_closed(plan, VolumeIndex(index)) {
            return None;
        }
        let reference = alone_in_order(plan, VolumeIndex(index), reserve);
        let reference = measure(&reference, warm_up)[index];
        worth(shared, &reference)
    };
    shared.iter().enumerate().map(worth).collect()
}

/// The worth of what a client gets, by its reference; `None` if the reference gets nothing.
pub fn worth(shared: &Measured, reference: &Measured) -> Option<WorthReport> {
    (reference.rate > 0.0).then(|| WorthReport {
        value: shared.rate / reference.rate,
        rate: shared.rate,
        reference_rate: reference.rate,
        latency_ms: shared.latency_ms,
        reference_latency_ms: reference.latency_ms,
    })
}

/// Whether a volume has workloads, all of them generated closed loops.
fn is_closed(plan: &Plan, volume: VolumeIndex) -> bool {
    let own = |workload: &&Workload| workload.volume == LoadedVolume::Single(volume);
    let mut own = plan.workloads.iter().filter(own).peekable();
    own.peek().is_some()
        && own.all(|workload| {
            matches!(&workload.requests, Requests::Synthetic(drawn)
                if drawn.arrival.outstanding().is_some())
        })
}

/// Rounded down, and above zero.
fn product(one: Share, other: Share) -> Share {
    assert!(!one.is_none() && !other.is_none(), "a drive that stands still completes nothing");
    let ppb = u64::from(one.ppb()) * u64::from(other.ppb()) / u64::from(Share::ALL.ppb());
    Share::from_ppb(u32::try_from(ppb.max(1)).expect("a share of a share is a share"))
}
