//! The pool: its disks, the placement of its volumes, and their snapshots.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use daemon::{Operator, PoolView, PoolVolumeView, ResyncView};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use volume::pool::{DiskUid, Zone};

use super::admission::{ChangeAdmission, ChangeAdmissionAnswer};
use super::pool_disk::PoolDisk;
use super::pool_scrub::PoolScrub;
use crate::answers::answers;
use crate::context::{Answered, Api};
use crate::events::EventKind;
use crate::extract::{named, read};
use crate::problem::Problem;

/// A new placement of a pool's volume. Missing fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Relocate {
    /// The part of its disks: `fast`, `slow`, `any`, or the first per cent as in `fastest 10%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its disks; for a stripe, as many as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<String>>,
}

/// The name of a new snapshot, or of a disk that joins the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedSpec {
    /// The name.
    pub name: String,
}

/// Whether clients are disconnected if the change needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Forced {
    /// Disconnect them.
    #[serde(default)]
    pub force: bool,
}

/// The changed fields of the pool. Missing fields keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolChange {
    /// Whether relocation is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Starts a scrub, or goes on with one that was stopped; `false` stops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<bool>,
    /// The alarm level, in percent of the pool's blocks in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm_percent: Option<u8>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its unique identifier of 128 bits.
    pub uid: String,
    /// The number of changes since it was created.
    pub sequence: u64,
    /// Whether it can be written: the disks that it cannot go on without are present and healthy.
    pub writable: bool,
    /// The capacity of its disks for volumes.
    pub bytes: u64,
    /// The free part of that capacity.
    pub free_bytes: u64,
    /// The space that thin volumes may still allocate.
    pub promised_bytes: u64,
    /// Whether its use has reached the alarm level.
    pub alarm: bool,
    /// The version of its format on the disks.
    pub format: u32,
    /// The version that `POST /v1/pool/upgrade` would give it.
    pub format_newest: u32,
    /// The resynchronisation of its mirrors.
    pub resync: PoolResync,
    /// The scrub that goes on, or the last one.
    pub scrub: PoolScrub,
    /// Its disks.
    pub disks: Vec<PoolDisk>,
    /// Its volumes and snapshots.
    pub volumes: Vec<PoolVolume>,
}

/// The resynchronisation of a pool's mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolResync {
    /// Whether copies are being made equal.
    pub running: bool,
    /// Whether some cannot be until something has changed.
    pub stuck: bool,
    /// Whether all copies of some mirrors are made equal, because the daemon was killed, or the
    /// power failed, while they could be written to.
    pub verifying: bool,
    /// The stale part of the disks that are in.
    pub left_bytes: u64,
    /// What was examined and made equal since the daemon's start.
    pub done_bytes: u64,
    /// How fast what is left fell in the last 30 s; absent while there is no progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// The time until nothing is left at that rate; absent without one, and while `verifying`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_s: Option<f64>,
}

/// A volume or a snapshot of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "they are separate facts of a volume")]
pub struct PoolVolume {
    /// Its name.
    pub name: String,
    /// Its size as clients see it.
    pub bytes: u64,
    /// The mapped part of its size.
    pub mapped_bytes: u64,
    /// The number of its extents.
    pub extents: usize,
    /// The layout of its blocks.
    pub layout: String,
    /// The part of its disks that it is placed on.
    pub zone: String,
    /// Whether blocks are allocated when they are first written.
    pub thin: bool,
    /// Whether checksums of its data are kept: its disks have room for them, and it was not created
    /// without.
    pub checksums: bool,
    /// The volume that it is a snapshot of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_of: Option<String>,
    /// The disks that it is placed on.
    pub disks: Vec<String>,
    /// Whether each of its blocks can be read: its disk is present, or that of another copy.
    pub whole: bool,
    /// The number of copies of each block of a mirror.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u8>,
    /// The size of a mirror's copies that are stale, or on a disk that is out: another loss may
    /// lose what they should hold.
    pub degraded_bytes: u64,
    /// The size of a mirror's blocks that have no whole copy.
    pub lost_bytes: u64,
    /// If only some of a mirror's disks keep its stream, whether each block is read from one of
    /// them; else the stream is best effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_kept: Option<bool>,
    /// Whether two copies of a block of a mirror are placed in one failure domain.
    #[serde(default)]
    pub shares_domain: bool,
    /// The progress of its relocation, if it is being relocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
}

