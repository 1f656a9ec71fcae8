//! From the daemon's config and accounts to the API's shapes.

use std::collections::BTreeMap;

use config::{Document, Plan, StreamEdit, VolumeEdit};
use daemon::{DiskStatus, Operator, PoolView, Status, VolumeStatus};
use engine::stream::{RequestedStream, Span, Task};
use engine::{Admission as Promised, DeadlineStats};
use nbd::ExportId;
use units::{Bytes, Instant, SECTOR_BYTES, Sectors};
use volume::{DiskExtent, DiskId, FreeSpace, NoSpace};

use crate::pool::PoolVolume;
use crate::problem::Problem;
use crate::shapes::{
    Admission, Disk, DiskState, LatencyMs, Room, Stream, StreamSpec, Volume, VolumeSpec,
};

/// All volumes. One that came or went between the two questions is left out.
pub(crate) fn volumes(operator: &Operator) -> Vec<Volume> {
    let (document, status) = (operator.document(), operator.accounts());
    volumes_of((&document, operator.pool()), &status, &operator.connections(), false)
}

/// One volume, with its latencies.
pub(crate) fn volume(operator: &Operator, name: &str) -> Result<Volume, Problem> {
    let (document, pool) = (operator.document(), operator.pool());
    let pooled = |pool: &daemon::PoolView| pool.volumes.iter().any(|volume| volume.name == name);
    if !pool.as_ref().is_some_and(pooled) {
        document.volume(name).map_err(daemon::ChangeError::Missing)?;
    }
    let mut status = operator.status_of(name);
    status.volumes.retain(|volume| volume.name == name);
    let volume = volumes_of((&document, pool), &status, &operator.connections(), true).pop();
    // It went between the two questions.
    volume.ok_or_else(|| Problem::new(axum::http::StatusCode::NOT_FOUND, "missing", "it is gone"))
}

fn volumes_of(
    (document, pool): (&Document, Option<PoolView>),
    status: &Status,
    connections: &BTreeMap<ExportId, usize>,
    latency: bool,
) -> Vec<Volume> {
    let plan = document.plan();
    let planned: BTreeMap<&str, &config::Volume> =
        plan.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect();
    let pool = pool.as_ref();
    let pooled: BTreeMap<&str, &daemon::PoolVolumeView> = pool
        .into_iter()
        .flat_map(|pool| pool.volumes.iter().map(|volume| (volume.name.as_str(), volume)))
        .collect();
    let tell = |told: &VolumeStatus| {
        let on = &status.disks[told.disks[0].0];
        let connections = connections.get(&told.export).copied().unwrap_or(0);
        let latency = latency.then(|| latency_of(told));
        let about = match planned.get(told.name.as_str()) {
            Some(planned) => About::planned(plan, planned),
            None => About::pooled(plan, pooled.get(told.name.as_str())?, told),
        };
        let worst = told.disks.iter().map(|disk| status.disks[disk.0].health.state).max();
        let state = worst.map_or(DiskState::Well, state_of);
        Some(one(about, (told, on, state), (connections, latency)))
    };
    status.volumes.iter().filter_map(tell).collect()
}

/// What of a volume is known without the disks' threads.
struct About<'a> {
    disk: &'a config::Disk,
    /// The disk, or the disks.
    on: String,
    size: Bytes,
    at: Option<Bytes>,
    stream: Option<(RequestedStream, Span, Task)>,
    pool: Option<PoolVolume>,
}

impl<'a> About<'a> {
    fn planned(plan: &'a Plan, planned: &config::Volume) -> Self {
        let disk = &plan.disks[planned.disk.0];
        Self {
            disk,
            on: disk.name.clone(),
            size: planned.size,
            at: Some(Bytes(planned.place.start.0 * SECTOR_BYTES)),
            stream: planned.stream.map(|stream| (stream.asked, stream.span, stream.promised.task)),
            pool: None,
        }
    }

