//! A bus that several drives share: what a drive transfers waits for what the others transfer.
//!
//! The model is that of a bus whose devices give it up between bursts, as SCSI-2 does after the
//! maximum burst size of its disconnect-reconnect page, and a hub or a port multiplier after each
//! packet. A transfer crosses in bursts of equal length. The bus is granted to the drive that asked
//! first, for one burst, and a drive asks for one burst at a time. Commands themselves take no time
//! on it: a drive's own model has their overhead.
//!
//! ```text
//! read   media ██████████████              each burst asks for the bus when it has left the media
//!        bus       ▓▓▓▓  ▓▓▓▓  ▓▓▓▓  done
//! write  bus   ▓▓▓▓  ▓▓▓▓  ▓▓▓▓            all ask at once; where the media need a burst before it
//!        media       ██████████████  done  has crossed, whole revolutions are lost
//! ```
//!
//! A drive with one command at a time is right to the nanosecond. With more, it goes on with the
//! next one when it would be done alone. Of a flash drive all bursts ask when the command is done.
//!
//! Invariants: the bus carries one burst at a time; no command completes before it would alone;
//! completion times do not decrease; the parts of each add up to its response time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use units::{Duration, Instant, Op, Operation, Sectors};

use crate::completion::{Done, Tag};

/// The speed of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusSpec {
    /// The time of one sector.
    pub sector: Duration,
    /// The most sectors of a burst, at least one.
    pub burst: Sectors,
}

/// A bus, of which each of its drives has a handle.
#[derive(Clone, Debug)]
pub struct SharedBus {
    spec: BusSpec,
    /// When it has carried all that was granted.
    free: Arc<Mutex<Instant>>,
}

impl SharedBus {
    /// An idle bus.
    ///
    /// # Panics
    /// If a burst has no sectors.
    pub fn new(spec: BusSpec) -> Self {
        assert!(spec.burst > Sectors::ZERO, "a burst carries something");
        Self { spec, free: Arc::default() }
    }

    /// Carries `len` sectors for a drive that asks at `at`; returns when they are there.
    fn carry(&self, at: Instant, len: Sectors) -> Instant {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = at.max(*free) + self.spec.sector * len.0;
        *free
    }
}

/// A transfer over the bus.
#[derive(Clone, Debug)]
struct Crossing {
    tag: Tag,
    len: Sectors,
    bursts: u64,
    /// When its bursts were or will be there, for those that were granted.
    arrivals: Vec<Instant>,
    /// When a burst has left the media; `None` for a write, whose data the host has.
    media: Option<Media>,
    /// The earliest time at which it asks for its first burst.
    from: Instant,
}

/// When the media have what they transfer.
#[derive(Clone, Copy, Debug)]
struct Media {
    end: Instant,
    length: Duration,
}

impl Media {
    fn of(done: &Done) -> Self {
        Self { end: done.at, length: done.parts.transfer }
    }

    /// When `bursts` of `all` were transferred.
    fn passed(&self, bursts: u64, all: u64) -> Instant {
        let rest = u128::from(self.length.as_nanos()) * u128::from(all - bursts) / u128::from(all);
        let rest = u64::try_from(rest).expect("a part of a transfer is shorter than all of it");
        self.end.saturating_sub(Duration::from_nanos(rest))
    }
}

impl Crossing {
    fn new(tag: Tag, len: Sectors, burst: Sectors) -> Self {
        let bursts = len.0.div_ceil(burst.0);
        Self { tag, len, bursts, arrivals: Vec::new(), media: None, from: Instant::ZERO }
    }

