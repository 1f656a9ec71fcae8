//! The pool over the API: its shapes and its routes.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use config::{PoolVolumeEdit, VolumeEdit};
use daemon::{Operator, PoolDiskView, PoolView, PoolVolumeView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use volume::pool::{DiskUid, Zone};

use crate::answer;
use crate::problem::Problem;
use crate::routes::{self, Answered, Api, named, read};
use crate::shapes::{StreamSpec, VolumeAnswer};

/// A volume to be made in the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolVolumeSpec {
    /// The name that clients open it by.
    #[schema(example = "films")]
    pub name: String,
    /// Its size: whole MiB.
    #[schema(example = "20GiB")]
    pub size: String,
    /// The disks that it is to lie on. Without: all that the pool has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<String>>,
    /// `single`, `stripe` or `random`. Without: `single`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// `fast`, `slow` or `any`. Without: `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether blocks appear when they are first written.
    #[serde(default)]
    pub thin: bool,
    /// Its share of the time of each of its disks in every period. Without: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<String>,
    /// The most it gets of each, at least the reserve. Without: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Its part of the slack beside others, 1 to 1000. Without: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// What it is promised by deadlines, in place of a reserve; without a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
}

/// Where a volume of the pool is to lie. What is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settling {
    /// On which part of its disks: `fast`, `slow` or `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// On which disks; as many as before for a stripe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<String>>,
}

/// A name for something new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedSpec {
    /// The name.
    pub name: String,
}

/// Whether clients may be sent away for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Forced {
    /// They may.
    #[serde(default)]
    pub force: bool,
}

/// What is to change of the pool. What is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolChange {
    /// Whether blocks that are to lie elsewhere wait where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// At how many hundredths of its blocks in use the pool raises its alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm_percent: Option<u8>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Which pool: 128 bits.
    pub uid: String,
    /// How many changes it has seen.
    pub sequence: u64,
    /// Whether it can be written: all of its disks are there and well.
    pub writable: bool,
    /// What its disks hold for volumes.
    pub bytes: u64,
    /// What of that is free.
    pub free_bytes: u64,
    /// What thin volumes may yet ask for.
    pub promised_bytes: u64,
    /// Whether so much is in use that somebody should look.
    pub alarm: bool,
    /// Its disks.
    pub disks: Vec<PoolDisk>,
    /// Its volumes and snapshots.
    pub volumes: Vec<PoolVolume>,
}

/// A disk of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolDisk {
    /// Its number in the pool.
    pub number: u32,
    /// Its name in the config; not there if the disk is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it holds for volumes.
    pub bytes: u64,
    /// What of that is free.
    pub free_bytes: u64,
    /// Whether it is being emptied.
    pub leaving: bool,
}

/// A volume or a snapshot of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolVolume {
    /// Its name.
    pub name: String,
    /// What clients see of it.
    pub bytes: u64,
    /// What of it lies somewhere.
    pub mapped_bytes: u64,
    /// The pieces in which it lies.
    pub extents: usize,
    /// How its blocks follow each other.
    pub layout: String,
    /// On which part of its disks they are to lie.
    pub zone: String,
    /// Whether blocks appear when they are first written.
    pub thin: bool,
    /// The volume that it is a snapshot of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_of: Option<String>,
    /// The disks that it is to lie on.
    pub disks: Vec<String>,
    /// Whether all disks that it lies on are there.
    pub whole: bool,
    /// What of it is on its way to where it is to lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
}

/// A volume on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Moving {
    /// What has been moved since the daemon's start.
    pub moved_bytes: u64,
    /// What is still to be moved.
    pub left_bytes: u64,
    /// Why nothing of it can be moved, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
}

/// The pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolAnswer {
    /// The version of this shape.
    pub schema: u32,
    /// It.
    pub pool: Pool,
}

impl From<PoolDiskView> for PoolDisk {
    fn from(disk: PoolDiskView) -> Self {
        let PoolDiskView { number, name, size, free, leaving } = disk;
        Self { number, name, bytes: size.0, free_bytes: free.0, leaving }
    }
}

