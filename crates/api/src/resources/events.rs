//! `/v1/events`: what happens to the daemon, as server-sent events, for as long as the client
//! reads.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use daemon::{Operator, PoolDiskState, PoolDiskView, PoolView};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::disk::{DiskHealth, all_disks};
use super::trace::Lines;
use super::volume::all_volumes;
use crate::context::Api;
use crate::events::{EventKind, Wanted};
use crate::interval::{History, Sample, Window};
use crate::limits::{EVENT_CLIENT_NAME_BYTES_MAX, EVENT_CLIENTS_MAX, PROMISE_SAMPLE};
use crate::problem::Problem;
use crate::promises::Sampled;

/// The interval of frames.
const SECOND: Duration = Duration::from_secs(1);

/// The events that a client wants.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// The client's name, for messages about it: 1 to 64 printable characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Whether it wants a frame each second. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<bool>,
    /// Whether it wants what was kept of contracts: at first of the last hour, as `GET
    /// /v1/promises` has it, then every ten seconds of the minutes that have changed. Default:
    /// false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promises: Option<bool>,
    /// Whether frames have the shares of the intervals before. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<bool>,
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Server-sent events, until the client disconnects: changes of volumes, disks and the pool,
/// refusals, changes of the state of disks, the pool's alarm, missed deadlines, and a frame each
/// second.
#[utoipa::path(get, path = "/v1/events",
    params(EventQuery), responses(
    (status = 200, description = "Events `volume`, `change`, `refused`, `health`, `alarm`, \
                                  `missed`, `dropped`, `frame` and `promises`, each with JSON as \
                                  `data`. A client that does not read is disconnected",
     body = String, content_type = "text/event-stream"),
    (status = 409, description = "There are too many clients", body = Problem),
    (status = 422, description = "A parameter is invalid", body = Problem)))]
async fn events(
    State(api): State<Api>,
    query: Result<Query<EventQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(EventQuery { client, frames, promises, history }) = query.map_err(|error| {
        let given = Some(error.body_text());
        let accepted = "`client`, `frames`, `promises`, `history` or nothing".to_owned();
        Problem::invalid("query", given, accepted)
    })?;
    let client = client.unwrap_or_else(|| "unnamed".to_owned());
    let is_short = (1..=EVENT_CLIENT_NAME_BYTES_MAX).contains(&client.len());
    if !is_short || !client.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        let accepted = format!("1 to {EVENT_CLIENT_NAME_BYTES_MAX} printable characters");
        return Err(Problem::invalid("client", Some(client), accepted));
    }
    let wanted = Wanted {
        frames: frames.unwrap_or(true),
        promises: promises.unwrap_or(false),
        history: history.unwrap_or(true),
    };
    let first = wanted.promises.then(|| kept_since(&api, 0));
    let (from, begins) = api.events.join(&client, wanted, first).ok_or_else(|| {
        let message = format!("there are {EVENT_CLIENTS_MAX} clients already: expected fewer");
        Problem::new(StatusCode::CONFLICT, "in_use", message)
    })?;
    if begins {
        tokio::spawn(watch(api));
    }
    let content_type = (header::CONTENT_TYPE, "text/event-stream");
    let fresh = (header::CACHE_CONTROL, "no-store");
    Ok(([content_type, fresh], Body::new(Lines(from))).into_response())
}

/// What of a pool events are about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PoolHealth {
    alarm: bool,
    /// The disks that are out or missing, by name, or by number if they have none here.
    out: Vec<String>,
    /// Whether each block of each mirror has all of its copies.
    is_redundant: bool,
}

impl From<PoolView> for PoolHealth {
    fn from(pool: PoolView) -> Self {
        let out = pool.disks.iter().filter(|disk| disk.state != PoolDiskState::In);
        let name = |disk: &PoolDiskView| disk.name.clone().unwrap_or(disk.number.to_string());
        let is_whole = pool.volumes.iter().all(|volume| volume.degraded.0 == 0);
        Self {
            alarm: pool.alarm,
            out: out.map(name).collect(),
            is_redundant: is_whole && !pool.resync.is_verifying,
        }
    }
}

fn sample(operator: &Operator) -> (Sample, Option<PoolHealth>) {
    let sample = Sample { disks: all_disks(operator), volumes: all_volumes(operator) };
    (sample, operator.pool().map(PoolHealth::from))
}

