//! The API's routes, each with its description.

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use config::{StreamEdit, VolumeEdit};
use daemon::{Created, Operator, Setting};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answer;
use crate::limits::{BODY_BYTES_MAX, BODY_TIME_MAX};
use crate::live::{self, Closing, LiveQuery};
use crate::metrics;
use crate::problem::Problem;
use crate::shapes::{
    AdmissionAnswer, DiskAnswer, DiskChange, DisksAnswer, VolumeAnswer, VolumeChange, VolumeSpec,
    VolumesAnswer,
};

/// What the routes work on.
#[derive(Clone, Debug)]
pub struct Api {
    operator: Operator,
    closing: Closing,
}

#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Spindle",
    description = "Live control of a Spindle daemon. On a Unix socket whoever may open it may call; on TCP a request \
                   carries `Authorization: Bearer TOKEN`. A request that is answered with 4xx has changed nothing."
))]
struct Description;

pub(crate) type Answered<T> = Result<Json<T>, Problem>;

impl Api {
    /// The API of this daemon.
    pub fn new(operator: Operator) -> Self {
        Self { operator, closing: Closing::default() }
    }

    /// What tells those who look on to go.
    pub(crate) fn closing(&self) -> Closing {
        self.closing.clone()
    }

    /// Everything that is answered.
    pub(crate) fn router(self) -> Router {
        let (router, description) = described().split_for_parts();
        let description = Json(description);
        router
            .route("/openapi.json", axum::routing::get(move || async { description }))
            .route("/metrics", axum::routing::get(measured))
            .fallback(async || {
                Problem::new(StatusCode::NOT_FOUND, "missing", "no such path: see /openapi.json")
            })
            .method_not_allowed_fallback(async || {
                Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "invalid",
                    "no such method: see /openapi.json",
                )
            })
            .with_state(self)
    }

    /// Does what may wait for a disk or a file beside the thread of the sockets.
    pub(crate) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(Operator) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let done = tokio::task::spawn_blocking(move || work(self.operator)).await;
        done.map_err(|_| daemon::ChangeError::Stopping.into())
    }
}

fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(volumes, create))
        .routes(routes!(volume, set, delete))
        .routes(routes!(admission))
        .routes(routes!(disks))
        .routes(routes!(disk, set_disk))
        .routes(routes!(reopen))
        .routes(routes!(trace))
        .merge(crate::pool::described())
}

/// The API's description, as it is served.
pub fn description() -> OpenApi {
    described().into_openapi()
}

/// All that is counted, as Prometheus reads it.
async fn measured(State(api): State<Api>) -> Result<Response, Problem> {
    let text = api.work(|operator| metrics::text(&operator)).await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// All volumes: what each is promised and has had.
#[utoipa::path(get, path = "/v1/volumes", responses(
    (status = 200, description = "The volumes", body = VolumesAnswer)))]
async fn volumes(State(api): State<Api>) -> Answered<VolumesAnswer> {
    Ok(Json(api.work(|operator| answer::volumes(&operator)).await?.into()))
}

/// Makes a volume. The same again is as good as once.
#[utoipa::path(post, path = "/v1/volumes", request_body = VolumeSpec, responses(
    (status = 201, description = "It is there now", body = VolumeAnswer),
    (status = 200, description = "It was there, exactly so", body = VolumeAnswer),
    (status = 400, description = "The body is no JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is no room for it, or another volume of its name", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn create(State(api): State<Api>, body: Body) -> Result<Response, Problem> {
    let spec: VolumeSpec = read(body).await?;
    let made = api.work(move |operator| {
        let (name, disk) = (spec.name.clone(), spec.disk.clone());
        let new = daemon::NewVolume::OnDisk { disk, edit: answer::edit(spec) };
        let created = operator.create(&name, &new)?;
        Ok::<_, Problem>((created, answer::volume(&operator, &name)?))
    });
    Ok(self::made(made.await??))
}

/// The answer to who asked for a volume.
pub(crate) fn made((created, volume): (Created, crate::Volume)) -> Response {
    let status = match created {
        Created::New => StatusCode::CREATED,
        Created::Unchanged => StatusCode::OK,
    };
    (status, Json(VolumeAnswer::from(volume))).into_response()
}

/// One volume, with its latencies.
#[utoipa::path(get, path = "/v1/volumes/{name}", params(("name" = String, Path, description = "The volume")), responses(
    (status = 200, description = "The volume", body = VolumeAnswer),
    (status = 400, description = "The name is no text", body = Problem),
    (status = 404, description = "There is none", body = Problem)))]