impl From<PoolVolumeView> for PoolVolume {
    fn from(volume: PoolVolumeView) -> Self {
        let moving = volume.moving.map(|moving| Moving {
            moved_bytes: moving.moved.0,
            left_bytes: moving.left.0,
            stuck: moving.stuck,
        });
        Self {
            name: volume.name,
            bytes: volume.size.0,
            mapped_bytes: volume.mapped.0,
            extents: volume.extents,
            layout: config::layout_name(volume.layout).to_owned(),
            zone: config::zone_name(volume.zone).to_owned(),
            thin: volume.thin,
            snapshot_of: volume.snapshot_of,
            disks: volume.disks,
            whole: volume.whole,
            moving,
        }
    }
}

impl From<PoolView> for Pool {
    fn from(pool: PoolView) -> Self {
        Self {
            uid: pool.uid.to_string(),
            sequence: pool.sequence,
            writable: pool.writable,
            bytes: pool.size.0,
            free_bytes: pool.free.0,
            promised_bytes: pool.promised.0,
            alarm: pool.alarm,
            disks: pool.disks.into_iter().map(PoolDisk::from).collect(),
            volumes: pool.volumes.into_iter().map(PoolVolume::from).collect(),
        }
    }
}

fn edit(spec: PoolVolumeSpec) -> PoolVolumeEdit {
    let PoolVolumeSpec { size, disks, layout, zone, thin, reserve, limit, weight, stream, .. } =
        spec;
    let stream = stream.map(answer::stream_edit);
    let volume = VolumeEdit { size: Some(size), reserve, limit, weight, stream };
    PoolVolumeEdit { volume, disks, layout, zone, thin: thin.then_some(true) }
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(pool, change))
        .routes(routes!(create))
        .routes(routes!(add))
        .routes(routes!(remove))
        .routes(routes!(snapshot))
        .routes(routes!(roll_back))
        .routes(routes!(settle))
        .routes(routes!(rebalance))
}

fn told(operator: &Operator) -> Result<PoolAnswer, Problem> {
    let pool = operator.pool().ok_or(daemon::ChangeError::NoPool)?.into();
    Ok(PoolAnswer { schema: stats::SCHEMA, pool })
}

/// Changes the pool, and tells how it stands then.
async fn changed(
    api: Api,
    change: impl FnOnce(&Operator) -> Result<(), Problem> + Send + 'static,
) -> Answered<PoolAnswer> {
    let changed = api.work(move |operator| {
        change(&operator)?;
        told(&operator)
    });
    Ok(Json(changed.await??))
}

/// The pool: its disks, its volumes, and how full it is.
#[utoipa::path(get, path = "/v1/pool", responses(
    (status = 200, description = "The pool", body = PoolAnswer),
    (status = 409, description = "There is none", body = Problem)))]
async fn pool(State(api): State<Api>) -> Answered<PoolAnswer> {
    Ok(Json(api.work(|operator| told(&operator)).await??))
}

/// Has blocks that are to lie elsewhere wait or go on; sets the alarm's level.
#[utoipa::path(patch, path = "/v1/pool", request_body = PoolChange, responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The body is no JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is none, or it cannot be written", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn change(State(api): State<Api>, body: Body) -> Answered<PoolAnswer> {
    let PoolChange { paused, alarm_percent } = read(body).await?;
    if let Some(level) = alarm_percent.filter(|level| *level > 100) {
        let accepted = "0 to 100".to_owned();
        return Err(Problem::invalid("alarm_percent", Some(level.to_string()), accepted));
    }
    changed(api, move |operator| {
        paused.map_or(Ok(()), |paused| operator.pause_relocation(paused))?;
        alarm_percent.map_or(Ok(()), |level| operator.set_alarm(level))?;
        Ok(())
    })
    .await
}

