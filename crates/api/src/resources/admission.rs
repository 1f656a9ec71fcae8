//! Admission: whether a volume would fit, on a disk or in the pool, and what would otherwise.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use config::{DiskIndex, Plan};
use daemon::{ChangeError, NewVolume, Operator, PoolSpace};
use serde::{Deserialize, Serialize};
use units::{Bytes, Share};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use volume::NoSpace;

use super::disk::available;
use super::volume_spec::{VolumeChange, VolumeSpec};
use crate::answers::answers;
use crate::context::{Answered, Api};
use crate::extract::{named, read};
use crate::problem::{Fault, Problem};

/// The headroom that the deadlines of a disk leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Headroom {
    /// The number of streams and reserves on it, and of the server for best effort.
    pub tasks: usize,
    /// The part of the disk's time that they require.
    pub utilization: f64,
    /// The disk time that best effort can use at any instant without a missed deadline: ΔL in
    /// Clockwise (RTAS 2000).
    pub slack_ms: f64,
}

/// The result of admission: whether a volume fits, and what would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Admission {
    /// Whether the volume could be created now.
    pub fits: bool,
    /// The reason, if it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Fault>,
    /// Whether its contract could be kept now, whatever its size.
    // `None`: a daemon of the previous version omits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required, value_type = bool)]
    pub contract_fits: Option<bool>,
    /// The largest reserve that the disk has available; for a volume of the pool, each of its
    /// disks.
    pub reserve_max: String,
    /// The largest size that the disk has space for; for a volume of the pool, its zone of its
    /// disks. For a thin volume, less what other thin volumes may still allocate.
    pub size_max: String,
    /// That size in bytes.
    pub size_max_bytes: u64,
    /// The headroom of the disk: with the volume if it fits, without it if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Headroom>,
    /// Deprecated: the same as `headroom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Headroom>,
    /// What each disk has available, for a volume of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<AdmissionDisk>,
}

/// What a disk of the pool has available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionDisk {
    /// The disk.
    pub disk: String,
    /// The largest reserve.
    pub reserve_max: String,
    /// The free bytes of its fast part.
    pub fast_bytes: u64,
    /// The free bytes of its slow part.
    pub slow_bytes: u64,
    /// The headroom of its deadlines: with the volume if it fits, without it if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Headroom>,
}

/// Whether a change of a volume would be admitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangeAdmission {
    /// Whether the volume could be changed so now.
    pub fits: bool,
    /// The reason, if it could not; with what is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Fault>,
}

answers! {
    /// The result of admission.
    AdmissionAnswer {
        /// The result.
        admission: Admission
    }
    /// The result of admission of a change.
    ChangeAdmissionAnswer {
        /// The result.
        admission: ChangeAdmission
    }
}

