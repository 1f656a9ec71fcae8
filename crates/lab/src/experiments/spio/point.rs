//! One point of a figure: the settings of a run, and its results.

use std::sync::{Arc, Mutex, PoisonError};

use config::{Access, Arrival, DiskIndex, Mix, Plan, ProfileRef, Requests, Synthetic, VolumeIndex};
use drive::DestageBeforeRead;
use engine::{Execution, PreemptionStats};
use units::{Bytes, Duration, Instant, Op, Operation};

use super::super::sample::{length, scenario};
use super::settings::kb;
use sim::{NonPreemptible, Simulation};

const SCENARIO: &str = include_str!("../../../experiments/spio.toml");
/// The least number of requests of higher priority for a mean.
const HIGH_LEAST: f64 = 200.0;

/// The settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) drive: &'static str,
    pub(super) execution: Execution,
    pub(super) low: Low,
    /// Requests of high priority per second.
    pub(super) rate: f64,
    /// The profile that the engine uses; `None` for the assumed profile.
    pub(super) profile: Option<ProfileRef>,
    /// The segments of the drive's write buffer, if it is emptied before a read.
    pub(super) destage: Option<DestageBeforeRead>,
}

/// The requests of low priority.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Low {
    /// Synthetic requests.
    Synthetic { op: Op, access: Access, block: Bytes },
    /// A list of requests, run once.
    Listed(Arc<[Operation]>),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// The durations of the commands, from which expected waiting is computed.
    pub(super) commands: NonPreemptible,
    pub(super) executed: PreemptionStats,
    /// The throughput of the low-priority requests, in MB/s.
    pub(super) mb_per_s: f64,
    /// The throughput of the low-priority requests with free prefetches, in MB/s.
    pub(super) mb_per_s_prefetching: f64,
    /// Mean response of the high-priority requests, in ms.
    pub(super) high_ms: f64,
    /// The number of completed low-priority requests.
    pub(super) requests: u64,
}

/// Completed runs, because several figures share runs.
static RUNS: Mutex<Vec<(Point, Measured)>> = Mutex::new(Vec::new());

impl Point {
    /// FAST 2003's drive, requests of `size` kB at random places, first come first served, no
    /// request of higher priority.
    pub(super) fn new(execution: Execution, op: Op, size: u32) -> Self {
        let low = Low::Synthetic { op, access: Access::Random, block: kb(size) };
        Self { low, ..Self::of("st318437lw", execution) }
    }

    /// The drive with a list of no requests, none of higher priority, and the drive's own settings.
    pub(super) fn of(drive: &'static str, execution: Execution) -> Self {
        let low = Low::Listed(Arc::new([]));
        Self { drive, execution, low, rate: 0.0, profile: None, destage: None }
    }

    pub(super) fn destaging(self, destage: DestageBeforeRead) -> Self {
        Self { destage: Some(destage), ..self }
    }

    pub(super) fn with_access(mut self, wanted: Access) -> Self {
        if let Low::Synthetic { access, .. } = &mut self.low {
            *access = wanted;
        }
        self
    }

    pub(super) fn with_rate(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    pub(super) fn knowing(self, profile: Option<ProfileRef>) -> Self {
        Self { profile, ..self }
    }

    /// Runs the point, or returns the results of an earlier equal run.
    pub(super) fn measure(&self) -> Measured {
        let known = || RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, measured)) = known().iter().find(|(point, _)| point == self) {
            return measured.clone();
        }
        let measured = self.run();
        known().push((self.clone(), measured.clone()));
        measured
    }

    /// The expected waiting time of a request, in ms.
    pub(super) fn wait(&self) -> f64 {
        self.measure().wait()
    }

    fn plan(&self) -> Plan {
        let mut plan = scenario("spio.toml", SCENARIO);
        let disk = &mut plan.disks[0];
        if self.drive != disk.drive.name || self.destage.is_some() {
            let mut spec =
                drive_library::find_mechanical(self.drive).expect("a drive of the library");
            spec.firmware.destage_before_read = self.destage;
            let model = Arc::new(spec.check().expect("the library's drives are sound"));
            let size = Bytes(model.capacity().0 * units::SECTOR_BYTES);
            disk.drive = config::DriveRef {
                name: self.drive.into(),
                model: drive::AnyModel::Mechanical(model),
            };
            plan.volumes.iter_mut().for_each(|volume| volume.size = size);
        }
        disk.execution = self.execution;
        disk.profile.clone_from(&self.profile);
        plan.workloads[0].requests = match &self.low {
            Low::Synthetic { op, access, block } => {
                let arrival = Arrival::closed(1);
                let mix = if *op == Op::Write { Mix::Write } else { Mix::Read };
                Requests::Synthetic(Synthetic {
                    mix,
                    access: *access,
                    block: *block,
                    arrival,
                    flush_every: None,
                })
            }
            Low::Listed(operations) => Requests::Listed(Arc::clone(operations)),
        };
        if self.rate == 0.0 {
            plan.workloads.truncate(1);
        } else if let Requests::Synthetic(high) = &mut plan.workloads[1].requests {
            high.arrival = Arrival::Open { interval: interval(self.rate) };
            let seconds = length(&plan).as_secs_f64().max(HIGH_LEAST / self.rate);
            plan.duration = Some(interval(1.0) * whole(seconds));
        }
        plan
    }

    fn run(&self) -> Measured {
        let plan = self.plan();
        let mut simulation = Simulation::new(&plan);
        let mut end = Instant::ZERO + length(&plan);
        if let Low::Listed(operations) = &self.low {
            // Up to the completion of the last request, in steps of 0.1 s, so that no longer idle
            // time counts.
            let all = operations.len() as u64;
            end = Instant::ZERO;
            while simulation.volume(VolumeIndex(0)).requests < all {
                end += Duration::from_millis(100);
                simulation.run_until(end);
            }
        }
        simulation.run_until(end);
        let report = simulation.report();
        let [low, high] = &report.volumes[..] else { unreachable!("two volumes") };
        let executed = simulation.executed(DiskIndex(0)).unwrap_or_default();
        let prefetched = mb(executed.prefetched.bytes()) / end.since(Instant::ZERO).as_secs_f64();
        Measured {
            commands: simulation.non_preemptible(DiskIndex(0)).clone(),
            executed,
            mb_per_s: low.bytes_per_s / 1e6,
            mb_per_s_prefetching: low.bytes_per_s / 1e6 + prefetched,
            high_ms: high.latency_ms.mean,
            requests: low.requests,
        }
    }
}

impl Measured {
    /// The expected waiting time of a request that arrives at a random instant, in ms (equation 2).
    pub(super) fn wait(&self) -> f64 {
        self.commands.expected_wait().as_millis_f64()
    }
}

/// The loss from `before` to `after`, in % of `before`.
pub(super) fn lost(before: f64, after: f64) -> f64 {
    (1.0 - after / before) * 100.0
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn mb(bytes: Bytes) -> f64 {
    bytes.0 as f64 / 1e6
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// The time between two requests at `rate` requests per second.
fn interval(rate: f64) -> Duration {
    Duration::from_nanos(whole(1e9 / rate))
}
