//! Events of a daemon, handed to the clients that read them: server-sent events.
//!
//! Publishing never waits. A client that has [`EVENTS_QUEUED_MAX`] events unread is disconnected,
//! and the others are told its name. While there is no client, no frame is made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use stats::SCHEMA;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::limits::{EVENT_CLIENTS_MAX, EVENTS_QUEUED_MAX};

/// What an event is about, as the stream names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A volume was created, changed, relocated, rolled back or removed, or a snapshot was taken.
    Volume,
    /// The pool or a disk was changed.
    Change,
    /// A change was refused by admission.
    Refused,
    /// The state of a disk has changed.
    Health,
    /// The use of the pool has reached its alarm level, or is below it again.
    Alarm,
    /// Deadlines of a stream or of a bounded latency were missed.
    Missed,
    /// A client was too slow, and was disconnected.
    Dropped,
    /// The last second, in the shape of `spindle top --json`.
    Frame,
    /// What was kept of contracts: at first of the last hour, then of the minutes that have
    /// changed.
    Promises,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Volume,
        Self::Change,
        Self::Refused,
        Self::Health,
        Self::Alarm,
        Self::Missed,
        Self::Dropped,
        Self::Frame,
        Self::Promises,
    ];

    /// As the stream writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Change => "change",
            Self::Refused => "refused",
            Self::Health => "health",
            Self::Alarm => "alarm",
            Self::Missed => "missed",
            Self::Dropped => "dropped",
            Self::Frame => "frame",
            Self::Promises => "promises",
        }
    }
}

/// The events that a client wants beside those of changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) frames: bool,
    pub(crate) promises: bool,
    /// Whether frames have the shares of the intervals before.
    pub(crate) history: bool,
}

impl Wanted {
    const fn has(self, kind: EventKind) -> bool {
        match kind {
            EventKind::Frame => self.frames,
            EventKind::Promises => self.promises,
            _ => true,
        }
    }
}

/// A client of the stream.
#[derive(Debug)]
struct Client {
    name: String,
    wanted: Wanted,
    to: Sender<Bytes>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of events so far, frames included.
    count: u64,
    clients: Vec<Client>,
    is_closed: bool,
    /// Whether a task samples the daemon.
    is_sampled: bool,
}

/// The clients of the stream. Clones are of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Mutex<State>>);

impl Events {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; after a panic the list would still be whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, which gets the first event before all others; `None` if there are too many.
    /// The flag says whether the daemon is to be sampled from now on.
    pub(crate) fn join(
        &self,
        name: &str,
        wanted: Wanted,
        first: Option<(EventKind, Value)>,
    ) -> Option<(Receiver<Bytes>, bool)> {
        let mut state = self.state();
        state.clients.retain(|client| !client.to.is_closed());
        if state.clients.len() >= EVENT_CLIENTS_MAX || state.is_closed {
            return None;
        }
        let (to, from) = channel(EVENTS_QUEUED_MAX);
        // A comment: it tells the client that the stream has begun.
        to.try_send(Bytes::from_static(b": events\n\n")).expect("the queue is empty");
        if let Some((kind, fields)) = first {
            to.try_send(state.text(kind, fields)).expect("the queue has room");
        }
        state.clients.push(Client { name: name.to_owned(), wanted, to });
        let begins = !core::mem::replace(&mut state.is_sampled, true);
        Some((from, begins))
    }

    /// Whether any client is there; if none is, the sampling ends.
    pub(crate) fn is_heard(&self) -> bool {
        let mut state = self.state();
        state.clients.retain(|client| !client.to.is_closed());
        state.is_sampled = !state.clients.is_empty() && !state.is_closed;
        state.is_sampled
    }

    /// Whether any client wants events of this kind.
    pub(crate) fn is_wanted(&self, kind: EventKind) -> bool {
        self.state().clients.iter().any(|client| client.wanted.has(kind))
    }

    /// Ends the stream for all clients.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.clients.clear();
    }

    /// Sends an event to every client that wants its kind.
    pub(crate) fn publish(&self, kind: EventKind, fields: Value) {
        self.publish_to(|wanted| wanted.has(kind), kind, fields);
    }

    fn publish_to(&self, is_for: impl Fn(&Wanted) -> bool, kind: EventKind, fields: Value) {
        let mut state = self.state();
        let mut slow = state.send(is_for, kind, fields);
        while let Some(name) = slow.pop() {
            eprintln!("events: client \"{name}\" is too slow, and was disconnected");
            slow.extend(state.send(|_| true, EventKind::Dropped, json!({ "client": name })));
        }
    }

    /// Whether any client wants frames with, or without, the shares of the intervals before.
    pub(crate) fn is_frame_wanted(&self, history: bool) -> bool {
        let wants = |client: &Client| client.wanted.frames && client.wanted.history == history;
        self.state().clients.iter().any(wants)
    }

    /// Sends a frame to the clients that want it with, or without, the intervals before.
    pub(crate) fn publish_frame(&self, history: bool, fields: Value) {
        let is_for = |wanted: &Wanted| wanted.frames && wanted.history == history;
        self.publish_to(is_for, EventKind::Frame, fields);
    }
}

impl State {
    /// The next event, as it is sent.
    fn text(&mut self, kind: EventKind, fields: Value) -> Bytes {
        self.count += 1;
        let mut data = Map::from_iter([("schema".to_owned(), json!(SCHEMA))]);
        if let Value::Object(fields) = fields {
            data.extend(fields);
        }
        let (id, event, data) = (self.count, kind.as_str(), Value::Object(data));
        Bytes::from(format!("id: {id}\nevent: {event}\ndata: {data}\n\n"))
    }

