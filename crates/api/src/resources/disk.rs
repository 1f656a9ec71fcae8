//! Disks: their guarantees, their free space and time, their state.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use config::{DiskIndex, Plan};
use daemon::Operator;
use engine::Admission;
use serde::{Deserialize, Serialize};
use serde_json::json;
use units::{Instant, Sectors};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use volume::{DiskExtent, DiskId, FreeSpace, NoSpace};

use crate::answers::answers;
use crate::context::{Answered, Api};
use crate::events::EventKind;
use crate::extract::{named, read};
use crate::problem::Problem;
use crate::resources::write_cache::WriteCacheCosts;

/// The changed fields of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskChange {
    /// The period over which every reserve is kept.
    #[schema(example = "500ms")]
    pub period: String,
}

/// A disk: the guarantees on it, and what is available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// The name of its drive model.
    pub drive: String,
    /// The share of its speed at which an emulated drive runs; `100%` for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = String)]
    pub slowed: Option<String>,
    /// The bus that it shares with other disks; absent if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Its scheduling policy.
    pub policy: String,
    /// The largest number of commands in flight.
    pub depth: u32,
    /// Where that number comes from: `config`, or `auto:` and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = String)]
    pub depth_source: Option<String>,
    /// The period over which every reserve is kept.
    pub period: String,
    /// The number of volumes on it.
    pub volumes: usize,
    /// The share of its time that reserves have, and volumes of high priority up to their limits.
    pub reserved: String,
    /// The share of its time that its streams reserve now: a block's worst case in each period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = String)]
    pub reserved_by_streams: Option<String>,
    /// The share of its time that nothing has reserved: no larger reserve is admitted.
    pub left: String,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// The part of its capacity that belongs to no volume.
    pub free_bytes: u64,
    /// The largest free extent, the size of the largest volume that can be created. It is zero for
    /// a disk of the pool.
    pub gap_bytes: u64,
    /// The number of answered requests since the daemon's start.
    pub requests: u64,
    /// The bytes read and written.
    pub bytes: u64,
    /// The number of requests in progress.
    pub in_flight: u64,
    /// The time in which it had work since the daemon's start.
    pub busy_s: f64,
    /// The time since the daemon's start.
    pub uptime_s: f64,
    /// Which of a volume's requests goes next: `arrival`, `sweep` or `predicted`.
    // `None`: a daemon of the previous version omits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required)]
    pub chooser: Option<String>,
    /// The predictions of `predicted`; absent under the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictions: Option<Predictions>,
    /// How preemptible execution moves the arm ahead of transfers; absent if requests are executed
    /// whole, or the drive has no arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeks_ahead: Option<SeeksAhead>,
    /// Its read-ahead in the host; absent if it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<ReadAhead>,
    /// Its volumes' write buffers in the host; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_buffer: Option<WriteBuffer>,
    /// How a real disk's commands are passed to the kernel: `io_uring`, possibly followed by `,
    /// buffers not registered`, or `threads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// How writes get past the drive's write cache, of a device of this machine or an emulated
    /// drive: `none` (it has none), `forced writes`, `off while served` or `a flush after forced
    /// writes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// What each way past the write cache costs, by the drive's parameters or its measured profile;
    /// absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache_costs: Option<WriteCacheCosts>,
    /// Deprecated: its state as `well`, `poisoned` or `gone`.
    pub state: DiskState,
    /// Its state.
    // `None`: a daemon of the previous version omits it, see `Disk::health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = DiskHealth)]
    pub health: Option<DiskHealth>,
    /// The number of failed reads.
    pub read_failures: u64,
    /// The number of failed writes, trims and flushes.
    pub write_failures: u64,
    /// The number of commands refused because of its state.
    pub refused: u64,
    /// The age of its oldest command in flight, if there is one: a stalled disk shows here first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_command_ms: Option<f64>,
    /// The operation of that command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_command: Option<String>,
}

/// The predicted positioning times of a disk, since the daemon's start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Predictions {
    /// Whether they are trusted now. While they are not, requests go by address.
    pub trusted: bool,
    /// The number of predictions with an outcome.
    pub outcomes: u64,
    /// Of these, the ones that lost a revolution or were off otherwise.
    pub failures: u64,
    /// How often trust was lost.
    pub lost: u64,
    /// The standard deviation of the heads' arrivals, as learnt.
    pub deviation_us: f64,
}