async fn volume(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<VolumeAnswer> {
    let name = named(name)?;
    let volume = api.work(move |operator| answer::volume(&operator, &name)).await??;
    Ok(Json(volume.into()))
}

/// Changes a volume, all that is said or nothing. It takes effect before it is answered, while I/O runs.
#[utoipa::path(patch, path = "/v1/volumes/{name}", params(("name" = String, Path, description = "The volume")),
    request_body = VolumeChange, responses(
    (status = 200, description = "The volume, as it is now", body = VolumeAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is none", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "There is no room for it, or it is in use", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn set(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<VolumeAnswer> {
    let name = named(name)?;
    let VolumeChange { size, reserve, limit, weight, stream, drop_stream, force } =
        read(body).await?;
    let stream = match (stream, drop_stream) {
        (Some(_), true) => {
            let accepted = "no `drop_stream` beside a `stream`".to_owned();
            return Err(Problem::invalid("drop_stream", Some("true".to_owned()), accepted));
        }
        (Some(stream), false) => Some(answer::stream_edit(stream)),
        (None, true) => Some(StreamEdit::Drop),
        (None, false) => None,
    };
    let setting = Setting { edit: VolumeEdit { size, reserve, limit, weight, stream }, force };
    let changed = api.work(move |operator| {
        operator.set(&name, &setting)?;
        answer::volume(&operator, &name)
    });
    Ok(Json(changed.await??.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Force {
    /// Disconnect its clients, after their last answers.
    #[serde(default)]
    force: bool,
}

/// Removes a volume and its data.
#[utoipa::path(delete, path = "/v1/volumes/{name}", params(("name" = String, Path, description = "The volume"), Force),
    responses(
    (status = 204, description = "It is gone"),
    (status = 400, description = "The name cannot be read", body = Problem),
    (status = 404, description = "There is none", body = Problem),
    (status = 409, description = "It is in use", body = Problem),
    (status = 422, description = "A parameter is not what it should be", body = Problem)))]
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
    api.work(move |operator| operator.delete(&name, force.0.force)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Would this volume fit, and if not, what would? Changes nothing.
#[utoipa::path(post, path = "/v1/admission", request_body = VolumeSpec, responses(
    (status = 200, description = "Whether it fits, and what would", body = AdmissionAnswer),
    (status = 400, description = "The body is no JSON", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn admission(State(api): State<Api>, body: Body) -> Answered<AdmissionAnswer> {
    let spec: VolumeSpec = read(body).await?;
    let said = api.work(move |operator| answer::admission(&operator, spec)).await??;
    Ok(Json(said.into()))
}

/// All disks: what each has promised, and has left.
#[utoipa::path(get, path = "/v1/disks", responses(
    (status = 200, description = "The disks", body = DisksAnswer)))]
async fn disks(State(api): State<Api>) -> Answered<DisksAnswer> {
    Ok(Json(api.work(|operator| answer::disks(&operator)).await?.into()))
}

/// One disk.
#[utoipa::path(get, path = "/v1/disks/{name}", params(("name" = String, Path, description = "The disk")), responses(
    (status = 200, description = "The disk", body = DiskAnswer),
    (status = 400, description = "The name is no text", body = Problem),
    (status = 404, description = "There is none", body = Problem)))]