/// Makes a volume in the pool. The same again is as good as once.
#[utoipa::path(post, path = "/v1/pool/volumes", request_body = PoolVolumeSpec, responses(
    (status = 201, description = "It is there now", body = VolumeAnswer),
    (status = 200, description = "It was there, exactly so", body = VolumeAnswer),
    (status = 400, description = "The body is no JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is no room for it, or another volume of its name", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn create(State(api): State<Api>, body: Body) -> Result<Response, Problem> {
    let spec: PoolVolumeSpec = read(body).await?;
    let made = api.work(move |operator| {
        let name = spec.name.clone();
        let created = operator.create(&name, &daemon::NewVolume::InPool(edit(spec)))?;
        Ok::<_, Problem>((created, answer::volume(&operator, &name)?))
    });
    Ok(routes::made(made.await??))
}

/// Has a disk of the config join the pool. What it holds is lost.
#[utoipa::path(post, path = "/v1/pool/disks", request_body = NamedSpec, responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The body is no JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It cannot join", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn add(State(api): State<Api>, body: Body) -> Answered<PoolAnswer> {
    let NamedSpec { name } = read(body).await?;
    changed(api, move |operator| {
        let uid = daemon::random_uid().map_err(|error| {
            let message = format!("no bits of chance: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
        })?;
        operator.add_pool_disk(&name, DiskUid(uid))?;
        Ok(())
    })
    .await
}

/// Empties a disk, which then leaves the pool. Its volumes are used meanwhile.
#[utoipa::path(delete, path = "/v1/pool/disks/{name}", params(("name" = String, Path, description = "The disk")), responses(
    (status = 200, description = "The pool, as it is now: its blocks are being moved", body = PoolAnswer),
    (status = 400, description = "The name cannot be read", body = Problem),
    (status = 409, description = "It cannot be emptied", body = Problem)))]
async fn remove(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<PoolAnswer> {
    let name = named(name)?;
    changed(api, move |operator| {
        operator.remove_pool_disk(&name)?;
        Ok(())
    })
    .await
}

/// Keeps what a volume of the pool holds now, as a snapshot of this name.
#[utoipa::path(post, path = "/v1/volumes/{name}/snapshots", request_body = NamedSpec,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It cannot be taken", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn snapshot(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let volume = named(name)?;
    let NamedSpec { name } = read(body).await?;
    changed(api, move |operator| {
        operator.snapshot(&volume, &name)?;
        Ok(())
    })
    .await
}

/// Has a volume hold again what this snapshot of it holds, its size included.
#[utoipa::path(post, path = "/v1/volumes/{name}/rollback", request_body = Forced,
    params(("name" = String, Path, description = "The snapshot")), responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such snapshot", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It is no snapshot, or its volume is in use", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn roll_back(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let name = named(name)?;
    let Forced { force } = read(body).await?;
    changed(api, move |operator| {
        operator.roll_back(&name, force)?;
        Ok(())
    })
    .await
}

/// Has a volume lie on another part of the disks, or on others. Its blocks are moved while it is used.
#[utoipa::path(post, path = "/v1/volumes/{name}/move", request_body = Settling,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It cannot lie there", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn settle(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let name = named(name)?;
    let Settling { zone, disks } = read(body).await?;
    let zone = zone.map(|word| {
        let zones = [Zone::Fast, Zone::Slow, Zone::Any];
        let found = zones.into_iter().find(|zone| config::zone_name(*zone) == word);
        let accepted = "`fast`, `slow` or `any`".to_owned();
        found.ok_or_else(|| Problem::invalid("zone", Some(word), accepted))
    });
    let zone = zone.transpose()?;
    changed(api, move |operator| {
        operator.relocate(&name, zone, disks.as_deref())?;
        Ok(())
    })
    .await
}

/// Moves volumes from the fullest disks to the emptiest, while they are used.
#[utoipa::path(post, path = "/v1/pool/rebalance", responses(
    (status = 200, description = "The pool, as it is now: its blocks are being moved", body = PoolAnswer),
    (status = 409, description = "There is none, or it cannot be written", body = Problem)))]
async fn rebalance(State(api): State<Api>) -> Answered<PoolAnswer> {
    changed(api, move |operator| {
        operator.rebalance()?;
        Ok(())
    })
    .await
}
