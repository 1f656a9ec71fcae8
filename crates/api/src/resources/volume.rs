//! Volumes: wherever they lie, one resource.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use config::{Document, Labels, Plan};
use daemon::{Created, DiskStatus, Operator, PoolView, Status, VolumeStatus};
use engine::stream::{RequestedLatency, RequestedStream, Span, Task};
use engine::{LatencyContract, Priority, RateRequirement};
use nbd::{Connections, ExportId};
use serde::{Deserialize, Serialize};
use units::{Bytes, Instant, SECTOR_BYTES, Share};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::contract::{ContractKind, Rate, rate_of};
use super::disk::{DiskHealth, DiskState};
use super::latency::{Latency, latency_of};
use super::pool::PoolVolume;
use super::stream::{KeptInPool, Stream, stream_of};
use super::volume_spec::{VolumeChange, VolumeSpec};
use crate::answers::answers;
use crate::context::{Answered, Api};
use crate::extract::{named, read};
use crate::problem::Problem;

/// A volume: its placement, its contract, and its use of disk time since the daemon's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The disk that it lies on; for a volume of the pool, its disks, separated by `+`.
    pub disk: String,
    /// Deprecated: the state of its worst disk as `well`, `poisoned` or `gone`.
    pub state: DiskState,
    /// The state of its worst disk.
    // `None`: a daemon of the previous version omits it, see `Volume::health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = DiskHealth)]
    pub health: Option<DiskHealth>,
    /// Its size, in the form in which it can be set.
    pub size: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its first byte on its disk; absent for a volume of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_bytes: Option<u64>,
    /// Its placement in the pool; absent for a volume on one disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolVolume>,
    /// What it is guaranteed.
    // `None`: a daemon of the previous version omits it, see `Volume::kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = ContractKind)]
    pub kind: Option<ContractKind>,
    /// Its share of the disk's time in every period.
    pub reserve: String,
    /// Its largest share.
    pub limit: String,
    /// Its weight in the division of slack.
    pub weight: u32,
    /// What it is for, in the words of its user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The volume or snapshot of the pool with whose content it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its priority: `normal` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = String)]
    pub priority: Option<String>,
    /// The rate from which its reserve is derived, if it is derived from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Its stream, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Its bounded latency, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Its block device on the daemon's machine, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device: Option<BlockDevice>,
    /// Connections that have it open.
    pub connections: usize,
    /// Of these, the number by each transport that has some: `nbd`, `kernel-nbd`, `ublk` or
    /// `vhost-user`.
    #[serde(default)]
    pub transports: BTreeMap<String, usize>,
    /// The disk time that it was charged.
    pub disk_time_s: f64,
    /// The balance of its reserve, negative if overdrawn; null if the policy has no balances.
    pub balance_s: Option<f64>,
    /// The worth of its reserve over the last 10 to 20 s, estimated: the rate of its client,
    /// divided by the rate of the same client alone on the disk slowed to the reserve. Null without
    /// a reserve, with fewer than 20 requests, on several disks, or if the policy is not `spindle`.
    pub worth: Option<f64>,
    /// The number of answered requests.
    pub requests: u64,
    /// The number of these that failed.
    pub failures: u64,
    /// The bytes read and written.
    pub bytes: u64,
    /// The number of requests in progress.
    pub in_flight: u64,
    /// The sum of the answered requests' times from arrival to reply.
    pub request_time_s: f64,
    /// When this was measured, in seconds since the daemon's start.
    pub told_at_s: f64,
    /// Times from a request's arrival to its reply; only in the reply about a single volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<LatencyMs>,
}

impl Volume {
    /// The state of its worst disk, by whichever name the daemon has sent it.
    pub fn health(&self) -> DiskHealth {
        self.health.unwrap_or_else(|| self.state.into())
    }

    /// What it is guaranteed, also if the daemon has not sent the kind.
    pub fn kind(&self) -> ContractKind {
        let is_reserved = self.reserve.parse().is_ok_and(|share: Share| !share.is_none());
        self.kind.unwrap_or(match self.stream {
            Some(_) => ContractKind::Stream,
            None if is_reserved => ContractKind::Reserve,
            None => ContractKind::BestEffort,
        })
    }
}