async fn disk(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<DiskAnswer> {
    let name = named(name)?;
    let disk = api.work(move |operator| one_disk(&operator, &name)).await??;
    Ok(Json(disk.into()))
}

/// Changes the period in which a disk keeps its reserves.
#[utoipa::path(patch, path = "/v1/disks/{name}", params(("name" = String, Path, description = "The disk")),
    request_body = DiskChange, responses(
    (status = 200, description = "The disk, as it is now", body = DiskAnswer),
    (status = 400, description = "The name or the body cannot be read", body = Problem),
    (status = 404, description = "There is none", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 409, description = "The config was edited", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is not what it should be", body = Problem)))]
async fn set_disk(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Answered<DiskAnswer> {
    let name = named(name)?;
    let DiskChange { period } = read(body).await?;
    let changed = api.work(move |operator| {
        operator.set_period(&name, &period)?;
        one_disk(&operator, &name)
    });
    Ok(Json(changed.await??.into()))
}

/// Opens a disk again of which a flush failed, or that is gone: its volumes are written again from then on. Something written before
/// may be lost.
#[utoipa::path(post, path = "/v1/disks/{name}/reopen", params(("name" = String, Path, description = "The disk")), responses(
    (status = 200, description = "The disk, as it is now", body = DiskAnswer),
    (status = 400, description = "The name is no text", body = Problem),
    (status = 404, description = "There is none", body = Problem),
    (status = 409, description = "Nothing is wrong with it, or it cannot be opened", body = Problem)))]
async fn reopen(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Answered<DiskAnswer> {
    let name = named(name)?;
    let opened = api.work(move |operator| {
        one_disk(&operator, &name)?;
        operator.reopen(&name)?;
        one_disk(&operator, &name)
    });
    Ok(Json(opened.await??.into()))
}

/// Finished requests as they are answered, each with where its time went, until the client goes.
#[utoipa::path(get, path = "/v1/trace", params(LiveQuery), responses(
    (status = 200, description = "A line of JSON for each: `parts_ns` add up to `total_ns`; and one with `dropped` where \
                                  the client was too slow. Empty lines mean nothing",
     body = String, content_type = "application/x-ndjson"),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 409, description = "Too many look on", body = Problem),
    (status = 422, description = "A parameter is not what it should be", body = Problem)))]
async fn trace(
    State(api): State<Api>,
    query: Result<Query<LiveQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| {
        let given = Some(error.body_text());
        Problem::invalid("query", given, "`volume`, `every`, `at_least` or nothing".to_owned())
    })?;
    live::begin(api.operator, &query, api.closing)
}

fn one_disk(operator: &Operator, name: &str) -> Result<crate::Disk, Problem> {
    let found = answer::disks(operator).into_iter().find(|disk| disk.name == name);
    found.ok_or_else(|| {
        let message = format!("there is no disk \"{name}\"");
        Problem::new(StatusCode::NOT_FOUND, "missing", message)
    })
}

pub(crate) fn named(name: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let unreadable =
        |error: PathRejection| Problem::new(StatusCode::BAD_REQUEST, "invalid", error.body_text());
    name.map(|Path(name)| name).map_err(unreadable)
}

/// A body, whole and in time, as what it should be.
pub(crate) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let problem = |status, message: String| Problem::new(status, "invalid", message);
    let whole = tokio::time::timeout(BODY_TIME_MAX, axum::body::to_bytes(body, BODY_BYTES_MAX));
    let whole = whole.await.map_err(|_| {
        let message = format!("the body took longer than {} s", BODY_TIME_MAX.as_secs());
        problem(StatusCode::REQUEST_TIMEOUT, message)
    })?;
    let bytes = whole.map_err(|error| {
        let message = format!("expected a body of at most {BODY_BYTES_MAX} bytes ({error})");
        problem(StatusCode::PAYLOAD_TOO_LARGE, message)
    })?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| problem(StatusCode::BAD_REQUEST, format!("expected JSON: {error}")))?;
    serde_path_to_error::deserialize(&value).map_err(|error| mistaken(&value, &error))
}

/// Which field is not what it should be.
fn mistaken(value: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let (path, words) = (error.path().to_string(), error.inner().to_string());
    // A field that is missing or unknown has no path: it is named in the words.
    let named = words.split('`').nth(1).filter(|_| path == ".");
    let field = named.unwrap_or(&path).to_owned();
    let field = field.as_str();
    let given = value.get(field).map(Value::to_string);
    let whole = path == "." && named.is_none();
    let given = given.or_else(|| whole.then(|| value.to_string()));
    let given = given.map(|given| given.chars().take(GIVEN_CHARS_MAX).collect());
    Problem::invalid(field, given, words.clone())
}

/// So much of what was given is told back.
const GIVEN_CHARS_MAX: usize = 80;
