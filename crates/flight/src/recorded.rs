//! An engine of which everything that it is told, and everything that it decides, can be recorded.

use core::ops::Deref;
use std::fmt;

use engine::{Action, Contract, Engine, Event, Priority, Refusal, VolumeId};
use units::{DiskTime, Duration, Instant};

use crate::block::Encoder;
use crate::entry::{Decision, Entry, Input};
use crate::header::Header;

/// An entry waits in memory for at most so long, as far as somebody comes by: what a process that
/// is killed takes with it.
const HELD_MAX: Duration = Duration::from_secs(1);

/// Where a record's bytes go. It does not wait.
pub trait RecordSink: fmt::Debug + Send {
    /// Takes what comes next.
    ///
    /// # Errors
    /// It takes nothing any more. A record with a gap could not be replayed, so that is its end.
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), SinkClosed>;
}

/// A sink takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkClosed;

/// An engine, and the record of it, if there is one.
///
/// What changes an engine goes through here; all else can be asked of it as of any. So nothing is
/// left out of a record.
#[derive(Debug)]
pub struct RecordedEngine {
    engine: Engine,
    record: Option<Record>,
}

#[derive(Debug)]
struct Record {
    encoder: Encoder,
    sink: Box<dyn RecordSink>,
}

impl Record {
    fn put(&mut self, at: Instant, entry: Entry) -> Result<(), SinkClosed> {
        let full = self.encoder.put(at, &entry);
        full.map_or(Ok(()), |block| self.sink.write(block))
    }
}

impl Deref for RecordedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl From<Engine> for RecordedEngine {
    fn from(engine: Engine) -> Self {
        Self { engine, record: None }
    }
}

impl RecordedEngine {
    /// An engine that begins with what `header` says, which is recorded.
    ///
    /// # Errors
    /// The sink takes nothing.
    ///
    /// # Panics
    /// If no engine can begin so.
    pub fn new(header: &Header, mut sink: Box<dyn RecordSink>) -> Result<Self, SinkClosed> {
        let engine = header.engine().expect("an engine can begin so");
        let (encoder, start) = Encoder::new(header);
        sink.write(start)?;
        Ok(Self { engine, record: Some(Record { encoder, sink }) })
    }

    /// Whether there is a record, and it goes on.
    pub fn records(&self) -> bool {
        self.record.is_some()
    }

    /// What is looked at is made up before the entry only where there is a record.
    fn note(&mut self, now: Instant, entry: impl FnOnce(&Engine) -> Entry) {
        if let Some(record) = &mut self.record
            && record.put(now, entry(&self.engine)).is_err()
        {
            self.record = None;
        }
    }

    /// As [`Engine::handle`].
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.note(now, |_| Entry::Input(Input::Event(event)));
        self.engine.handle(event, now);
    }

    /// As [`Engine::poll`].
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        let action = self.engine.poll(now);
        self.note(now, |engine| {
            Entry::Decision(
                action.map_or_else(|| Decision::Wait(engine.next_wakeup()), Decision::Act),
            )
        });
        action
    }

    /// As [`Engine::add_volume`].
    ///
    /// # Errors
    /// See there.
    pub fn add_volume(&mut self, contract: Contract, now: Instant) -> Result<VolumeId, Refusal> {
        let volume = self.engine.add_volume(contract, now)?;
        self.note(now, |_| Entry::Input(Input::AddVolume { contract, volume }));
        Ok(volume)
    }

    /// As [`Engine::prioritise`].
    pub fn set_priority(&mut self, volume: VolumeId, priority: Priority, now: Instant) {
        self.note(now, |_| Entry::Input(Input::SetPriority { volume, priority }));
        self.engine.set_priority(volume, priority);
    }

    /// As [`Engine::balance`].
    pub fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        self.note(now, |_| Entry::Input(Input::Balance { volume }));
        self.engine.balance(volume, now)
    }

    /// Gives out what has waited in memory for a second.
    pub fn keep(&mut self, now: Instant) {
        let old = |record: &Record| {
            record
                .encoder
                .waiting_since()
                .is_some_and(|since| now.saturating_since(since) >= HELD_MAX)
        };
        if let Some(record) = &mut self.record
            && old(record)
            && let Some(block) = record.encoder.flush()
            && record.sink.write(block).is_err()
        {
            self.record = None;
        }
    }

    /// Closes the record in order, if there is one.
    pub fn close(&mut self) {
        if let Some(Record { encoder, mut sink }) = self.record.take() {
            // A sink that takes nothing any more leaves a record that is open at its end, which
            // says so.
            let _ = sink.write(encoder.end());
        }
    }
}
