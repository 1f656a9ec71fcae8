//! `/v1/session`: a browser exchanges the token for a cookie, so that no script has the token.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use host::WallTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{cookie_name, is_https};
use crate::context::Api;
use crate::extract::read;
use crate::limits::SESSION_MAX;
use crate::problem::Problem;
use crate::token::Token;

/// The token for which a browser gets a cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// The token of the daemon's token file.
    pub token: String,
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(log_in, log_out))
}

/// Exchanges the token for a cookie that scripts cannot read and that lasts 12 hours. A Unix socket
/// needs neither, and sets no cookie.
#[utoipa::path(post, path = "/v1/session", request_body = SessionSpec, responses(
    (status = 204, description = "The cookie is set"),
    (status = 400, description = "The body is not JSON", body = Problem),
    (status = 401, description = "It is another token", body = Problem),
    (status = 408, description = "The body took too long", body = Problem),
    (status = 413, description = "The body is too large", body = Problem),
    (status = 422, description = "A field is invalid", body = Problem)))]
async fn log_in(parts: Parts, body: Body) -> Result<Response, Problem> {
    let SessionSpec { token: given } = read(body).await?;
    let Some(token) = parts.extensions.get::<Token>() else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if !token.matches(given.trim().as_bytes()) {
        let message = "found another token, expected that of the daemon's token file";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
    }
    Ok(with_cookie(&parts, &token.session(WallTime::now()), SESSION_MAX.as_secs()))
}

/// Removes the cookie.
#[utoipa::path(delete, path = "/v1/session", responses(
    (status = 204, description = "The cookie is removed")))]
async fn log_out(parts: Parts) -> Response {
    with_cookie(&parts, "", 0)
}

fn with_cookie(parts: &Parts, value: &str, seconds: u64) -> Response {
    let name = cookie_name(&parts.headers);
    let secure = if is_https(&parts.headers) { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