    /// Sends an event; returns the names of the clients that were too slow for it.
    fn send(
        &mut self,
        is_for: impl Fn(&Wanted) -> bool,
        kind: EventKind,
        fields: Value,
    ) -> Vec<String> {
        let text = self.text(kind, fields);
        let mut slow = Vec::new();
        self.clients.retain(|client| {
            if !is_for(&client.wanted) {
                return true;
            }
            match client.to.try_send(text.clone()) {
                Ok(()) => true,
                Err(TrySendError::Closed(_)) => false,
                Err(TrySendError::Full(_)) => {
                    slow.push(client.name.clone());
                    false
                }
            }
        });
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: Wanted = Wanted { frames: false, promises: false, history: true };
    const FRAMES: Wanted = Wanted { frames: true, promises: false, history: true };

    fn text(from: &mut Receiver<Bytes>) -> String {
        let mut all = String::new();
        while let Ok(bytes) = from.try_recv() {
            all += &String::from_utf8_lossy(&bytes);
        }
        all
    }

    #[test]
    fn a_client_that_does_not_read_is_dropped_by_name_and_the_others_go_on() {
        let events = Events::default();
        let (mut slow, begins) = events.join("slow", FRAMES, None).expect("there is room");
        let (mut quick, again) = events.join("quick", FRAMES, None).expect("there is room");
        assert_eq!((begins, again), (true, false), "one task samples");
        for n in 0..EVENTS_QUEUED_MAX {
            events.publish(EventKind::Change, json!({ "n": n }));
            text(&mut quick);
        }
        let last = EVENTS_QUEUED_MAX - 2;
        let unread = text(&mut slow);
        assert!(unread.contains(&format!("\"n\":{last}")), "what was sent is there");
        assert!(slow.try_recv().is_err() && slow.is_closed(), "the stream has ended");
        events.publish(EventKind::Change, json!({ "n": "last" }));
        assert!(text(&mut quick).contains("last"));
        assert!(events.is_heard());
        drop(quick);
        assert!(!events.is_heard(), "nothing is sampled without clients");
    }

    #[test]
    fn a_client_gets_its_first_event_before_all_others_and_only_the_kinds_it_wants() {
        let events = Events::default();
        let promises = Wanted { frames: false, promises: true, history: true };
        let first = Some((EventKind::Promises, json!({ "n": 1 })));
        let (mut both, _) = events.join("both", promises, first).expect("there is room");
        let (mut frames, _) = events.join("frames", FRAMES, None).expect("there is room");
        for kind in [EventKind::Frame, EventKind::Promises, EventKind::Change] {
            events.publish(kind, json!({ "n": 2 }));
        }
        let kinds = |text: String| -> Vec<String> {
            let lines = text.lines().map(str::to_owned);
            lines.filter_map(|line| line.strip_prefix("event: ").map(str::to_owned)).collect()
        };
        let heard = text(&mut both);
        assert!(
            heard.starts_with(": events\n\nid: 1\nevent: promises\ndata: {\"n\":1,"),
            "{heard}"
        );
        assert_eq!(kinds(heard), ["promises", "promises", "change"]);
        assert_eq!(kinds(text(&mut frames)), ["frame", "change"]);
    }

    #[test]
    fn a_frame_has_the_intervals_before_for_those_alone_that_want_them() {
        let events = Events::default();
        let (mut with, _) = events.join("with", FRAMES, None).expect("there is room");
        let latest = Wanted { history: false, ..FRAMES };
        let (mut without, _) = events.join("without", latest, None).expect("there is room");
        assert!(events.is_frame_wanted(true) && events.is_frame_wanted(false));
        events.publish_frame(true, json!({ "n": "with" }));
        events.publish_frame(false, json!({ "n": "without" }));
        let (all, latest) = (text(&mut with), text(&mut without));
        assert!(all.contains("\"with\"") && !all.contains("\"without\""), "{all}");
        assert!(latest.contains("\"without\"") && !latest.contains("\"with\""), "{latest}");
        drop(without);
        assert!(events.is_heard() && !events.is_frame_wanted(false));
    }

    #[test]
    fn the_others_are_told_who_was_dropped() {
        let events = Events::default();
        let (slow, _) = events.join("slow", CHANGES, None).expect("there is room");
        let mut heard = String::new();
        let (mut quick, _) = events.join("quick", CHANGES, None).expect("there is room");
        for _ in 0..EVENTS_QUEUED_MAX {
            events.publish(EventKind::Volume, json!({ "volume": "a" }));
            heard += &text(&mut quick);
        }
        drop(slow);
        assert!(
            heard.contains("event: dropped\ndata: {\"client\":\"slow\",\"schema\":"),
            "{heard}"
        );
    }

    #[test]
    fn the_number_of_clients_is_bounded_and_a_closed_stream_takes_none() {
        let events = Events::default();
        let all: Vec<_> =
            (0..EVENT_CLIENTS_MAX).filter_map(|_| events.join("one", CHANGES, None)).collect();
        assert_eq!(
            (all.len(), events.join("one", CHANGES, None).is_none()),
            (EVENT_CLIENTS_MAX, true)
        );
        drop(all);
        assert!(events.join("one", CHANGES, None).is_some());
        events.close();
        assert!(events.join("one", CHANGES, None).is_none());
    }
}