/// The progress of a relocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Moving {
    /// The bytes moved since the daemon's start.
    pub moved_bytes: u64,
    /// The bytes that remain to be moved.
    pub left_bytes: u64,
    /// The reason why no block can be moved, if none can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
}

answers! {
    /// The pool.
    PoolAnswer {
        /// The pool.
        pool: Pool
    }
}

impl From<ResyncView> for PoolResync {
    fn from(resync: ResyncView) -> Self {
        let ResyncView { is_running, is_stuck, is_verifying, left, done, estimate } = resync;
        Self {
            running: is_running,
            stuck: is_stuck,
            verifying: is_verifying,
            left_bytes: left.0,
            done_bytes: done.0,
            bytes_per_s: estimate.map(|estimate| estimate.bytes_per_s),
            time_left_s: estimate.map(|estimate| estimate.time_left.as_secs_f64()),
        }
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
            zone: config::zone_name(volume.zone),
            thin: volume.thin,
            checksums: volume.has_sums,
            snapshot_of: volume.snapshot_of,
            disks: volume.disks,
            whole: volume.whole,
            copies: volume.copies,
            degraded_bytes: volume.degraded.0,
            lost_bytes: volume.lost.0,
            stream_kept: volume.stream_kept,
            shares_domain: volume.shares_domain,
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
            format: pool.format,
            format_newest: pool.format_newest,
            resync: pool.resync.into(),
            scrub: pool.scrub.into(),
            disks: pool.disks.into_iter().map(PoolDisk::from).collect(),
            volumes: pool.volumes.into_iter().map(PoolVolume::from).collect(),
        }
    }
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(pool, change))
        .routes(routes!(add))
        .routes(routes!(remove))
        .routes(routes!(replace))
        .routes(routes!(upgrade))
        .routes(routes!(snapshot))
        .routes(routes!(admission_of_snapshot))
        .routes(routes!(roll_back))
        .routes(routes!(relocate))
        .routes(routes!(admission_of_relocation))
        .routes(routes!(rebalance))
}

fn answer(operator: &Operator) -> Result<PoolAnswer, Problem> {
    let pool = operator.pool().ok_or(daemon::ChangeError::NoPool)?;
    Ok(Pool::from(pool).into())
}

/// Changes the pool, and returns its new state. The event about it says which change it was.
async fn changed(
    api: Api,
    (kind, event): (EventKind, Value),
    change: impl FnOnce(&Operator) -> Result<(), Problem> + Send + 'static,
) -> Answered<PoolAnswer> {
    let told = api.clone();
    let changed = api.work(move |operator| {
        change(&operator)?;
        answer(&operator)
    });
    told.told_of(kind, event, changed.await?).map(Json)
}

/// An event about a volume.
fn of_volume(change: &str, volume: &str) -> (EventKind, Value) {
    (EventKind::Volume, json!({ "change": change, "volume": volume }))
}

/// An event about the pool, or a disk of it.
fn of_pool(change: &str, disk: Option<&str>) -> (EventKind, Value) {
    (EventKind::Change, json!({ "change": change, "disk": disk }))
}

/// The pool: its disks, its volumes, and its free space.
#[utoipa::path(get, path = "/v1/pool", responses(
    (status = 200, description = "The pool", body = PoolAnswer),
    (status = 409, description = "There is no pool", body = Problem)))]
async fn pool(State(api): State<Api>) -> Answered<PoolAnswer> {
    Ok(Json(api.work(|operator| answer(&operator)).await??))
}

