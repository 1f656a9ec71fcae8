//! What a simulated pool did.

use stats::{DeadlinesReport, LatencyMs, VolumeReport};
use units::{Bytes, Instant};
use volume::pool::limits::BLOCK_SECTORS;

use super::pool_state::{Action, Change, PoolVolume, SimulatedPool};
use crate::run::{ChangeReport, PoolReport};

impl SimulatedPool {
    /// The first of its places among the simulation's volumes.
    pub(super) fn first_place(&self) -> usize {
        self.first_place
    }

    /// The reports of its volumes, from those of their parts on its disks, the first of which is at
    /// the place `first`.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub(super) fn volumes(
        &self,
        parts: &[VolumeReport],
        first: usize,
        seconds: f64,
    ) -> Vec<VolumeReport> {
        let of = |volume: &PoolVolume| {
            let own = || volume.places.values().map(|place| &parts[place - first]);
            let reserved = own().map(|part| part.reserve).fold(0.0, f64::max);
            let limit = own().map(|part| part.limit).fold(1.0, f64::min);
            VolumeReport {
                name: volume.name.clone(),
                reserve: reserved,
                limit,
                disk_time_share: own().map(|part| part.disk_time_share).sum(),
                requests: volume.answered,
                bytes: volume.bytes.0,
                iops: volume.answered as f64 / seconds,
                bytes_per_s: volume.bytes.0 as f64 / seconds,
                latency_ms: volume.latency.millis(),
                waiting_ms: LatencyMs::default(),
                deadline_misses: own().map(|part| part.deadline_misses).sum(),
                deadlines: self.deadlines(volume, own().filter_map(|part| part.deadlines)),
                bounded_latency: own()
                    .filter_map(|part| part.bounded_latency)
                    .reduce(|one, other| one.merged(&other)),
                dropped: volume.dropped,
                estimate_error_ms: None,
                declared: None,
                worth: None,
                read_ahead: None,
                write_buffer: None,
            }
        };
        self.volumes.iter().map(of).collect()
    }

    /// The deadlines of a volume's stream, of the parts on its disks; what it was asked for out of
    /// the volume's order counts where its disks have reserved for that order, and what came to a
    /// disk outside of that disk's span.
    fn deadlines(
        &self,
        volume: &PoolVolume,
        parts: impl Iterator<Item = DeadlinesReport>,
    ) -> Option<DeadlinesReport> {
        let mut sum = parts.reduce(|one, other| one.merged(&other))?;
        let outside = volume.outside.bytes().0;
        if outside > 0 {
            let none = || engine::StreamBytes::default().into();
            sum.bytes.get_or_insert_with(none).outside += outside;
        }
        let out_of_order = volume.id.map(|id| self.flow.out_of_order(id).bytes().0);
        if let Some(bytes) = &mut sum.bytes {
            bytes.out_of_order += out_of_order.unwrap_or_default();
        }
        Some(sum)
    }

    /// The report of the pool with these parts.
    pub(super) fn report(&self, parts: Vec<VolumeReport>) -> PoolReport {
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        let mut begun: Vec<(Instant, &Change)> =
            self.changes.iter().filter_map(|change| Some((change.begun?, change))).collect();
        begun.sort_by_key(|(at, _)| *at);
        let change = |(at, change): (Instant, &Change)| ChangeReport {
            volume: self.volumes[change.volume].name.clone(),
            action: match change.action {
                Action::Relocate { .. } => "relocate",
                Action::Snapshot { .. } => "snapshot",
            },
            begun_s: seconds(at),
            ended_s: change.ended.map(seconds),
            error: change.error.clone(),
        };
        let misplaced = self.flow.relocations().iter().map(|one| one.misplaced).sum::<u64>();
        let Bytes(block) = BLOCK_SECTORS.bytes();
        PoolReport {
            parts,
            changes: begun.into_iter().map(change).collect(),
            relocated_bytes: self.relocated.0,
            relocated_s: self.relocated_at.map(seconds),
            misplaced_bytes: misplaced * block,
        }
    }
}