impl ChangeAdmission {
    /// What the daemon has said of a change. What is no refusal is an error.
    pub(super) fn of(admitted: Result<(), ChangeError>) -> Result<Self, Problem> {
        let (_, reason) = unless_refused(admitted)?;
        Ok(Self { fits: reason.is_none(), reason })
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn headroom_of(room: config::AdmissionHeadroom) -> Headroom {
    Headroom {
        tasks: room.tasks,
        utilization: room.utilization_ppb as f64 / 1e9,
        slack_ms: room.slack.as_secs_f64() * 1e3,
    }
}

/// Whether the volume could be created. An invalid value is an error.
fn check_admission(
    operator: &Operator,
    spec: VolumeSpec,
    in_pool: bool,
) -> Result<Admission, Problem> {
    let (name, new) = spec.placed(in_pool)?;
    let document = operator.document();
    let (with, reason) = unless_refused(operator.admit(&name, &new))?;
    let plan = document.plan();
    let with = with.as_ref().map_or(plan, |with| with.plan());
    match &new {
        NewVolume::OnDisk { disk, .. } => {
            let index = plan.disks.iter().position(|there| there.name == *disk);
            let index = DiskIndex(index.expect("the config has found it"));
            Ok(on_disk(operator, (plan, with), index, reason))
        }
        NewVolume::InPool(edit) => {
            let space = operator.pool_space(edit)?;
            Ok(within_pool(operator, (plan, with), (&name, &new), (space, reason)))
        }
    }
}

/// What admission has returned, or the reason of its refusal. Any other failure is an error.
fn unless_refused<T>(
    admitted: Result<T, ChangeError>,
) -> Result<(Option<T>, Option<Fault>), Problem> {
    match admitted {
        Ok(with) => Ok((Some(with), None)),
        Err(ChangeError::Config(error)) if error.is_refusal() => {
            Ok((None, Some(Problem::fault(&error))))
        }
        Err(error @ (ChangeError::Refused(_) | ChangeError::Exists { .. })) => {
            Ok((None, Some(*Problem::from(error).error)))
        }
        Err(error) => Err(error.into()),
    }
}

fn on_disk(
    operator: &Operator,
    (plan, with): (&Plan, &Plan),
    index: DiskIndex,
    reason: Option<Fault>,
) -> Admission {
    let headroom = with.admission_headroom(index, operator.now()).map(headroom_of);
    let (NoSpace { largest_gap: gap, .. }, _) = available(plan, index);
    let left = plan.unreserved(index, operator.now());
    let size_max: Bytes = gap.bytes();
    Admission {
        fits: reason.is_none(),
        contract_fits: None,
        reason,
        reserve_max: plan.disks[index.0].share_text(left),
        size_max: config::size_text(size_max),
        size_max_bytes: size_max.0,
        headroom,
        room: headroom,
        disks: Vec::new(),
    }
}

fn within_pool(
    operator: &Operator,
    (plan, with): (&Plan, &Plan),
    (name, new): (&str, &NewVolume),
    (space, reason): (PoolSpace, Option<Fault>),
) -> Admission {
    let now = operator.now();
    let disks = space.disks.iter().map(|disk| AdmissionDisk {
        disk: plan.disks[disk.disk.0].name.clone(),
        reserve_max: plan.disks[disk.disk.0].share_text(plan.unreserved(disk.disk, now)),
        fast_bytes: disk.fast.0,
        slow_bytes: disk.slow.0,
        headroom: with.admission_headroom(disk.disk, now).map(headroom_of),
    });
    let disks: Vec<AdmissionDisk> = disks.collect();
    let left = space.disks.iter().map(|disk| plan.unreserved(disk.disk, now));
    let left = left.min().unwrap_or(Share::NONE);
    // Of all contracts the one with the smallest size: what refuses it is not the space.
    let contract_fits = reason.is_none() || operator.admits_contract(name, new);
    let of_space = space.missing.map(|size| {
        let (found, most) = (config::size_text(size), config::size_text(space.size_max));
        let accepted = format!("at most {most} (what is free in its zone of its disks)");
        let mut fault = *Problem::invalid("size", Some(found), accepted).error;
        "refused".clone_into(&mut fault.code);
        fault
    });
    let reason = reason.or(of_space);
    let first = space.disks.first().map_or(DiskIndex(0), |disk| disk.disk);
    Admission {
        fits: reason.is_none(),
        contract_fits: Some(contract_fits),
        reason,
        reserve_max: plan.disks[first.0].share_text(left),
        size_max: config::size_text(space.size_max),
        size_max_bytes: space.size_max.0,
        headroom: None,
        room: None,
        disks,
    }
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(admission))
        .routes(routes!(admission_in_pool))
        .routes(routes!(admission_of_change))
}

async fn answer(api: Api, spec: VolumeSpec, in_pool: bool) -> Answered<AdmissionAnswer> {
    let said = api.work(move |operator| check_admission(&operator, spec, in_pool)).await??;
    Ok(Json(said.into()))
}

/// Checks whether a volume would fit, and what would otherwise. Changes nothing.
#[utoipa::path(post, path = "/v1/admission", request_body = VolumeSpec, responses(
    (status = 200, description = "Whether it fits, and what would", body = AdmissionAnswer),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is no pool", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn admission(State(api): State<Api>, body: Body) -> Answered<AdmissionAnswer> {
    answer(api, read(body).await?, false).await
}

/// Checks whether a volume would fit in the pool, as `POST /v1/admission` does.
#[utoipa::path(post, path = "/v1/pool/admission", request_body = VolumeSpec, responses(
    (status = 200, description = "Whether it fits, and what would", body = AdmissionAnswer),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is no pool", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn admission_in_pool(State(api): State<Api>, body: Body) -> Answered<AdmissionAnswer> {
    answer(api, read(body).await?, true).await
}

/// Checks whether a volume could be changed so, as `PATCH /v1/volumes/{name}` does. Changes
/// nothing.
#[utoipa::path(post, path = "/v1/volumes/{name}/admission", request_body = VolumeChange,
    params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "Whether it could", body = ChangeAdmissionAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn admission_of_change(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<ChangeAdmissionAnswer> {
    let name = named(name)?;
    let setting = read::<VolumeChange>(body).await?.setting()?;
    let said = api.work(move |operator| operator.admit_change(&name, &setting.edit)).await?;
    Ok(Json(ChangeAdmission::of(said)?.into()))
}
