//! Errors, as clients see them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use config::ConfigError;
use daemon::ChangeError;
use engine::stream::Violation;
use serde::{Deserialize, Serialize};
use stats::SCHEMA;
use units::Instant;
use utoipa::ToSchema;

/// The reply to a request that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The version of the schema.
    pub schema: u32,
    /// The error.
    pub error: Box<Fault>,
    /// The HTTP status.
    #[serde(skip)]
    status: u16,
}

/// What is wrong, and what is accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// A code for programs: `invalid`, `refused`, `missing`, `exists`, `in_use`, `edited`,
    /// `unauthorized`, `forbidden`, `failed`.
    pub code: String,
    /// One sentence to read.
    pub message: String,
    /// The field or parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The given value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// The accepted values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// Why deadlines would be missed, if they would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<Unfit>,
}

/// Why a stream, a bounded latency, or a reserve beside them does not fit on its disk, and what
/// would.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Unfit {
    /// A code for programs: `utilization` (more than the whole disk), `blocked` (in an interval a
    /// command of `beside` blocks the disk), `demand` (more is due in an interval than fits into
    /// it), `undecided` or `full`.
    pub constraint: String,
    /// The start of the time span, counted from the daemon's start.
    pub from_s: f64,
    /// The end of the time span, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// The part of the disk's time that would be required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    /// The length L of the interval that is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<f64>,
    /// The missing disk time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_ms: Option<f64>,
    /// The volume whose command blocks the disk; absent for the volume itself, and for the server
    /// of best effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// The block size of that volume in bytes, if it has a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside_block_bytes: Option<u64>,
    /// A smaller block that would fit at the same bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
    /// The largest bandwidth that would fit with the same block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes_per_s: Option<u64>,
    /// What would fit in place of a bounded latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyOffers>,
}

/// What would fit in place of a bounded latency that does not, as it can be set: each beside the
/// requested values of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatencyOffers {
    /// The shortest latency that would fit.
    #[schema(example = "156ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// The highest rate that would fit, to three digits.
    #[schema(example = "9/s")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<String>,
    /// The largest burst that would fit.
    #[schema(example = 2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The largest request that would fit.
    #[schema(example = "16KiB")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}

impl From<&config::AdmissionFailure> for LatencyOffers {
    fn from(failure: &config::AdmissionFailure) -> Self {
        let [within, requests, _, size] = failure.latency_offers();
        Self { within, requests, burst: failure.latency_offers.burst, size }
    }
}

impl From<&config::AdmissionFailure> for Unfit {
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn from(unfit: &config::AdmissionFailure) -> Self {
        let seconds = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        let (constraint, utilization, interval, short) = match unfit.violation {
            Violation::Utilization { asked, .. } => {
                ("utilization", Some(asked.ppb() as f64 / 1e9), None, None)
            }
            Violation::Blocked { interval, short, .. } => {
                ("blocked", None, Some(interval), Some(short.as_secs_f64() * 1e3))
            }
            Violation::Demand { interval, short } => {
                ("demand", None, Some(interval), Some(short.as_secs_f64() * 1e3))
            }
            Violation::Undecided { interval } => ("undecided", None, Some(interval), None),
            Violation::Full => ("full", None, None, None),
        };
        let end = Some(unfit.stretch.end).filter(|end| *end < Instant::FAR_FUTURE);
        let beside = unfit.beside.as_ref();
        Self {
            constraint: constraint.to_owned(),
            from_s: seconds(unfit.stretch.start),
            until_s: end.map(seconds),
            utilization,
            interval_ms: interval.map(units::Duration::as_millis_f64),
            short_ms: short,
            beside: beside.and_then(|beside| beside.volume.clone()),
            beside_block_bytes: beside.and_then(|beside| beside.block).map(|block| block.0),
            block_bytes: unfit.offers.block.map(|block| block.0),
            bandwidth_bytes_per_s: unfit.offers.bandwidth.map(|bandwidth| bandwidth.0),
            latency: unfit.is_latency.then(|| unfit.into()),
        }
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        let (field, given, accepted, deadlines) = (None, None, None, None);
        let error = Box::new(Fault { code, message, field, given, accepted, deadlines });
        Self { schema: SCHEMA, error, status: status.as_u16() }
    }

    /// An invalid field.
    pub(crate) fn invalid(field: &str, given: Option<String>, accepted: String) -> Self {
        let found = given.as_deref().map_or("nothing".to_owned(), |given| format!("`{given}`"));
        let message = format!("field `{field}`: found {found}, expected {accepted}");
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message);
        problem.error.field = Some(field.to_owned());
        problem.error.given = given;
        problem.error.accepted = Some(accepted);
        problem
    }

    fn of_config(error: &ConfigError, status: StatusCode, code: &str) -> Self {
        let field = error.field().or(error.table()).unwrap_or("config");
        let given = error.found().map(str::to_owned);
        let mut problem = Self::invalid(field, given, error.expected().to_owned());
        code.clone_into(&mut problem.error.code);
        problem.error.deadlines = error.admission_failure().map(Unfit::from);
        problem.status = status.as_u16();
        problem
    }

    /// The parts of a config's error, for a reply that is not an error.
    pub(crate) fn fault(error: &ConfigError) -> Fault {
        let code = if error.is_refusal() { "refused" } else { "invalid" };
        *Self::of_config(error, StatusCode::CONFLICT, code).error
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        let conflict = |code, message: String| Self::new(StatusCode::CONFLICT, code, message);
        match error {
            ChangeError::Config(error) if error.is_refusal() => {
                Self::of_config(&error, StatusCode::CONFLICT, "refused")
            }
            ChangeError::Config(error) => {
                Self::of_config(&error, StatusCode::UNPROCESSABLE_ENTITY, "invalid")
            }
            ChangeError::Missing(error) => {
                Self::of_config(&error, StatusCode::NOT_FOUND, "missing")
            }
            ChangeError::Exists { name } => {
                let message = format!(
                    "a volume \"{name}\" is there already, and is another: expected a name of its \
                     own, or a change of that one"
                );
                let mut problem = conflict("exists", message);
                problem.error.field = Some("name".to_owned());
                problem.error.given = Some(name);
                problem.error.accepted = Some("a name that no volume has".to_owned());
                problem
            }
            ChangeError::InUse { name, connections } => conflict(
                "in_use",
                format!(
                    "volume \"{name}\" is open on {connections} connections: expected none, or \
                     `force`"
                ),
            ),
            ChangeError::Attached { name, device } => conflict(
                "in_use",
                format!(
                    "volume \"{name}\" is {device}: expected one that is no block device \
                     (`spindle detach {device}`)"
                ),
            ),
            ChangeError::BlockDevice(error) if error.is_in_use() => {
                conflict("in_use", error.to_string())
            }
            ChangeError::BlockDevice(error) if error.is_correctable() => {
                conflict("refused", error.to_string())
            }
            ChangeError::BlockDevice(error) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
            }
            ChangeError::Edited { file } => conflict(
                "edited",
                format!(
                    "{file} was edited since the daemon read it: expected it as it was, or a \
                     restart to have the edit take effect"
                ),
            ),
            ChangeError::Io { file, error } => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "failed",
                format!("{file} cannot be written: {error}"),
            ),
            ChangeError::Disk(failure) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "failed",
                format!("the disk cannot erase the space: {failure:?}"),
            ),
            ChangeError::Refused(_) | ChangeError::NoPool => conflict("refused", error.to_string()),
            ChangeError::Pool(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
            }
            ChangeError::Stopping => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "failed", "the daemon is stopping")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("the status was one before");
        (status, Json(self)).into_response()
    }
}