impl From<daemon::PredictionStats> for Predictions {
    fn from(stats: daemon::PredictionStats) -> Self {
        let daemon::PredictionStats { trusted, outcomes, failures, lost, deviation } = stats;
        let deviation_us = deviation.as_millis_f64() * 1e3;
        Self { trusted, outcomes, failures, lost, deviation_us }
    }
}

/// How the arm of a disk is moved ahead of transfers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeeksAhead {
    /// `seek-command`, `short-read` or `off`.
    pub by: String,
    /// On a drive without a seek command: the part of a high-priority request's mean wait that
    /// short reads save by the drive's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_saved: Option<f64>,
    /// On such a drive: the part of the throughput of random reads that they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_lost: Option<f64>,
}

impl From<daemon::SeeksAhead> for SeeksAhead {
    fn from(seeks: daemon::SeeksAhead) -> Self {
        let (by, trade) = match seeks {
            daemon::SeeksAhead::SeekCommand => ("seek-command", None),
            daemon::SeeksAhead::ShortRead(trade) => ("short-read", Some(trade)),
            daemon::SeeksAhead::Off => ("off", None),
            daemon::SeeksAhead::Transfer(trade) => ("off", Some(trade)),
        };
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let part = |per_mille: i64| per_mille as f64 / 1e3;
        Self {
            by: by.to_owned(),
            waiting_saved: trade.map(|trade| part(trade.waiting_saved)),
            throughput_lost: trade.map(|trade| part(trade.throughput_lost)),
        }
    }
}

/// The read-ahead of a disk in the host's memory, since the daemon's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadAhead {
    /// The most memory that may be in use.
    pub memory_bytes: u64,
    /// The memory in use, with what requests in flight will fill.
    pub used_bytes: u64,
    /// The number of reads answered from the memory at once.
    pub hits: u64,
    /// The number of reads answered from the memory after they waited for a read-ahead in flight.
    pub waits: u64,
    /// The bytes that were read ahead.
    pub read_bytes: u64,
    /// Of these, the bytes that were dropped before any client had read them.
    pub dropped_bytes: u64,
    /// Of the bytes read ahead, those prefetched in rotational waits.
    #[serde(default)]
    pub prefetched_bytes: u64,
    /// Of these, the ones that a client has read.
    #[serde(default)]
    pub prefetched_used_bytes: u64,
}

/// The write buffers of a disk's volumes in the host's memory, since the daemon's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WriteBuffer {
    /// The most memory that may be in use.
    pub memory_bytes: u64,
    /// The memory in use.
    pub used_bytes: u64,
    /// The number of writes answered from the buffers.
    pub writes: u64,
    /// Of these, the number that waited for memory.
    pub waits: u64,
    /// The bytes written from the buffers to the disk.
    pub destaged_bytes: u64,
    /// The bytes that were overwritten in the buffers and never sent to the disk.
    pub overwritten_bytes: u64,
    /// The bytes that the disk failed to write.
    pub lost_bytes: u64,
}

impl From<daemon::WriteBufferStatus> for WriteBuffer {
    fn from(status: daemon::WriteBufferStatus) -> Self {
        let daemon::WriteBufferStatus { memory, usage } = status;
        Self {
            memory_bytes: memory.0,
            used_bytes: usage.used.bytes().0,
            writes: usage.writes,
            waits: usage.waits,
            destaged_bytes: usage.destaged.bytes().0,
            overwritten_bytes: usage.overwritten.bytes().0,
            lost_bytes: usage.lost.bytes().0,
        }
    }
}

impl From<daemon::ReadAheadStatus> for ReadAhead {
    fn from(status: daemon::ReadAheadStatus) -> Self {
        let daemon::ReadAheadStatus { memory, used, usage } = status;
        Self {
            memory_bytes: memory.0,
            used_bytes: used.0,
            hits: usage.hits,
            waits: usage.waits,
            read_bytes: usage.sectors.bytes().0,
            dropped_bytes: usage.unused.bytes().0,
            prefetched_bytes: usage.prefetched.bytes().0,
            prefetched_used_bytes: usage.prefetched_used.bytes().0,
        }
    }
}

impl Disk {
    /// Its state, by whichever name the daemon has sent it.
    pub fn health(&self) -> DiskHealth {
        self.health.unwrap_or_else(|| self.state.into())
    }
}

