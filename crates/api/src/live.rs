//! `/v1/trace`: finished requests as they are answered, one JSON object a line, for as long as the client reads.
//!
//! A thread beside the sockets' waits for requests and hands lines over; who goes takes its thread with it within
//! [`LIVE_PAUSE`]. What a client does not read in time is dropped, and the next line says how much.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use daemon::{Filter, Operator, SUBSCRIBERS_MAX, Subscriber};
use hyper::body::{Bytes, Frame};
use serde::{Deserialize, Serialize};
use stats::{DroppedReport, SCHEMA};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use units::Duration;
use utoipa::IntoParams;

use crate::limits::{LIVE_CHUNKS_MAX, LIVE_EVERY_MAX, LIVE_PAUSE};
use crate::problem::Problem;

/// Which requests are wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LiveQuery {
    /// Those of this volume alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// One in so many, from 1 to 1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// Those that took at least so long, such as `5ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

impl LiveQuery {
    /// As the daemon takes it.
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

/// Told to those who look on that it is time to go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing(Arc<AtomicBool>);

impl Closing {
    pub(crate) fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body that ends when its sender does.
struct Lines(Receiver<Bytes>);

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

/// Begins to tell.
pub(crate) fn begin(
    operator: Operator,
    query: &LiveQuery,
    closing: Closing,
) -> Result<Response, Problem> {
    let filter = query.filter(&operator)?;
    let watcher = operator.subscribe(filter).ok_or_else(|| {
        let message = format!("there are {SUBSCRIBERS_MAX} who look on already: expected fewer");
        Problem::new(StatusCode::CONFLICT, "in_use", message)
    })?;
    let (to, from) = channel(LIVE_CHUNKS_MAX);
    tokio::task::spawn_blocking(move || tell(&operator, &watcher, &to, &closing));
    let content_type = (header::CONTENT_TYPE, "application/x-ndjson");
    Ok(([content_type], Body::new(Lines(from))).into_response())
}

/// Hands lines over until nobody wants them.
fn tell(operator: &Operator, watcher: &Subscriber, to: &Sender<Bytes>, closing: &Closing) {
    // Empty lines mean nothing, and tell a client that it has been let in.
    let mut sent = to.blocking_send(Bytes::from_static(b"\n"));
    while sent.is_ok() && !to.is_closed() && !closing.is_closed() {
        let told = watcher.next(LIVE_PAUSE);
        let mut lines = Vec::new();
        for traced in &told.requests {
            put(&mut lines, &operator.report(traced));
        }
        if told.dropped > 0 {
            put(&mut lines, &DroppedReport { schema: SCHEMA, dropped: told.dropped });
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

/// Lines out of the chunks that they come in.
#[derive(Debug, Default)]
pub(crate) struct Splitter(Vec<u8>);

impl Splitter {
    /// Gives the lines that end in `chunk` to `each`; empty ones mean nothing.
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
    fn lines_come_whole_wherever_the_chunks_are_cut() {
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
