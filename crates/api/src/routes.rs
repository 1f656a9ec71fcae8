//! All routes, and their description.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::context::Api;
use crate::metrics;
use crate::page;
use crate::problem::Problem;
use crate::resources::{admission, disk, events, pool, promises, session, trace, volume};

#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Spindle",
    description = "Live control of a Spindle daemon. On a Unix socket, file permissions decide \
                   which processes may call it; on TCP, a request carries \
                   `Authorization: Bearer TOKEN`, or the cookie of a session. A request that is \
                   answered with 4xx has changed nothing."
))]
struct Description;

fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(volume::described())
        .merge(admission::described())
        .merge(disk::described())
        .merge(trace::described())
        .merge(events::described())
        .merge(promises::described())
        .merge(pool::described())
        .merge(session::described())
}

/// The API's description, as it is served.
pub fn description() -> OpenApi {
    described().into_openapi()
}

/// Everything that is served.
pub(crate) fn router(api: Api) -> Router {
    let (router, description) = described().split_for_parts();
    let description = Json(description);
    router
        .merge(page::routes())
        .route("/openapi.json", axum::routing::get(move || async { description }))
        .route("/metrics", axum::routing::get(metrics_text))
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
        .with_state(api)
}

/// All metrics, in Prometheus' text format.
async fn metrics_text(State(api): State<Api>) -> Result<Response, Problem> {
    let text = api.work(|operator| metrics::text(&operator)).await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