/// Latencies since the daemon's start, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencyMs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

/// A block device of the daemon's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockDevice {
    /// Its path.
    #[schema(example = "/dev/ublkb0")]
    pub path: String,
    /// Its size. It is less than the volume's if that has grown and the kernel cannot resize the
    /// device.
    pub size_bytes: u64,
}

impl From<daemon::VolumeDevice> for BlockDevice {
    fn from(there: daemon::VolumeDevice) -> Self {
        Self { path: there.device.to_string(), size_bytes: there.size.0 }
    }
}

answers! {
    /// One volume.
    VolumeAnswer {
        /// The volume.
        volume: Volume
    }
    /// All volumes.
    VolumesAnswer {
        /// In the order of their creation.
        volumes: Vec<Volume>
    }
}

/// All volumes. One that is created or removed between the two queries is left out.
pub(super) fn all_volumes(operator: &Operator) -> Vec<Volume> {
    let (document, status) = (operator.document(), operator.accounts());
    let volumes = volumes_of((&document, operator.pool()), &status, &operator.connections(), false);
    volumes.into_iter().map(|volume| with_device(operator, volume)).collect()
}

/// One volume, with its latencies.
fn one_volume(operator: &Operator, name: &str) -> Result<Volume, Problem> {
    let (document, pool) = (operator.document(), operator.pool());
    let pooled = |pool: &daemon::PoolView| pool.volumes.iter().any(|volume| volume.name == name);
    if !pool.as_ref().is_some_and(pooled) {
        document.volume(name).map_err(daemon::ChangeError::Missing)?;
    }
    let mut status = operator.status_of(name);
    status.volumes.retain(|volume| volume.name == name);
    let volume = volumes_of((&document, pool), &status, &operator.connections(), true).pop();
    let volume = volume.map(|volume| with_device(operator, volume));
    // It was removed between the two queries.
    volume.ok_or_else(|| Problem::new(axum::http::StatusCode::NOT_FOUND, "missing", "it is gone"))
}

fn with_device(operator: &Operator, volume: Volume) -> Volume {
    Volume { block_device: operator.block_device(&volume.name).map(BlockDevice::from), ..volume }
}

fn volumes_of(
    (document, pool): (&Document, Option<PoolView>),
    status: &Status,
    connections: &BTreeMap<ExportId, Connections>,
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
    let describe = |volume_status: &VolumeStatus| {
        let on = &status.disks[volume_status.disks[0].0];
        let connections = connections.get(&volume_status.export).copied().unwrap_or_default();
        let latency = latency.then(|| latencies_of(volume_status));
        let description = match planned.get(volume_status.name.as_str()) {
            Some(planned) => Description::of_disk(plan, planned),
            None => {
                Description::of_pool(plan, pooled.get(volume_status.name.as_str())?, volume_status)
            }
        };
        let worst = volume_status.disks.iter().map(|disk| status.disks[disk.0].health.state).max();
        let health = worst.map_or(DiskHealth::Healthy, DiskHealth::from);
        Some(one(description, (volume_status, on, health), (connections, latency)))
    };
    status.volumes.iter().filter_map(describe).collect()
}

fn by_transport(connections: Connections) -> BTreeMap<String, usize> {
    let all = connections.iter();
    all.map(|(transport, count)| (transport.as_str().to_owned(), count)).collect()
}

/// What the config and the pool know of a volume.
struct Description<'a> {
    disk: &'a config::Disk,
    /// The name of its disk, or of its disks.
    on: String,
    size: Bytes,
    at: Option<Bytes>,
    priority: Priority,
    rate: Option<RateRequirement>,
    stream: Option<(RequestedStream, Span, Task)>,
    /// How a pool's volume keeps that stream.
    kept: KeptInPool,
    /// What it requests, and what a disk has admitted for that.
    latency: Option<(RequestedLatency, LatencyContract)>,
    pool: Option<PoolVolume>,
    labels: Labels,
    source: Option<String>,
}

