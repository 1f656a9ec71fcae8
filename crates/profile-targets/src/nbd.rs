//! An export of an NBD server, of this project or another.

use core::fmt;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::thread::JoinHandle;

use host::Clock;
use nbd::Address;
use nbd::client::{Client, ClientError, ClientExport, Receiver, Sender};
use percent_encoding::percent_decode_str;
use profiler::{Completion, Facts, Outcome, Tag, Target};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::timed_io::fill;

/// Requests in flight: most servers accept this number of one client.
const DEPTH: u32 = 16;
/// Transmission flags of the protocol ("Transmission flags"): flush, forced unit access.
const SEND_FLUSH: u16 = 1 << 2;
const SEND_FUA: u16 = 1 << 3;

/// The cookie of a block status request, which is no command of the profiler.
const STATUS_COOKIE: u64 = u64::MAX;

/// Why an export cannot be measured.
#[derive(Debug)]
pub enum NbdError {
    /// The text is no address of an export. Cure: as its message says.
    Uri(String),
    /// The server cannot be reached, or has no such export.
    Client(ClientError),
    /// Writing was requested, and the export is read-only.
    ReadOnly,
    /// The system has no more threads to receive replies with.
    Thread(std::io::Error),
}

impl fmt::Display for NbdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(found) => write!(
                f,
                "found `{found}`, expected nbd+unix:///EXPORT?socket=PATH or \
                 nbd://ADDRESS:PORT/EXPORT"
            ),
            Self::Client(error) => error.fmt(f),
            Self::ReadOnly => f.write_str("the export is read-only, expected no --write"),
            Self::Thread(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NbdError {}

impl From<ClientError> for NbdError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// A reply: the cookie, whether it succeeded, and when it arrived.
type Reply = (u64, bool, Instant);

/// An export of a server.
pub struct NbdTarget {
    facts: Facts,
    clock: Clock,
    sender: Sender,
    replies: mpsc::Receiver<Reply>,
    listener: Option<JoinHandle<()>>,
    outstanding: BTreeMap<u64, Instant>,
    /// Whether the server supports block status requests.
    supports_status: bool,
    /// Whether the connection is lost: the commands in flight have failed.
    broken: bool,
}

impl fmt::Debug for NbdTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NbdTarget").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// The server and the export name of a URI (NBD URI specification).
fn parse(uri: &str) -> Option<(Address, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
    if let Some(rest) = uri.strip_prefix("nbd+unix://") {
        let (path, query) = rest.split_once('?')?;
        let mut queries = query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, socket) = queries.find(|(key, _)| *key == "socket")?;
        let export = decoded(path.strip_prefix('/').unwrap_or(path))?;
        return Some((Address::Unix(decoded(socket)?.into()), export));
    }
    let rest = uri.strip_prefix("nbd://")?;
    let (server, export) = rest.split_once('/').unwrap_or((rest, ""));
    Some((Address::Tcp(server.parse().ok()?), decoded(export)?))
}

impl NbdTarget {
    /// Whether a device name is an NBD URI.
    pub fn is_named(name: &str) -> bool {
        name.starts_with("nbd+unix:") || name.starts_with("nbd:")
    }

    /// Connects to the export.
    ///
    /// # Errors
    /// See [`NbdError`].
    pub fn open(uri: &str, writable: bool) -> Result<Self, NbdError> {
        let (address, name) = parse(uri).ok_or_else(|| NbdError::Uri(uri.to_owned()))?;
        let mut client = Client::connect(&address)?;
        let supports_status = client.negotiate_block_status(&name)?;
        let export = client.go(&name)?;
        if writable && export.is_read_only() {
            return Err(NbdError::ReadOnly);
        }
        let facts = facts(&export, writable);
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let clock = Clock::start();
        let (sender, receiver) = client.split();
        let (sink, replies) = mpsc::channel();
        let listener = std::thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || listen(receiver, clock, &sink))
            .map_err(NbdError::Thread)?;
        let (listener, outstanding, broken) = (Some(listener), BTreeMap::new(), false);
        Ok(Self { facts, clock, sender, replies, listener, outstanding, supports_status, broken })
    }
}

