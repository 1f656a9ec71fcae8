//! The API's client: one request over the daemon's Unix socket, for the command line.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::limits::ANSWER_BYTES_MAX;
use crate::resources::events::EventQuery;
use crate::resources::trace::{LiveQuery, Splitter};

/// The characters of a name that are escaped in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A client of one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// A daemon's reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

/// Why there was no reply.
#[derive(Debug)]
pub enum ClientError {
    /// No process listens there. Remedy: start a daemon, or name its socket.
    Unreachable(PathBuf, io::Error),
    /// The reply was incomplete, or was not one of this API.
    Broken(PathBuf, String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(path, error) => {
                let path = path.display();
                write!(f, "socket: found `{path}`, expected the API's socket of a daemon ({error})")
            }
            Self::Broken(path, why) => write!(f, "{}: no answer: {why}", path.display()),
        }
    }
}

impl std::error::Error for ClientError {}

/// A name as part of a path.
fn escaped(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

impl Client {
    /// The daemon whose API listens on this socket.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Reads `/v1/{of}`, or its element `name`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&self, of: &str, name: Option<&str>) -> Result<Answer, ClientError> {
        let path = name.map_or(format!("/v1/{of}"), |name| format!("/v1/{of}/{}", escaped(name)));
        self.ask(Method::GET, &path, Bytes::new())
    }

    /// Posts to `/v1/{to}`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn post(&self, to: &str, body: &impl Serialize) -> Result<Answer, ClientError> {
        self.ask(Method::POST, &format!("/v1/{to}"), json(body))
    }

    /// Changes `/v1/{of}/{name}`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn patch(
        &self,
        of: &str,
        name: &str,
        body: &impl Serialize,
    ) -> Result<Answer, ClientError> {
        self.ask(Method::PATCH, &format!("/v1/{of}/{}", escaped(name)), json(body))
    }

    /// Changes `/v1/{what}`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn change(&self, what: &str, body: &impl Serialize) -> Result<Answer, ClientError> {
        self.ask(Method::PATCH, &format!("/v1/{what}"), json(body))
    }

    /// Reopens a disk.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn reopen(&self, disk: &str) -> Result<Answer, ClientError> {
        self.ask(Method::POST, &format!("/v1/disks/{}/reopen", escaped(disk)), Bytes::new())
    }

    /// Gives the place of a disk of the pool to another one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn replace(&self, disk: &str, by: &impl Serialize) -> Result<Answer, ClientError> {
        let path = format!("/v1/pool/disks/{}/replace", escaped(disk));
        self.ask(Method::POST, &path, json(by))
    }

    /// Posts to `/v1/volumes/{name}/{to}`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn have(&self, name: &str, to: &str, body: &impl Serialize) -> Result<Answer, ClientError> {
        let path = format!("/v1/volumes/{}/{to}", escaped(name));
        self.ask(Method::POST, &path, json(body))
    }

    /// Removes an element of `/v1/{of}`, with `force` if the route has that parameter.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn delete(&self, of: &str, name: &str, force: Option<bool>) -> Result<Answer, ClientError> {
        let force = force.map_or_else(String::new, |force| format!("?force={force}"));
        let path = format!("/v1/{of}/{}{force}", escaped(name));
        self.ask(Method::DELETE, &path, Bytes::new())
    }

    /// Reads `/metrics`.
    ///
    /// # Errors
    /// See [`ClientError`]; also if the daemon has no metrics.
    pub fn metrics(&self) -> Result<String, ClientError> {
        let broken = |why: String| ClientError::Broken(self.socket.clone(), why);
        let (status, body) = self.fetch(Method::GET, "/metrics", Bytes::new())?;
        if status != 200 {
            return Err(broken(format!("/metrics gives {status}")));
        }
        String::from_utf8(body.to_vec()).map_err(|error| broken(error.to_string()))
    }

    /// Sends any request, and waits for its reply.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, ClientError> {
        let (status, body) = self.fetch(method, path, body)?;
        let body = match &body[..] {
            [] => Ok(Value::Null),
            body => serde_json::from_slice(body),
        };
        let body =
            body.map_err(|error| ClientError::Broken(self.socket.clone(), error.to_string()))?;
        Ok(Answer { status, body })
    }

    /// Calls `each` for every line of `/v1/trace`, and with `None` after every `pause` without one,
    /// until `each` breaks or the daemon stops. Returns the reply if the daemon refuses the trace.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn trace(
        &self,
        query: &LiveQuery,
        pause: Duration,
        each: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<Option<Answer>, ClientError> {
        self.listen_to(&live_path(query), pause, each)
    }

    /// Calls `each` for every line of `/v1/events`, as [`Client::trace`] does.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn events(
        &self,
        query: &EventQuery,
        pause: Duration,
        each: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<Option<Answer>, ClientError> {
        let EventQuery { client, frames, promises, history } = query;
        let client = client.as_ref().map(|client| format!("client={}", escaped(client)));
        let frames = frames.map(|frames| format!("frames={frames}"));
        let promises = promises.map(|promises| format!("promises={promises}"));
        let history = history.map(|history| format!("history={history}"));
        let parts: Vec<String> =
            [client, frames, promises, history].into_iter().flatten().collect();
        self.listen_to(&format!("/v1/events?{}", parts.join("&")), pause, each)
    }

    fn listen_to(
        &self,
        path: &str,
        pause: Duration,
        each: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<Option<Answer>, ClientError> {
        let unreachable = |error| ClientError::Unreachable(self.socket.clone(), error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(unreachable)?.block_on(async {
            let stream = UnixStream::connect(&self.socket).await.map_err(unreachable)?;
            let ended = listen(stream, path, pause, each).await;
            ended.map_err(|why| ClientError::Broken(self.socket.clone(), why))
        })
    }

    fn fetch(&self, method: Method, path: &str, body: Bytes) -> Result<(u16, Bytes), ClientError> {
        let unreachable = |error| ClientError::Unreachable(self.socket.clone(), error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(unreachable)?.block_on(async {
            let stream = UnixStream::connect(&self.socket).await.map_err(unreachable)?;
            let asked = exchange(stream, method, path, body).await;
            asked.map_err(|why| ClientError::Broken(self.socket.clone(), why))
        })
    }
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("the API's shapes are JSON").into()
}

fn live_path(query: &LiveQuery) -> String {
    let LiveQuery { volume, every, at_least } = query;
    let volume = volume.as_ref().map(|volume| format!("volume={}", escaped(volume)));
    let every = every.map(|every| format!("every={every}"));
    let at_least = at_least.as_ref().map(|time| format!("at_least={}", escaped(time)));
    let parts: Vec<String> = [volume, every, at_least].into_iter().flatten().collect();
    format!("/v1/trace?{}", parts.join("&"))
}

async fn listen(
    stream: UnixStream,
    path: &str,
    pause: Duration,
    mut each: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
) -> Result<Option<Answer>, String> {
    let to_text = |error: hyper::Error| error.to_string();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(to_text)?;
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, "spindle").body(Full::new(Bytes::new()));
    let request = request.map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(to_text)?;
    let status = response.status().as_u16();
    if status != 200 {
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let body = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        return Ok(Some(Answer { status, body }));
    }
    let (mut body, mut splitter) = (response.into_body(), Splitter::default());
    loop {
        let flow = match tokio::time::timeout(pause, body.frame()).await {
            Err(_) => each(None),
            Ok(None) => break,
            Ok(Some(frame)) => match frame.map_err(to_text)?.data_ref() {
                Some(chunk) => splitter.split(chunk, |line| each(Some(line))),
                None => ControlFlow::Continue(()),
            },
        };
        if flow.is_break() {
            break;
        }
    }
    connection.abort();
    Ok(None)
}

async fn exchange(
    stream: UnixStream,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<(u16, Bytes), String> {
    let to_text = |error: hyper::Error| error.to_string();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(to_text)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "spindle")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(to_text)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    connection.abort();
    Ok((status, body))
}
