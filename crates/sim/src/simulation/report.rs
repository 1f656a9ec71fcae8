//! The state of a simulation, and its report.

use stats::{
    BoundedLatencyReport, DeadlinesReport, DeclaredReport, DiskReport, ExecutionReport, Latency,
    LatencyMs, SCHEMA, VolumeReport,
};
use units::Instant;

use super::pool_state::SimulatedPool;
use super::{Simulation, Volume, VolumeView};
use crate::non_preemptible::NonPreemptible;
use crate::oracle::{OracleCounts, never_misses};
use crate::run::Report;

impl Simulation {
    /// A volume of the plan in its present state.
    pub fn volume(&mut self, volume: config::VolumeIndex) -> VolumeView {
        let volume = &self.volumes[volume.0];
        let engine = &mut self.disks[volume.disk].engine;
        let balance = engine.balance(volume.id, self.now).unwrap_or_default();
        let account = engine.usage(volume.id);
        let demand = engine.service_demand(volume.id, self.now);
        VolumeView { disk_time: account.disk_time, requests: volume.answered, balance, demand }
    }

    /// The latencies of a volume of the plan since the start, or since
    /// [`Self::restart_latencies`].
    pub fn latency(&self, volume: config::VolumeIndex) -> LatencyMs {
        self.volumes[volume.0].latency.millis()
    }

    /// Forgets the latencies of all volumes so far.
    pub fn restart_latencies(&mut self) {
        self.volumes.iter_mut().for_each(|volume| volume.latency = Latency::default());
    }

    /// The non-preemptible intervals of a disk of the plan.
    pub fn non_preemptible(&self, disk: config::DiskIndex) -> &NonPreemptible {
        &self.disks[disk.0].non_preemptible
    }

    /// The statistics of preemptible execution on a disk of the plan, if it is enabled.
    pub fn executed(&self, disk: config::DiskIndex) -> Option<engine::PreemptionStats> {
        self.disks[disk.0].engine.preemption_stats()
    }

    /// How preemptible execution on a disk of the plan moves the arm ahead, if it is enabled.
    pub fn seeks_ahead(&self, disk: config::DiskIndex) -> Option<engine::SeeksAhead> {
        self.disks[disk.0].engine.seeks_ahead()
    }

    /// What freeblock scheduling has done on a disk of the plan, if it is on.
    pub fn freeblock(&self, disk: config::DiskIndex) -> Option<engine::FreeblockStats> {
        self.disks[disk.0].engine.freeblock_stats()
    }

    /// The predictions of positioning times on a disk of the plan, if there are any.
    pub fn predictions(&self, disk: config::DiskIndex) -> Option<engine::PredictionStats> {
        self.disks[disk.0].engine.chooser().1
    }

    /// The report of the run so far.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn report(&self) -> Report {
        let seconds = self.now.since(Instant::ZERO).as_secs_f64();
        let disks = self.disks.iter().map(|disk| DiskReport {
            name: disk.name.clone(),
            busy_share: disk.engine.busy().as_secs_f64() / seconds,
            bytes_per_s: disk.bytes.0 as f64 / seconds,
            execution: disk.engine.preemption_stats().map(ExecutionReport::from),
            estimate_error_ms: disk.error.error(),
        });
        let of_plan = self.pool.as_ref().map_or(self.volumes.len(), SimulatedPool::first_place);
        let (plain, parts) = self.volumes.split_at(of_plan);
        let mut volumes: Vec<_> = plain.iter().map(|one| self.volume_report(one)).collect();
        let parts: Vec<_> = parts.iter().map(|one| self.volume_report(one)).collect();
        let pool = self.pool.as_ref().map(|pool| {
            volumes.extend(pool.volumes(&parts, of_plan, seconds));
            pool.report(parts)
        });
        let (schema, seed, duration_s) = (SCHEMA, self.seed, seconds);
        let traces = self.loads.iter().filter_map(|load| load.source.report()).collect();
        let (disks, oracles) = (disks.collect(), self.oracle_counts());
        Report { schema, seed, duration_s, disks, volumes, pool, traces, oracles }
    }

    /// The report of a volume on one disk.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn volume_report(&self, volume: &Volume) -> VolumeReport {
        let seconds = self.now.since(Instant::ZERO).as_secs_f64();
        let engine = &self.disks[volume.disk].engine;
        let (contract, account) = (engine.contract(volume.id), engine.usage(volume.id));
        let kept = engine.deadline_stats(volume.id);
        VolumeReport {
            name: volume.name.clone(),
            reserve: contract.reserve.as_f64(),
            limit: contract.limit.as_f64(),
            disk_time_share: account.disk_time.as_secs_f64() / seconds,
            requests: volume.answered,
            bytes: volume.bytes.0,
            iops: volume.answered as f64 / seconds,
            bytes_per_s: volume.bytes.0 as f64 / seconds,
            latency_ms: volume.latency.millis(),
            waiting_ms: volume.waiting.millis(),
            deadline_misses: kept.map_or(0, |kept| kept.missed),
            deadlines: kept.map(DeadlinesReport::from),
            bounded_latency: engine.latency_stats(volume.id).map(BoundedLatencyReport::from),
            dropped: volume.dropped,
            estimate_error_ms: volume.error.error(),
            declared: volume.declared.map(|declared| DeclaredReport::new(&declared, &volume.runs)),
            worth: None,
            read_ahead: self.disks[volume.disk].read_ahead_of(volume.id),
            write_buffer: self.disks[volume.disk].buffered_of(volume.id),
        }
    }

    fn oracle_counts(&self) -> OracleCounts {
        OracleCounts {
            reads_checked: self.disks.iter().map(|disk| disk.data.checked).sum::<u64>()
                + self.pool.as_ref().map_or(0, SimulatedPool::checked),
            deadlines_checked: self.volumes.iter().map(|volume| self.deadlines_met(volume)).sum(),
            promises_checked: self.volumes.iter().map(|volume| volume.reserve_oracle.checked).sum(),
            worths_checked: self
                .volumes
                .iter()
                .map(|volume| volume.reserve_oracle.checked_pausing)
                .sum(),
            ..self.counts
        }
    }

    /// The number of blocks that met their deadline, under a policy that never misses one.
    fn deadlines_met(&self, volume: &Volume) -> u64 {
        let disk = &self.disks[volume.disk];
        let kept = disk.engine.deadline_stats(volume.id).filter(|_| never_misses(&disk.settings));
        kept.map_or(0, |kept| kept.met)
    }
}