fn facts(export: &ClientExport, writable: bool) -> Facts {
    let block = export.block_min.sectors_floor().max(Sectors(1));
    let has = |flag: u16| export.flags & flag != 0;
    Facts {
        sectors: Sectors(export.size.sectors_floor().0 / block.0 * block.0),
        block,
        writable,
        flushes: has(SEND_FLUSH),
        forces: has(SEND_FUA),
        seeks: false,
        depth_max: DEPTH,
    }
}

/// Receives replies until the connection ends.
fn listen(mut receiver: Receiver, clock: Clock, sink: &mpsc::Sender<Reply>) {
    let mut data = Vec::new();
    while let Ok((cookie, outcome)) = receiver.receive_into(&mut data) {
        if sink.send((cookie, outcome.is_ok(), clock.now())).is_err() {
            return;
        }
    }
}

impl Target for NbdTarget {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn wait_until(&mut self, at: Instant) {
        host::wait_until(self.clock, at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        assert!(operation.op != Op::Write || self.facts.writable, "writing was not allowed");
        assert!(self.outstanding.len() < DEPTH as usize, "the server's queue has room");
        let bytes = if operation.op == Op::Write { operation.extent.len.bytes_usize() } else { 0 };
        let mut data = vec![0; bytes];
        fill(&mut data);
        let now = self.clock.now();
        // A lost server sends no more replies; the completions report the failure.
        self.broken |= self.sender.send(tag.0, operation, &data).is_err();
        self.outstanding.insert(tag.0, now);
        now
    }

    fn complete(&mut self) -> Completion {
        let replies =
            if self.broken { self.replies.try_recv().ok() } else { self.replies.recv().ok() };
        let Some((cookie, done, completed)) = replies else {
            self.broken = true;
            let (cookie, submitted) =
                self.outstanding.pop_first().expect("something is outstanding");
            let (tag, completed) = (Tag(cookie), self.clock.now());
            return Completion { tag, submitted, completed, outcome: Outcome::Failed };
        };
        let submitted = self.outstanding.remove(&cookie).expect("the client knows its cookies");
        let outcome = if done { Outcome::Done } else { Outcome::Failed };
        Completion { tag: Tag(cookie), submitted, completed, outcome }
    }

    /// The server answers a block status request itself, without the disk.
    fn path(&mut self) -> Option<Duration> {
        assert!(self.outstanding.is_empty(), "nothing else is on its way");
        if !self.supports_status || self.broken {
            return None;
        }
        let asked = self.clock.now();
        let first = Extent::new(Lba(0), self.facts.block);
        self.broken |= self.sender.send_block_status(STATUS_COOKIE, first).is_err();
        let (cookie, done, at) = if self.broken { None } else { self.replies.recv().ok() }?;
        (done && cookie == STATUS_COOKIE).then(|| at.since(asked))
    }
}

impl Drop for NbdTarget {
    fn drop(&mut self) {
        // The listener ends when the server closes the connection, which it does after a
        // disconnect.
        let _ = self.sender.disconnect();
        let _ = self.sender.hang_up();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_a_server_and_an_export() {
        let found = parse("nbd+unix:///a%20b?socket=/run/x.sock").expect("a URI");
        assert_eq!(found, (Address::Unix("/run/x.sock".into()), "a b".to_owned()));
        let found = parse("nbd://127.0.0.1:10809/vol").expect("a URI");
        assert_eq!(found, (Address::Tcp("127.0.0.1:10809".parse().expect("one")), "vol".into()));
        for bad in ["nbd+unix:///x", "nbd://host", "/dev/sda", "nbd+unix:///x?sock=y"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
