//! `/v1/trace`: finished requests as they are answered, one JSON object per line, for as long as
//! the client reads.
//!
//! A thread for each client waits for requests and hands lines over. It ends within [`LIVE_PAUSE`]
//! of the client's disconnection. Requests that a client does not read in time are dropped, and the
//! next line has their number.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use daemon::{Filter, Operator, SUBSCRIBERS_MAX, Subscriber};
use hyper::body::{Bytes, Frame};
use serde::{Deserialize, Serialize};
use stats::{DroppedReport, SCHEMA};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use units::Duration;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::context::{Api, Closing};
use crate::limits::{LIVE_CHUNKS_MAX, LIVE_EVERY_MAX, LIVE_PAUSE};
use crate::problem::Problem;

/// The requests that a client wants.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LiveQuery {
    /// Those of this volume only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// One in this many, from 1 to 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// Those that took at least this time, such as `5ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

impl LiveQuery {
    /// The daemon's filter for this query.
    fn filter(&self, operator: &Operator) -> Result<Filter, Problem> {
        let every = self.every.unwrap_or(1);
        if !(1..=LIVE_EVERY_MAX).contains(&every) {
            let accepted = format!("a number from 1 to {LIVE_EVERY_MAX}");
            return Err(Problem::invalid("every", Some(every.to_string()), accepted));
        }
        let at_least = self.at_least.as_ref().map_or(Ok(Duration::ZERO), |text| {
            let accepted = "a time such as 5ms".to_owned();
            text.parse().map_err(|_| Problem::invalid("at_least", Some(text.clone()), accepted))
        })?;
        let volume = self.volume.as_ref().map(|name| {
            operator.export(name).ok_or_else(|| {
                let message = format!("there is no volume \"{name}\"");
                Problem::new(StatusCode::NOT_FOUND, "missing", message)
            })
        });
        Ok(Filter { volume: volume.transpose()?, at_least, every, per_second_max: None })
    }
}

/// A body that ends when its sender is dropped.
pub(super) struct Lines(pub(super) Receiver<Bytes>);

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|lines| lines.map(|lines| Ok(Frame::data(lines))))
    }
}

pub(crate) fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(trace))
}

/// Finished requests as they are answered, each with where its time went, until the client
/// disconnects.
#[utoipa::path(get, path = "/v1/trace",
    params(LiveQuery), responses(
    (status = 200, description = "A line of JSON for each: `breakdown_ns` adds up to `total_ns`; \
                                  and one with `dropped` where the client was too slow. Empty \
                                  lines mean nothing",
     body = String, content_type = "application/x-ndjson"),
    (status = 404, description = "There is no such volume", body = Problem),
    (status = 409, description = "There are too many live traces", body = Problem),
    (status = 422, description = "A parameter is invalid", body = Problem)))]
async fn trace(
    State(api): State<Api>,
    query: Result<Query<LiveQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| {
        let given = Some(error.body_text());
        Problem::invalid("query", given, "`volume`, `every`, `at_least` or nothing".to_owned())
    })?;
    begin(api.operator, &query, api.closing)
}

/// Starts a trace.
fn begin(operator: Operator, query: &LiveQuery, closing: Closing) -> Result<Response, Problem> {
    let filter = query.filter(&operator)?;
    let subscriber = operator.subscribe(filter).ok_or_else(|| {
        let message = format!("there are {SUBSCRIBERS_MAX} live traces already: expected fewer");
        Problem::new(StatusCode::CONFLICT, "in_use", message)
    })?;
    let (to, from) = channel(LIVE_CHUNKS_MAX);
    tokio::task::spawn_blocking(move || send(&operator, &subscriber, &to, &closing));
    let content_type = (header::CONTENT_TYPE, "application/x-ndjson");
    Ok(([content_type], Body::new(Lines(from))).into_response())
}

/// Hands lines over until the client is gone.
fn send(operator: &Operator, subscriber: &Subscriber, to: &Sender<Bytes>, closing: &Closing) {
    // Empty lines mean nothing; the first one tells the client that the trace has started.
    let mut sent = to.blocking_send(Bytes::from_static(b"\n"));
    while sent.is_ok() && !to.is_closed() && !closing.is_closed() {
        let batch = subscriber.next(LIVE_PAUSE);
        let mut lines = Vec::new();
        for traced in &batch.requests {
            put(&mut lines, &operator.report(traced));
        }
        if batch.dropped > 0 {
            put(&mut lines, &DroppedReport { schema: SCHEMA, dropped: batch.dropped });
        }
        if !lines.is_empty() {
            sent = to.blocking_send(lines.into());
        }
    }
}

fn put(lines: &mut Vec<u8>, report: &impl Serialize) {
    serde_json::to_writer(&mut *lines, report).expect("the API's shapes are JSON");
    lines.push(b'\n');
}

/// Splits chunks into lines.
#[derive(Debug, Default)]
pub(crate) struct Splitter(Vec<u8>);

impl Splitter {
    /// Calls `each` for every non-empty line that ends in `chunk`.
    pub(crate) fn split(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut parts = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.0.extend_from_slice(part);
            if parts.peek().is_none() {
                break;
            }
            let line = core::mem::take(&mut self.0);
            if !line.is_empty() {
                each(&line)?;
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_chunks_are_cut() {
        let text = b"\n{\"a\":1}\n\n{\"b\":2}\nrest";
        for size in 1..text.len() {
            let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
            for chunk in text.chunks(size) {
                let whole = splitter.split(chunk, |line| {
                    lines.push(String::from_utf8_lossy(line).into_owned());
                    ControlFlow::Continue(())
                });
                assert!(whole.is_continue());
            }
            assert_eq!(lines, ["{\"a\":1}", "{\"b\":2}"], "in chunks of {size}");
        }
    }
}
