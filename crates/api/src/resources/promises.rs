//! `/v1/promises`: what was kept of each volume's contract in the last hour.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::answers::answers;
use crate::context::{Answered, Api};
use crate::promises::{KeptMinutes, PromiseHistory};

/// What was kept of one volume's contract. The lists have one value for each minute, the last of
/// which is not over; a list without any value is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumePromises {
    /// Its name.
    pub name: String,
    /// The number of the first minute, counted from the daemon's start.
    pub first_minute: u64,
    /// The number of minutes, at most 60.
    pub minutes: u64,
    /// The least estimated worth of its reserve; null without enough requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worth: Vec<Option<f64>>,
    /// The deadlines met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<u64>,
    /// The deadlines missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<u64>,
    /// The least time that an answer has left to its deadline; null without an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closest_ms: Vec<Option<f64>>,
}

answers! {
    /// The last hour of all volumes that have a reserve, a stream, or a bounded latency.
    PromisesAnswer {
        /// In the order of their creation.
        volumes: Vec<VolumePromises>
    }
}

/// The values of a list, or none if all of them are absent.
fn unless_absent<T>(values: Vec<T>, is_absent: fn(&T) -> bool) -> Vec<T> {
    if values.iter().all(is_absent) { Vec::new() } else { values }
}

impl From<KeptMinutes> for VolumePromises {
    fn from(kept: KeptMinutes) -> Self {
        let KeptMinutes { volume, first, minutes } = kept;
        // Three digits are more than the estimate is worth.
        let worth = |worth: f64| (worth * 1e3).round() / 1e3;
        let worth = minutes.iter().map(|minute| minute.worth.map(worth)).collect();
        let met = minutes.iter().map(|minute| minute.met).collect();
        let missed = minutes.iter().map(|minute| minute.missed).collect();
        let closest = minutes.iter().map(|minute| minute.closest);
        let closest = closest.map(|closest| closest.map(units::Duration::as_millis_f64)).collect();
        Self {
            name: volume,
            first_minute: first,
            minutes: minutes.len() as u64,
            worth: unless_absent(worth, Option::is_none),
            met: unless_absent(met, |count| *count == 0),
            missed: unless_absent(missed, |count| *count == 0),
            closest_ms: unless_absent(closest, Option::is_none),
        }
    }
}

/// What was kept from a minute on.
pub(crate) fn kept_since(history: &PromiseHistory, minute: u64) -> Vec<VolumePromises> {
    history.since(minute).into_iter().map(VolumePromises::from).collect()
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(promises))
}

/// What was kept of each volume's contract in the last hour, minute by minute, as of at most ten
/// seconds ago.
#[utoipa::path(get, path = "/v1/promises", responses(
    (status = 200, description = "The last hour", body = PromisesAnswer)))]
async fn promises(State(api): State<Api>) -> Answered<PromisesAnswer> {
    Ok(Json(kept_since(&api.promises(), 0).into()))
}