/// Samples the daemon each second while there is a client.
async fn watch(api: Api) {
    let mut tick = tokio::time::interval(SECOND);
    let (mut watched, mut history) = (Watched::default(), None::<History>);
    loop {
        tick.tick().await;
        if !api.events.is_heard() {
            return;
        }
        let Ok((sample, pool)) = api.clone().work(|operator| sample(&operator)).await else {
            return;
        };
        let window = history.as_mut().map(|history| {
            history.add(sample.clone());
            history.interval()
        });
        for (kind, fields) in watched.look(&sample, pool, window.as_ref()) {
            api.events.publish(kind, fields);
        }
        match window {
            Some(window) => {
                if api.events.is_frame_wanted(true) {
                    api.events.publish_frame(true, window.fields());
                }
                if api.events.is_frame_wanted(false) {
                    api.events.publish_frame(false, window.fields_without_history());
                }
            }
            None => history = Some(History::new(sample)),
        }
    }
}

/// The event with what was kept of contracts from a minute on.
fn kept_since(api: &Api, minute: u64) -> (EventKind, Value) {
    (
        EventKind::Promises,
        json!({ "volumes": super::promises::kept_since(&api.promises(), minute) }),
    )
}

/// Samples what is kept of contracts, whether or not there is a client.
pub(crate) async fn remember(api: Api) {
    let mut tick = tokio::time::interval(PROMISE_SAMPLE);
    loop {
        tick.tick().await;
        let sampling = api.clone();
        let sampled = api.clone().work(move |operator| {
            let volumes = operator.accounts().volumes;
            let mut promises = sampling.promises();
            let before = promises.last();
            promises.add(volumes.iter().map(Sampled::from), operator.now());
            before
        });
        let Ok(before) = sampled.await else { return };
        if api.events.is_wanted(EventKind::Promises) {
            let (kind, fields) = kept_since(&api, before.unwrap_or(0));
            api.events.publish(kind, fields);
        }
    }
}

/// What the state of a daemon was, for events about its changes.
#[derive(Debug, Default)]
struct Watched {
    health: BTreeMap<String, DiskHealth>,
    pool: Option<PoolHealth>,
}

impl Watched {
    /// The events between the state before and this one. The first call returns none.
    fn look(
        &mut self,
        sample: &Sample,
        pool: Option<PoolHealth>,
        window: Option<&Window>,
    ) -> Vec<(EventKind, Value)> {
        let mut events = Vec::new();
        for disk in &sample.disks {
            let (name, health) = (disk.name.clone(), disk.health());
            let before = self.health.insert(name.clone(), health);
            if before.is_some_and(|before| before != health) {
                events.push((EventKind::Health, json!({ "disk": name, "health": health })));
            }
        }
        if let Some((before, now)) = self.pool.as_ref().zip(pool.as_ref()) {
            if before.alarm != now.alarm {
                events.push((EventKind::Alarm, json!({ "alarm": now.alarm })));
            }
            if (&before.out, before.is_redundant) != (&now.out, now.is_redundant) {
                let fields = json!({ "disks_out": now.out, "redundant": now.is_redundant });
                events.push((EventKind::Alarm, fields));
            }
        }
        self.pool = pool;
        for volume in window.into_iter().flat_map(|window| &window.volumes) {
            if let Some(missed) = volume.deadlines_missed.filter(|missed| *missed > 0) {
                let fields = json!({ "volume": volume.name, "missed": missed });
                events.push((EventKind::Missed, fields));
            }
        }
        events
    }
}

impl Api {
    /// Publishes that a change of a volume was made, or that it was refused.
    pub(crate) fn told<T>(
        &self,
        (change, volume): (&str, &str),
        result: Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.told_of(EventKind::Volume, json!({ "change": change, "volume": volume }), result)
    }

    /// Publishes that a change of a disk or of the pool was made, or that it was refused.
    pub(crate) fn told_of<T>(
        &self,
        kind: EventKind,
        mut fields: Value,
        result: Result<T, Problem>,
    ) -> Result<T, Problem> {
        match &result {
            Ok(_) => self.events.publish(kind, fields),
            Err(problem) if problem.error.code == "refused" => {
                fields["message"] = Value::String(problem.error.message.clone());
                self.events.publish(EventKind::Refused, fields);
            }
            Err(_) => {}
        }
        result
    }
}
