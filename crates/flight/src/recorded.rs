//! An engine whose inputs and decisions can be recorded.

use core::ops::Deref;
use std::fmt;

use engine::{Action, Contract, Engine, Event, Priority, Refusal, VolumeId};
use units::{DiskTime, Duration, Instant};

use crate::block::Encoder;
use crate::entry::{Decision, Entry, Input};
use crate::header::Header;

/// The longest time that an entry waits in memory while the engine is driven: the loss if the
/// process is killed.
const HELD_MAX: Duration = Duration::from_secs(1);

/// The destination of a record's bytes. Must not block.
pub trait RecordSink: fmt::Debug + Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// The sink is closed. A record with a gap could not be replayed, so the record ends.
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), SinkClosed>;
}

/// A record's sink accepts no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkClosed;

/// An engine, and its record, if there is one.
///
/// All mutation of the engine goes through this type, so that the record is complete; everything
/// else can be read through `Deref`.
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
    /// An engine with the initial state of `header`, which is recorded.
    ///
    /// # Errors
    /// The sink is closed.
    ///
    /// # Panics
    /// If the header is invalid.
    pub fn new(header: &Header, mut sink: Box<dyn RecordSink>) -> Result<Self, SinkClosed> {
        let engine = header.engine().expect("an engine can begin so");
        let (encoder, start) = Encoder::new(header);
        sink.write(start)?;
        Ok(Self { engine, record: Some(Record { encoder, sink }) })
    }

    /// Whether a record is being written.
    pub fn records(&self) -> bool {
        self.record.is_some()
    }

    /// Writes an entry, which is computed only if there is a record.
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

    /// As [`Engine::set_priority`].
    pub fn set_priority(&mut self, volume: VolumeId, priority: Priority, now: Instant) {
        self.note(now, |_| Entry::Input(Input::SetPriority { volume, priority }));
        self.engine.set_priority(volume, priority);
    }

    /// As [`Engine::balance`].
    pub fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        self.note(now, |_| Entry::Input(Input::Balance { volume }));
        self.engine.balance(volume, now)
    }

    /// Writes out entries that have waited in memory for a second.
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

    /// Closes the record, if there is one.
    pub fn close(&mut self) {
        if let Some(Record { encoder, mut sink }) = self.record.take() {
            // If the sink is closed, the record stays open at its end, which the reader reports.
            let _ = sink.write(encoder.end());
        }
    }
}