/// Pauses or resumes relocation; starts or stops a scrub; sets the alarm level.
#[utoipa::path(patch, path = "/v1/pool", request_body = PoolChange, responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is no pool, or it cannot be written", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn change(State(api): State<Api>, body: Body) -> Answered<PoolAnswer> {
    let PoolChange { paused, scrub, alarm_percent } = read(body).await?;
    if let Some(level) = alarm_percent.filter(|level| *level > 100) {
        let accepted = "0 to 100".to_owned();
        return Err(Problem::invalid("alarm_percent", Some(level.to_string()), accepted));
    }
    changed(api, of_pool("pool", None), move |operator| {
        paused.map_or(Ok(()), |paused| operator.pause_relocation(paused))?;
        alarm_percent.map_or(Ok(()), |level| operator.set_alarm(level))?;
        scrub.map_or(Ok(()), |starts| operator.scrub_pool(starts))?;
        Ok(())
    })
    .await
}

/// Adds a disk of the config to the pool. The disk's data is lost.
#[utoipa::path(post, path = "/v1/pool/disks", request_body = NamedSpec, responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It cannot be added", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn add(State(api): State<Api>, body: Body) -> Answered<PoolAnswer> {
    let NamedSpec { name } = read(body).await?;
    changed(api, of_pool("disk_added", Some(&name.clone())), move |operator| {
        operator.add_pool_disk(&name, new_uid()?)?;
        Ok(())
    })
    .await
}

/// Drains a disk, which then leaves the pool. Its volumes stay in use.
#[utoipa::path(delete, path = "/v1/pool/disks/{name}",
    params(("name" = String, Path, description = "The disk")), responses(
    (status = 200, description = "The pool, as it is now: blocks are being moved",
     body = PoolAnswer),
    (status = 400, description = "The name cannot be read", body = Problem),
    (status = 409, description = "It cannot be drained", body = Problem)))]