    fn granted(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// When it asks for its next burst.
    fn asks_at(&self) -> Instant {
        let media = self.media.map(|media| media.passed(self.granted() + 1, self.bursts));
        let before = self.arrivals.last().copied().unwrap_or(self.from);
        media.map_or(before, |passed| passed.max(before))
    }

    fn next_burst(&self) -> Sectors {
        let place =
            |burst: u64| u128::from(self.len.0) * u128::from(burst) / u128::from(self.bursts);
        let len = place(self.granted() + 1) - place(self.granted());
        Sectors(u64::try_from(len).expect("a burst is shorter than the transfer"))
    }

    fn is_granted(&self) -> bool {
        self.granted() == self.bursts
    }

    /// The completion of a write that the drive alone does at `done`, if a pass is repeated every
    /// `revolution`.
    fn written(&self, done: &Done, revolution: Option<Duration>) -> Instant {
        let media = Media::of(done);
        let late = (0_u64..)
            .zip(&self.arrivals)
            .map(|(burst, arrival)| arrival.saturating_since(media.passed(burst, self.bursts)));
        let late = late.max().unwrap_or_default();
        // What goes into the drive's buffer alone waits for no sector.
        let positioned = done.parts.seek + done.parts.rotation > Duration::ZERO;
        match revolution.filter(|_| positioned) {
            Some(turn) => done.at + turn * late.as_nanos().div_ceil(turn.as_nanos()),
            None => done.at + late,
        }
    }
}

/// One drive's access to a bus.
#[derive(Clone, Debug)]
pub struct BusPort {
    bus: SharedBus,
    /// The time of a revolution, of a drive that has one.
    revolution: Option<Duration>,
    /// Reads whose data has not begun to leave the media.
    reads: Vec<(Tag, Sectors)>,
    /// In the order in which they cross; the first one has the drive's port.
    crossings: VecDeque<Crossing>,
    /// Writes that have crossed, or will at their last arrival.
    crossed: Vec<Crossing>,
    /// Commands that the drive has done, and that wait for the bus.
    done: Vec<Done>,
    /// Commands whose completion is known, with what it would be alone.
    known: Vec<(Instant, Done)>,
    /// When the port has carried all that was granted.
    free: Instant,
    /// The last completion.
    completed: Instant,
}

impl BusPort {
    pub(crate) fn new(bus: SharedBus, revolution: Option<Duration>) -> Self {
        Self {
            bus,
            revolution,
            reads: Vec::new(),
            crossings: VecDeque::new(),
            crossed: Vec::new(),
            done: Vec::new(),
            known: Vec::new(),
            free: Instant::ZERO,
            completed: Instant::ZERO,
        }
    }

    /// A command is submitted at `now`.
    pub(crate) fn submitted(&mut self, now: Instant, tag: Tag, operation: &Operation) {
        let len = operation.extent.len;
        match operation.op {
            Op::Read if len > Sectors::ZERO => self.reads.push((tag, len)),
            Op::Write if len > Sectors::ZERO => {
                let mut crossing = Crossing::new(tag, len, self.bus.spec.burst);
                crossing.from = now;
                self.crossings.push_back(crossing);
            }
            Op::Read | Op::Write | Op::WriteZeroes | Op::Trim | Op::Flush | Op::Seek => {}
        }
    }

    /// The drive serves a command, and will do it as `done` says.
    pub(crate) fn in_service(&mut self, done: &Done) {
        let Some(index) = self.reads.iter().position(|(tag, _)| *tag == done.tag) else { return };
        let (tag, len) = self.reads.swap_remove(index);
        let mut crossing = Crossing::new(tag, len, self.bus.spec.burst);
        crossing.media = Some(Media::of(done));
        self.crossings.push_back(crossing);
    }

    /// The drive has done a command.
    pub(crate) fn device_done(&mut self, done: Done) {
        let at_once =
            Done { parts: crate::Parts { transfer: Duration::ZERO, ..done.parts }, ..done };
        self.in_service(&at_once);
        self.done.push(done);
    }

    /// Grants what was asked for until `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(first) = self.crossings.front_mut() {
            first.from = first.from.max(self.free);
            let at = first.asks_at();
            if at > now {
                break;
            }
            let arrival = self.bus.carry(at, first.next_burst());
            first.arrivals.push(arrival);
            self.free = arrival;
            if first.is_granted() {
                let crossing = self.crossings.pop_front().expect("it is the first");
                self.crossed.push(crossing);
            }
        }
        self.settle();
    }

    /// Finds the completions of commands that the drive has done and that have crossed.
    fn settle(&mut self) {
        let mut index = 0;
        while let Some(done) = self.done.get(index).copied() {
            let is_its = |crossing: &Crossing| crossing.tag == done.tag;
            if self.crossings.iter().any(is_its) {
                index += 1;
                continue;
            }
            self.done.remove(index);
            let crossed = self.crossed.iter().position(is_its);
            let crossed = crossed.map(|place| self.crossed.swap_remove(place));
            let at = crossed.map_or(done.at, |crossing| match crossing.media {
                Some(_) => *crossing.arrivals.last().expect("it has crossed"),
                None => crossing.written(&done, self.revolution),
            });
            self.known.push((at.max(done.at), done));
        }
    }

    /// The next instant at which something happens on the bus.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let asks = self.crossings.front().map(|first| {
            let from = first.from.max(self.free);
            Crossing { from, ..first.clone() }.asks_at()
        });
        let known = self.known.iter().map(|(at, _)| *at).min();
        asks.into_iter().chain(known).min()
    }

    /// Takes out a command that is done at `now`, if there is one.
    pub(crate) fn complete(&mut self, now: Instant) -> Option<Done> {
        let index = (0..self.known.len()).min_by_key(|index| self.known[*index].0)?;
        if self.known[index].0 > now {
            return None;
        }
        let (at, mut done) = self.known.remove(index);
        let at = at.max(self.completed);
        self.completed = at;
        done.parts.transfer += at.since(done.at);
        Some(Done { at, ..done })
    }
}