/// Deprecated: the state of a disk by its old names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskState {
    /// As [`DiskHealth::Healthy`].
    Well,
    /// As [`DiskHealth::Poisoned`].
    Poisoned,
    /// As [`DiskHealth::Offline`].
    Gone,
}

/// The state of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskHealth {
    /// It serves all requests.
    Healthy,
    /// A flush failed, and data written before may be lost: it is read-only until it is reopened.
    Poisoned,
    /// It is gone: all requests fail until it is reopened.
    Offline,
}

impl From<DiskHealth> for DiskState {
    fn from(health: DiskHealth) -> Self {
        match health {
            DiskHealth::Healthy => Self::Well,
            DiskHealth::Poisoned => Self::Poisoned,
            DiskHealth::Offline => Self::Gone,
        }
    }
}

impl From<DiskState> for DiskHealth {
    fn from(state: DiskState) -> Self {
        match state {
            DiskState::Well => Self::Healthy,
            DiskState::Poisoned => Self::Poisoned,
            DiskState::Gone => Self::Offline,
        }
    }
}

impl From<daemon::DiskState> for DiskHealth {
    fn from(state: daemon::DiskState) -> Self {
        match state {
            daemon::DiskState::Healthy => Self::Healthy,
            daemon::DiskState::Poisoned => Self::Poisoned,
            daemon::DiskState::Offline => Self::Offline,
        }
    }
}

answers! {
    /// One disk.
    DiskAnswer {
        /// The disk.
        disk: Disk
    }
    /// All disks.
    DisksAnswer {
        /// In the config's order.
        disks: Vec<Disk>
    }
}

/// All disks.
pub(super) fn all_disks(operator: &Operator) -> Vec<Disk> {
    let (document, status) = (operator.document(), operator.accounts());
    let plan = document.plan();
    let disks =
        plan.disks.iter().zip(&status.disks).enumerate().map(|(number, (disk, disk_status))| {
            let (index, now) = (DiskIndex(number), disk_status.at);
            let (NoSpace { free: left, largest_gap: gap }, promised) = available(plan, index);
            Disk {
                name: disk.name.clone(),
                drive: disk.drive.name.clone(),
                slowed: Some(disk.slowed.to_string()),
                bus: disk.bus.as_ref().map(|bus| bus.name.clone()),
                policy: disk.policy.to_string(),
                depth: disk.depth,
                depth_source: Some(disk.depth_source.to_string()),
                period: disk.period.to_string(),
                volumes: volumes_on(plan, number),
                reserved: disk.share_text(promised.reserved()),
                reserved_by_streams: Some(plan.reserved_by_streams(index, now).to_string()),
                left: disk.share_text(plan.unreserved(index, now)),
                capacity_bytes: disk.drive.model.capacity().bytes().0,
                free_bytes: left.bytes().0,
                gap_bytes: gap.bytes().0,
                requests: disk_status.traffic.requests(),
                bytes: moved(&disk_status.traffic),
                in_flight: disk_status.traffic.open,
                busy_s: disk_status.busy.as_secs_f64(),
                uptime_s: disk_status.at.since(Instant::ZERO).as_secs_f64(),
                chooser: Some(disk_status.chooser.0.to_string()),
                predictions: disk_status.chooser.1.map(Predictions::from),
                seeks_ahead: disk_status.seeks_ahead.map(SeeksAhead::from),
                read_ahead: disk_status.read_ahead.map(ReadAhead::from),
                write_buffer: disk_status.write_buffer.map(WriteBuffer::from),
                access: disk_status.access.map(|access| access.to_string()),
                write_cache: disk_status
                    .write_cache
                    .map(|cache| cache.to_string())
                    .or_else(|| disk.cache_bypass().map(|way| way.to_string())),
                write_cache_costs: disk.durable_costs().map(WriteCacheCosts::from),
                state: DiskHealth::from(disk_status.health.state).into(),
                health: Some(disk_status.health.state.into()),
                read_failures: disk_status.health.read_failures,
                write_failures: disk_status.health.write_failures,
                refused: disk_status.health.refused,
                oldest_command_ms: disk_status.health.oldest.map(|(_, age)| age.as_millis_f64()),
                oldest_command: disk_status.health.oldest.map(|(op, _)| op.to_string()),
            }
        });
    disks.collect()
}

/// The number of volumes on a disk.
fn volumes_on(plan: &Plan, disk: usize) -> usize {
    let plain = plan.volumes.iter().filter(|volume| volume.disk.0 == disk).count();
    let on = |volume: &&config::PoolVolume| volume.parts.iter().any(|part| part.disk.0 == disk);
    plain + plan.pool.as_ref().map_or(0, |pool| pool.volumes.iter().filter(on).count())
}