async fn remove(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<PoolAnswer> {
    let name = named(name)?;
    changed(api, of_pool("disk_drained", Some(&name.clone())), move |operator| {
        operator.remove_pool_disk(&name)?;
        Ok(())
    })
    .await
}

fn new_uid() -> Result<DiskUid, Problem> {
    daemon::random_uid().map(DiskUid).map_err(|error| {
        let message = format!("no random bits: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    })
}

/// Gives the place of a disk that the pool has taken out, or that is missing, to another disk of
/// the config. The data on that disk is lost; it gets its blocks from the other copies.
#[utoipa::path(post, path = "/v1/pool/disks/{name}/replace", request_body = NamedSpec,
    params(("name" = String, Path, description = "The disk that is out")), responses(
    (status = 200, description = "The pool, as it is now: blocks are being copied",
     body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It is in the pool, or the other cannot take its place",
     body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn replace(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let old = named(name)?;
    let NamedSpec { name } = read(body).await?;
    let fields = json!({ "change": "disk_replaced", "disk": old, "by": name });
    changed(api, (EventKind::Change, fields), move |operator| {
        operator.replace_pool_disk(&old, &name, new_uid()?)?;
        Ok(())
    })
    .await
}

/// Writes the pool in the newest version of its format from here on. Older versions of Spindle
/// refuse it then.
#[utoipa::path(post, path = "/v1/pool/upgrade", responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 409, description = "There is no pool, or it is of the newest version, or it cannot \
                                  be written", body = Problem)))]
async fn upgrade(State(api): State<Api>) -> Answered<PoolAnswer> {
    changed(api, of_pool("upgraded", None), move |operator| {
        operator.upgrade_pool()?;
        Ok(())
    })
    .await
}

/// Takes a snapshot of a volume of the pool under this name.
#[utoipa::path(post, path = "/v1/volumes/{name}/snapshots", request_body = NamedSpec,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It cannot be taken", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn snapshot(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let volume = named(name)?;
    let NamedSpec { name } = read(body).await?;
    let event = (EventKind::Volume, json!({ "change": "snapshot", "volume": name, "of": volume }));
    changed(api, event, move |operator| {
        operator.snapshot(&volume, &name)?;
        Ok(())
    })
    .await
}

/// Checks whether a snapshot could be taken, as `POST /v1/volumes/{name}/snapshots` does. Changes
/// nothing.
#[utoipa::path(post, path = "/v1/volumes/{name}/snapshots/admission", request_body = NamedSpec,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "Whether it could", body = ChangeAdmissionAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn admission_of_snapshot(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<ChangeAdmissionAnswer> {
    let volume = named(name)?;
    let NamedSpec { name } = read(body).await?;
    let admit = move |operator: Operator| operator.admit_snapshot(&volume, &name);
    Ok(Json(ChangeAdmission::of(api.work(admit).await?)?.into()))
}

/// Restores the content and the size of a volume from this snapshot of it.
#[utoipa::path(post, path = "/v1/volumes/{name}/rollback", request_body = Forced,
    params(("name" = String, Path, description = "The snapshot")), responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such snapshot", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It is no snapshot, or its volume is in use", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn roll_back(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let name = named(name)?;
    let Forced { force } = read(body).await?;
    changed(api, of_volume("rolled_back", &name.clone()), move |operator| {
        operator.roll_back(&name, force)?;
        Ok(())
    })
    .await
}

/// The zone and the disks of a relocation.
fn placement(spec: Relocate) -> Result<(Option<Zone>, Option<Vec<String>>), Problem> {
    let Relocate { zone, disks } = spec;
    let zone = zone.map(|word| {
        let found = config::zone_of(&word);
        found.ok_or_else(|| Problem::invalid("zone", Some(word), config::ZONE_WORDS.to_owned()))
    });
    Ok((zone.transpose()?, disks))
}

/// Relocates a volume to another zone or to other disks. Its blocks are moved while it is in use.
#[utoipa::path(post, path = "/v1/volumes/{name}/move", request_body = Relocate,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "The pool, as it is now", body = PoolAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "It cannot be placed there", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn relocate(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<PoolAnswer> {
    let name = named(name)?;
    let (zone, disks) = placement(read(body).await?)?;
    changed(api, of_volume("relocated", &name.clone()), move |operator| {
        operator.relocate(&name, zone, disks.as_deref())?;
        Ok(())
    })
    .await
}

/// Checks whether a volume could be relocated, as `POST /v1/volumes/{name}/move` does. Changes
/// nothing.
#[utoipa::path(post, path = "/v1/volumes/{name}/move/admission", request_body = Relocate,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "Whether it could", body = ChangeAdmissionAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn admission_of_relocation(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<ChangeAdmissionAnswer> {
    let name = named(name)?;
    let (zone, disks) = placement(read(body).await?)?;
    let admit = move |operator: Operator| operator.admit_relocation(&name, zone, disks.as_deref());
    Ok(Json(ChangeAdmission::of(api.work(admit).await?)?.into()))
}

/// Relocates volumes from the fullest disks to the emptiest, while they are in use.
#[utoipa::path(post, path = "/v1/pool/rebalance", responses(
    (status = 200, description = "The pool, as it is now: blocks are being moved",
     body = PoolAnswer),
    (status = 409, description = "There is no pool, or it cannot be written", body = Problem)))]
async fn rebalance(State(api): State<Api>) -> Answered<PoolAnswer> {
    changed(api, of_pool("rebalanced", None), move |operator| {
        operator.rebalance()?;
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use daemon::ResyncEstimate;
    use units::{Bytes, Duration};

    use super::*;

    #[test]
    fn the_time_until_copies_are_equal_is_there_with_progress_alone() {
        let left = Bytes(90 << 20);
        let view = ResyncView { is_running: true, left, ..ResyncView::default() };
        let json = serde_json::to_value(PoolResync::from(view)).expect("numbers");
        assert_eq!((json.get("time_left_s"), json.get("bytes_per_s")), (None, None), "{json}");
        let time_left = Duration::from_millis(1_500);
        let estimate = Some(ResyncEstimate { bytes_per_s: 60 << 20, time_left });
        let json = serde_json::to_value(PoolResync::from(ResyncView { estimate, ..view }));
        let json = json.expect("numbers");
        assert_eq!(json["time_left_s"], json!(1.5));
        assert_eq!(json["bytes_per_s"], json!(60 << 20));
        assert_eq!(json["left_bytes"], json!(90 << 20));
    }
}
