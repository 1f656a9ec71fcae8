//! Names and bodies of requests, and the errors of those that cannot be read.

use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::limits::{BODY_BYTES_MAX, BODY_TIME_MAX};
use crate::problem::Problem;

/// The name in a path.
pub(crate) fn named(name: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let unreadable =
        |error: PathRejection| Problem::new(StatusCode::BAD_REQUEST, "invalid", error.body_text());
    name.map(|Path(name)| name).map_err(unreadable)
}

/// Reads a body within the limits of size and time.
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
    serde_path_to_error::deserialize(&value).map_err(|error| invalid_field(&value, &error))
}

/// The field that is invalid.
fn invalid_field(value: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let (path, words) = (error.path().to_string(), error.inner().to_string());
    // A missing or unknown field has no path: the message names it.
    let named = words.split('`').nth(1).filter(|_| path == ".");
    let field = named.unwrap_or(&path).to_owned();
    let field = field.as_str();
    let given = value.get(field).map(Value::to_string);
    let whole = path == "." && named.is_none();
    let given = given.or_else(|| whole.then(|| value.to_string()));
    let given = given.map(|given| given.chars().take(GIVEN_CHARS_MAX).collect());
    Problem::invalid(field, given, words.clone())
}

/// The number of characters of an invalid value that are repeated.
const GIVEN_CHARS_MAX: usize = 80;