    fn pooled(plan: &'a Plan, pooled: &daemon::PoolVolumeView, told: &VolumeStatus) -> Self {
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&pooled.name));
        let stream = planned.and_then(|volume| {
            let part = volume.parts.first()?.contract.stream?;
            let stream = volume.stream?;
            Some((stream.asked, stream.span, part.task))
        });
        Self {
            disk: &plan.disks[told.disks[0].0],
            on: pooled.disks.join("+"),
            size: pooled.size,
            at: None,
            stream,
            pool: Some(pooled.clone().into()),
        }
    }
}

fn one(
    about: About<'_>,
    (told, told_by, state): (&VolumeStatus, &DiskStatus, DiskState),
    (connections, latency_ms): (usize, Option<LatencyMs>),
) -> Volume {
    let About { disk, on, size, at: place, stream, pool } = about;
    Volume {
        name: told.name.clone(),
        disk: on,
        state,
        size: config::size_text(size),
        size_bytes: size.0,
        at_bytes: place.map(|place| place.0),
        pool,
        reserve: disk.share_text(told.contract.reserve),
        limit: disk.share_text(told.contract.limit),
        weight: told.contract.weight.as_u32(),
        stream: stream.map(|stream| stream_of(stream, told.kept)),
        connections,
        disk_time_s: told.account.disk_time.as_secs_f64(),
        balance_s: told.balance.map(units::DiskTime::as_secs_f64),
        requests: told.account.requests,
        failures: told.account.failures,
        bytes: told.account.sectors.bytes().0,
        in_flight: told.traffic.open,
        request_time_s: told.traffic.time().as_secs_f64(),
        told_at_s: told_by.at.since(Instant::ZERO).as_secs_f64(),
        latency_ms,
    }
}