impl<'a> Description<'a> {
    fn of_disk(plan: &'a Plan, planned: &config::Volume) -> Self {
        let disk = &plan.disks[planned.disk.0];
        Self {
            disk,
            on: disk.name.clone(),
            size: planned.size,
            at: Some(Bytes(planned.extent.start.0 * SECTOR_BYTES)),
            priority: planned.priority,
            rate: planned.declared.map(|declared| declared.requirement),
            stream: planned
                .stream
                .map(|stream| (stream.requested, stream.span, stream.promised.task)),
            kept: KeptInPool::default(),
            latency: planned.contract.latency.map(|latency| (latency.requested(), latency)),
            pool: None,
            labels: planned.labels.clone(),
            source: None,
        }
    }

    fn of_pool(
        plan: &'a Plan,
        pooled: &daemon::PoolVolumeView,
        volume_status: &VolumeStatus,
    ) -> Self {
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&pooled.name));
        let stream = planned.and_then(|volume| {
            let part = volume.parts.first()?.contract.stream?;
            let stream = volume.stream?;
            Some((stream.requested, stream.span, part.task))
        });
        Self {
            disk: &plan.disks[volume_status.disks[0].0],
            on: pooled.disks.join("+"),
            size: pooled.size,
            at: None,
            priority: planned.map_or(Priority::Normal, |volume| volume.priority),
            rate: planned.and_then(|volume| volume.rate),
            stream,
            kept: planned.map_or_else(KeptInPool::default, |volume| KeptInPool::of(plan, volume)),
            latency: planned.and_then(|volume| {
                Some((volume.latency?, volume.parts.first()?.contract.latency?))
            }),
            pool: Some(pooled.clone().into()),
            labels: planned.map(|volume| volume.labels.clone()).unwrap_or_default(),
            source: planned.and_then(|volume| volume.source.clone()),
        }
    }
}

fn one(
    description: Description<'_>,
    (volume_status, measured_on, health): (&VolumeStatus, &DiskStatus, DiskHealth),
    (connections, latency_ms): (Connections, Option<LatencyMs>),
) -> Volume {
    let Description { disk, on, size, at: place, priority, rate, stream, .. } = description;
    let Description { kept, latency, pool, labels, source, .. } = description;
    let contract = &volume_status.contract;
    let kind = ContractKind::of(contract, stream.is_some(), rate.is_some());
    Volume {
        name: volume_status.name.clone(),
        disk: on,
        state: health.into(),
        health: Some(health),
        size: config::size_text(size),
        size_bytes: size.0,
        at_bytes: place.map(|place| place.0),
        pool,
        kind: Some(kind),
        reserve: disk.share_text(contract.reserve),
        limit: disk.share_text(contract.limit),
        weight: contract.weight.as_u32(),
        labels,
        source,
        priority: Some(config::priority_name(priority).to_owned()),
        rate: rate.map(rate_of),
        stream: stream.map(|stream| stream_of(stream, kept, volume_status.kept)),
        latency: latency.map(|(requested, on_disk)| {
            latency_of(requested, &on_disk, volume_status.bounded.unwrap_or_default())
        }),
        block_device: None,
        connections: connections.total(),
        transports: by_transport(connections),
        disk_time_s: volume_status.account.disk_time.as_secs_f64(),
        balance_s: volume_status.balance.map(units::DiskTime::as_secs_f64),
        worth: volume_status.worth,
        requests: volume_status.account.requests,
        failures: volume_status.account.failures,
        bytes: volume_status.account.sectors.bytes().0,
        in_flight: volume_status.traffic.open,
        request_time_s: volume_status.traffic.time().as_secs_f64(),
        told_at_s: measured_on.at.since(Instant::ZERO).as_secs_f64(),
        latency_ms,
    }
}

fn latencies_of(volume_status: &VolumeStatus) -> LatencyMs {
    let millis = volume_status.latency.millis();
    LatencyMs {
        mean: millis.mean,
        p50: millis.p50,
        p99: millis.p99,
        p999: millis.p999,
        max: millis.max,
    }
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(volumes, create))
        .routes(routes!(volume, set, delete))
        .routes(routes!(create_in_pool))
}

/// All volumes: their placements, contracts and use of disk time.
#[utoipa::path(get, path = "/v1/volumes", responses(
    (status = 200, description = "The volumes", body = VolumesAnswer)))]