/// The bytes read and written.
fn moved(traffic: &daemon::Traffic) -> u64 {
    (traffic.reads.sectors.bytes() + traffic.writes.sectors.bytes()).0
}

/// The free space and the available time of a disk of the plan.
pub(super) fn available(plan: &Plan, at: DiskIndex) -> (NoSpace, Admission) {
    let disk = at.0;
    let promised = plan.promised(at);
    if plan.pool.as_ref().is_some_and(|pooled| pooled.disks.contains(&at)) {
        // All of its space belongs to the pool.
        return (NoSpace { free: Sectors::ZERO, largest_gap: Sectors::ZERO }, promised);
    }
    let mut pool = FreeSpace::new([plan.disks[disk].drive.model.capacity()]);
    for volume in plan.volumes.iter().filter(|volume| volume.disk.0 == disk) {
        let there = DiskExtent { disk: DiskId(0), extent: volume.extent };
        // A second export of the same sectors takes no space.
        assert!(
            volume.same_as.is_some() || pool.claim(there),
            "the plan's volumes share no sector"
        );
    }
    (pool.free(DiskId(0)), promised)
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(disks))
        .routes(routes!(disk, set_disk))
        .routes(routes!(reopen))
}

/// All disks: the guarantees on each, and what is available.
#[utoipa::path(get, path = "/v1/disks", responses(
    (status = 200, description = "The disks", body = DisksAnswer)))]
async fn disks(State(api): State<Api>) -> Answered<DisksAnswer> {
    Ok(Json(api.work(|operator| all_disks(&operator)).await?.into()))
}

/// One disk.
#[utoipa::path(get, path = "/v1/disks/{name}",
    params(("name" = String, Path, description = "The disk")), responses(
    (status = 200, description = "The disk", body = DiskAnswer),
    (status = 400, description = "The name is not UTF-8", body = Problem),
    (status = 404, description = "There is no such disk", body = Problem)))]
async fn disk(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<DiskAnswer> {
    let name = named(name)?;
    let disk = api.work(move |operator| one_disk(&operator, &name)).await??;
    Ok(Json(disk.into()))
}

/// Changes the period over which a disk keeps its reserves.
#[utoipa::path(patch, path = "/v1/disks/{name}",
    params(("name" = String, Path, description = "The disk")),
    request_body = DiskChange, responses(
    (status = 200, description = "The disk, as it is now", body = DiskAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such disk", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "The config was edited", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn set_disk(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<DiskAnswer> {
    let name = named(name)?;
    let DiskChange { period } = read(body).await?;
    let (told, fields) = (api.clone(), json!({ "change": "period", "disk": name }));
    let changed = api.work(move |operator| {
        operator.set_period(&name, &period)?;
        one_disk(&operator, &name)
    });
    Ok(Json(told.told_of(EventKind::Change, fields, changed.await?)?.into()))
}

/// Reopens a disk that is poisoned or gone: its volumes can be written again. Data written before
/// may be lost. A disk that the pool has taken out is taken back, and gets what it missed.
#[utoipa::path(post, path = "/v1/disks/{name}/reopen",
    params(("name" = String, Path, description = "The disk")), responses(
    (status = 200, description = "The disk, as it is now", body = DiskAnswer),
    (status = 400, description = "The name is not UTF-8", body = Problem),
    (status = 404, description = "There is no such disk", body = Problem),
    (status = 409, description = "It is healthy, or in the pool, or it cannot be opened",
     body = Problem)))]
async fn reopen(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<DiskAnswer> {
    let name = named(name)?;
    let (told, fields) = (api.clone(), json!({ "change": "reopened", "disk": name }));
    let opened = api.work(move |operator| {
        one_disk(&operator, &name)?;
        operator.reopen(&name)?;
        one_disk(&operator, &name)
    });
    Ok(Json(told.told_of(EventKind::Change, fields, opened.await?)?.into()))
}

fn one_disk(operator: &Operator, name: &str) -> Result<Disk, Problem> {
    let found = all_disks(operator).into_iter().find(|disk| disk.name == name);
    found.ok_or_else(|| {
        let message = format!("there is no disk \"{name}\"");
        Problem::new(StatusCode::NOT_FOUND, "missing", message)
    })
}