const fn state_of(state: daemon::DiskState) -> DiskState {
    match state {
        daemon::DiskState::Healthy => DiskState::Well,
        daemon::DiskState::Poisoned => DiskState::Poisoned,
        daemon::DiskState::Offline => DiskState::Gone,
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn room_of(room: config::AdmissionHeadroom) -> Room {
    Room {
        tasks: room.tasks,
        utilization: room.utilization_ppb as f64 / 1e9,
        slack_ms: room.slack.as_secs_f64() * 1e3,
    }
}

fn stream_of((asked, span, task): (RequestedStream, Span, Task), kept: DeadlineStats) -> Stream {
    let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
    let end = Some(span.end).filter(|end| *end < Instant::FAR_FUTURE);
    Stream {
        bandwidth: format!("{}/s", config::decimal_text(asked.bandwidth)),
        block: config::decimal_text(asked.block),
        period_ms: task.period().as_millis_f64(),
        cost_ms: task.cost().as_secs_f64() * 1e3,
        from_s: seconds(span.start),
        until_s: end.map(seconds),
        met: kept.met,
        missed: kept.missed,
        lateness_max_ms: kept.max_lateness.as_millis_f64(),
    }
}

fn latency_of(told: &VolumeStatus) -> LatencyMs {
    let millis = told.latency.millis();
    LatencyMs {
        mean: millis.mean,
        p50: millis.p50,
        p99: millis.p99,
        p999: millis.p999,
        max: millis.max,
    }
}

/// All disks.
pub(crate) fn disks(operator: &Operator) -> Vec<Disk> {
    let (document, status) = (operator.document(), operator.accounts());
    let plan = document.plan();
    let disks = plan.disks.iter().zip(&status.disks).enumerate().map(|(index, (disk, told))| {
        let (NoSpace { free: left, largest_gap: gap }, promised) = left(plan, index);
        Disk {
            name: disk.name.clone(),
            drive: disk.drive.name.clone(),
            policy: disk.policy.to_string(),
            depth: disk.depth,
            period: disk.period.to_string(),
            volumes: volumes_on(plan, index),
            reserved: disk.share_text(promised.reserved()),
            left: disk.share_text(promised.available()),
            capacity_bytes: disk.drive.model.capacity().bytes().0,
            free_bytes: left.bytes().0,
            gap_bytes: gap.bytes().0,
            requests: told.traffic.requests(),
            bytes: moved(&told.traffic),
            in_flight: told.traffic.open,
            busy_s: told.busy.as_secs_f64(),
            uptime_s: told.at.since(Instant::ZERO).as_secs_f64(),
            access: told.access.map(|access| access.to_string()),
            state: state_of(told.health.state),
            read_failures: told.health.read_failures,
            write_failures: told.health.write_failures,
            refused: told.health.refused,
            oldest_command_ms: told.health.oldest.map(|(_, age)| age.as_millis_f64()),
            oldest_command: told.health.oldest.map(|(op, _)| op.to_string()),
        }
    });
    disks.collect()
}

/// What has been read and written.
fn volumes_on(plan: &Plan, disk: usize) -> usize {
    let plain = plan.volumes.iter().filter(|volume| volume.disk.0 == disk).count();
    let on = |volume: &&config::PoolVolume| volume.parts.iter().any(|part| part.disk.0 == disk);
    plain + plan.pool.as_ref().map_or(0, |pool| pool.volumes.iter().filter(on).count())
}

fn moved(traffic: &daemon::Traffic) -> u64 {
    (traffic.reads.sectors.bytes() + traffic.writes.sectors.bytes()).0
}

/// What a disk of the plan has left: space, and time.
fn left(plan: &Plan, disk: usize) -> (NoSpace, Promised) {
    let at = config::DiskIndex(disk);
    let promised = plan.promised(at);
    if plan.pool.as_ref().is_some_and(|pooled| pooled.disks.contains(&at)) {
        // All of its space is the pool's.
        return (NoSpace { free: Sectors::ZERO, largest_gap: Sectors::ZERO }, promised);
    }
    let mut pool = FreeSpace::new([plan.disks[disk].drive.model.capacity()]);
    for volume in plan.volumes.iter().filter(|volume| volume.disk.0 == disk) {
        let there = DiskExtent { disk: DiskId(0), extent: volume.place };
        // A second door takes no sectors of its own.
        assert!(
            volume.same_as.is_some() || pool.claim(there),
            "the plan's volumes share no sector"
        );
    }
    (pool.free(DiskId(0)), promised)
}

/// What of a volume is written to the config.
pub(crate) fn edit(spec: VolumeSpec) -> VolumeEdit {
    let VolumeSpec { size, reserve, limit, weight, stream, .. } = spec;
    let stream = stream.map(stream_edit);
    VolumeEdit { size: Some(size), reserve, limit, weight, stream }
}

/// What of a volume's stream is written to the config.
pub(crate) fn stream_edit(spec: StreamSpec) -> StreamEdit {
    let StreamSpec { bandwidth, block, range, span } = spec;
    StreamEdit::Put { bandwidth, block, range, span }
}

/// Whether the volume could be made; a value that could never be is no question.
pub(crate) fn admission(operator: &Operator, spec: VolumeSpec) -> Result<Admission, Problem> {
    let document = operator.document();
    let (name, disk) = (spec.name.clone(), spec.disk.clone());
    let asked = document.create(&name, &disk, &edit(spec));
    let with = asked.as_ref().ok().cloned();
    let reason = match asked {
        Ok(_) => None,
        Err(error) if error.is_refusal() => Some(Problem::fault(&error)),
        Err(error) => return Err(daemon::ChangeError::Config(error).into()),
    };
    let plan = document.plan();
    let index = plan.disks.iter().position(|there| there.name == disk);
    let index = index.expect("the config has found it");
    let with = with.as_ref().map_or(plan, Document::plan);
    let room = with.admission_headroom(config::DiskIndex(index), operator.now());
    let (NoSpace { largest_gap: gap, .. }, promised) = left(plan, index);
    let size_max: Bytes = gap.bytes();
    Ok(Admission {
        fits: reason.is_none(),
        reason,
        reserve_max: plan.disks[index].share_text(promised.available()),
        size_max: config::size_text(size_max),
        size_max_bytes: size_max.0,
        room: room.map(room_of),
    })
}