async fn volumes(State(api): State<Api>) -> Answered<VolumesAnswer> {
    Ok(Json(api.work(|operator| all_volumes(&operator)).await?.into()))
}

/// Creates a volume, on one disk or in the pool. Creating an equal volume again changes nothing.
#[utoipa::path(post, path = "/v1/volumes", request_body = VolumeSpec, responses(
    (status = 201, description = "The volume was created", body = VolumeAnswer),
    (status = 200, description = "An equal volume was there", body = VolumeAnswer),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It does not fit, or there is another volume of its name",
     body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn create(State(api): State<Api>, body: Body) -> Result<Response, Problem> {
    create_volume(api, body, false).await
}

/// Creates a volume in the pool, as `POST /v1/volumes` does.
#[utoipa::path(post, path = "/v1/pool/volumes", request_body = VolumeSpec, responses(
    (status = 201, description = "The volume was created", body = VolumeAnswer),
    (status = 200, description = "An equal volume was there", body = VolumeAnswer),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It does not fit, or there is another volume of its name",
     body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn create_in_pool(State(api): State<Api>, body: Body) -> Result<Response, Problem> {
    create_volume(api, body, true).await
}

async fn create_volume(api: Api, body: Body, in_pool: bool) -> Result<Response, Problem> {
    let (name, new) = read::<VolumeSpec>(body).await?.placed(in_pool)?;
    let (told, called) = (api.clone(), name.clone());
    let created = api.work(move |operator| {
        let created = operator.create(&name, &new)?;
        Ok::<_, Problem>((created, one_volume(&operator, &name)?))
    });
    let created = created.await?;
    if matches!(created, Ok((Created::Unchanged, _))) {
        return created.map(made);
    }
    told.told(("created", &called), created).map(made)
}

/// The reply to a creation.
fn made((created, volume): (Created, crate::Volume)) -> Response {
    let status = match created {
        Created::New => StatusCode::CREATED,
        Created::Unchanged => StatusCode::OK,
    };
    (status, Json(VolumeAnswer::from(volume))).into_response()
}

/// One volume, with its latencies.
#[utoipa::path(get, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "The volume", body = VolumeAnswer),
    (status = 400, description = "The name is not UTF-8", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem)))]
async fn volume(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<VolumeAnswer> {
    let name = named(name)?;
    let volume = api.work(move |operator| one_volume(&operator, &name)).await??;
    Ok(Json(volume.into()))
}

/// Changes a volume: all fields or none. The change takes effect before the reply, while I/O runs.
#[utoipa::path(patch, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume")),
    request_body = VolumeChange, responses(
    (status = 200, description = "The volume, as it is now", body = VolumeAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It does not fit, or it is in use", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn set(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<VolumeAnswer> {
    let name = named(name)?;
    let setting = read::<VolumeChange>(body).await?.setting()?;
    let (told, called) = (api.clone(), name.clone());
    let changed = api.work(move |operator| {
        operator.set(&name, &setting)?;
        one_volume(&operator, &name)
    });
    Ok(Json(told.told(("changed", &called), changed.await?)?.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Force {
    /// Disconnect its clients, after their last replies.
    #[serde(default)]
    force: bool,
}

/// Removes a volume and its data.
#[utoipa::path(delete, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume"), Force),
    responses(
    (status = 204, description = "The volume was removed"),
    (status = 400, description = "The name cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 409, description = "It is in use", body = Problem),
    (status = 422, description = "A parameter is invalid", body = Problem)))]
async fn delete(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    force: Result<Query<Force>, QueryRejection>,
) -> Result<StatusCode, Problem> {
    let name = named(name)?;
    let force = force.map_err(|error| {
        let given = Some(error.body_text());
        Problem::invalid("force", given, "`force=true`, `force=false` or nothing".to_owned())
    })?;
    let (told, called) = (api.clone(), name.clone());
    let removed = api.work(move |operator| operator.delete(&name, force.0.force)).await?;
    told.told(("removed", &called), removed.map_err(Problem::from))?;
    Ok(StatusCode::NO_CONTENT)
}
