//! The commands that wait inside the drive, and the choice of the next one.
//!
//! The choice is made when a command completes, among the commands that arrived before that
//! instant: it does not depend on when the caller asks, or whether the caller submits another
//! command before or after. Shortest positioning time first considers the current position of the
//! heads: a command that the buffers can serve costs nothing, any other costs its seek, head
//! switch, settling and rotation. A random read therefore starves beside a sequential stream that
//! is read ahead, which the age limit bounds.
//!
//! ```text
//! waiting  [simple] [simple] [ordered] [simple] [head of queue]
//! first                                          ^ whatever waits
//! then      ^--------^ the cheapest of these; the oldest if it is past the age limit
//! ```
//!
//! Invariants: the waiting are in the order in which they came. A simple command never overtakes
//! one that it shares sectors with, if either writes. No choice allocates.

use std::collections::VecDeque;

use units::{Angle, Duration, Extent, Instant, Op, Operation};

use crate::Model;
use crate::completion::Tag;
use crate::mechanism::Mechanism;
use crate::model::Move;
use crate::read_buffer::{Found, ReadBuffer};
use crate::spec::{Choosing, Discipline};
use crate::write_buffer::WriteBuffer;

/// The order of a command among the others: SCSI's task attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Wherever the drive likes.
    #[default]
    Simple,
    /// After all that came before it and before all that comes after it, but for those at the head.
    Ordered,
    /// Before all that waits; the last one that came goes first.
    HeadOfQueue,
}

/// A command that waits or is in service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) tag: Tag,
    pub(crate) operation: Operation,
    pub(crate) submitted: Instant,
    order: Order,
    target: Target,
}

/// Where a command's first sector lies: looked up once, when the command comes.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    cylinder: u32,
    surface: u32,
    angle: Angle,
}

impl Command {
    pub(crate) fn new(
        model: &Model,
        submitted: Instant,
        (tag, operation, order): (Tag, Operation, Order),
    ) -> Self {
        let moves = !operation.extent.is_empty() && model.discipline() != Discipline::Fifo;
        let target = if moves { Target::of(model, &operation) } else { Target::default() };
        // A flush is about all that was written before it, and waits for it.
        let flush = operation.op == Op::Flush && order == Order::Simple;
        let order = if flush { Order::Ordered } else { order };
        Self { tag, operation, submitted, order, target }
    }

    /// Whether the order of the two can be told from the data.
    fn conflicts(&self, other: &Self) -> bool {
        let changes = |op: Op| op.writes() || op == Op::Trim;
        (changes(self.operation.op) || changes(other.operation.op))
            && overlap(self.operation.extent, other.operation.extent)
    }
}

fn overlap(one: Extent, other: Extent) -> bool {
    one.start < other.end() && other.start < one.end()
}

impl Target {
    fn of(model: &Model, operation: &Operation) -> Self {
        let position = model.position(operation.extent.start);
        Self { cylinder: position.cylinder, surface: position.surface, angle: position.angle }
    }
}

/// The state on which a choice depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) model: &'a Model,
    pub(crate) mechanism: &'a Mechanism,
    pub(crate) reads: &'a ReadBuffer,
    pub(crate) writes: &'a WriteBuffer,
    /// The instant of the choice.
    pub(crate) at: Instant,
    pub(crate) electronics_free: Instant,
    pub(crate) after_write: bool,
    /// Until when the arm stays with the stream that served the last command.
    pub(crate) held_until: Instant,
    /// How many of the waiting are there to choose from: those that came first.
    pub(crate) known: usize,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The command at this place is served.
    Serve(usize),
    /// Nothing, unless something comes that memory can serve: there is another choice then.
    Hold(Instant),
}

/// The commands that wait.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Command>,
    /// How many of them belong at the head.
    at_head: usize,
    discipline: Discipline,
    /// 2⁻³² parts of a revolution in 2³² ns, rounded down: a choice divides by nothing.
    turn_rate: u64,
}

impl Queue {
    pub(crate) fn new(model: &Model) -> Self {
        let rate = (1_u128 << 64) / u128::from(model.period().as_nanos());
        Self {
            waiting: VecDeque::with_capacity(model.queue_depth_max() as usize),
            at_head: 0,
            discipline: model.discipline(),
            turn_rate: u64::try_from(rate).expect("a checked period is over a nanosecond"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Command> {
        self.waiting.iter()
    }

    /// When the one that waits longest came.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|command| command.submitted)
    }

    pub(crate) fn push(&mut self, command: Command) {
        debug_assert!(self.waiting.back().is_none_or(|last| last.submitted <= command.submitted));
        self.at_head += usize::from(command.order == Order::HeadOfQueue);
        self.waiting.push_back(command);
    }

    pub(crate) fn take(&mut self, place: usize) -> Command {
        let command = self.waiting.remove(place).expect("a choice is one of the waiting");
        self.at_head -= usize::from(command.order == Order::HeadOfQueue);
        command
    }

    /// How many of the waiting came before `at`.
    pub(crate) fn known(&self, at: Instant) -> usize {
        let later = self.waiting.iter().rev().take_while(|command| command.submitted >= at);
        self.waiting.len() - later.count()
    }

    /// When the command came that `known` others came before, if there is one.
    pub(crate) fn arrival(&self, known: usize) -> Option<Instant> {
        self.waiting.get(known).map(|command| command.submitted)
    }

    /// Which goes next.
    ///
    /// # Panics
    /// If nothing waits.
    pub(crate) fn choose(&self, scene: &Scene<'_>) -> Choice {
        let oldest = self.waiting.front().expect("a command waits");
        let at_head = |command: &Command| command.order == Order::HeadOfQueue;
        if self.at_head > 0
            && let Some(place) = self.waiting.range(..scene.known).rposition(at_head)
        {
            return Choice::Serve(place);
        }
        let Some(Choosing { age_limit, decision_latency, .. }) = self.discipline.choosing() else {
            return Choice::Serve(0);
        };
        let aged = oldest.submitted + age_limit;
        if oldest.order == Order::Ordered || aged <= scene.at {
            return Choice::Serve(0);
        }
        let (place, free) = self.cheapest(scene, decision_latency);
        // A command that finds the drive at rest is not kept waiting for others that may come.
        let waited = oldest.submitted < scene.at;
        if !free && waited && scene.at < scene.held_until && scene.reads.is_reading() {
            return Choice::Hold(scene.held_until.min(aged));
        }
        Choice::Serve(self.unblocked(place))
    }

    /// The first that memory can serve, else the one that the heads reach first; and which of the
    /// two it is.
    fn cheapest(&self, scene: &Scene<'_>, decision_latency: Duration) -> (usize, bool) {
        let heads = scene.mechanism.heads(scene.model.rotation(), scene.at);
        let angle = heads.angle - Self::angle(self.sweep(decision_latency));
        let blind = matches!(self.discipline, Discipline::ShortestSeek(_));
        let (mut best, mut best_cost) = (0, u64::MAX);
        for (place, command) in self.waiting.range(..scene.known).enumerate() {
            if command.order == Order::Ordered {
                break;
            }
            let begin = match scene.source(command) {
                Source::Memory => return (place, true),
                // It goes when a run of the buffer has been written: about a revolution, as the
                // nearest is.
                Source::Room => heads.at + scene.model.period(),
                Source::Media(overhead) => {
                    heads.at.max(command.submitted.max(scene.electronics_free) + overhead)
                }
            };
            let to = Move {
                distance: heads.cylinder.abs_diff(command.target.cylinder),
                head_differs: heads.surface != command.target.surface,
                write: command.operation.op.writes(),
            };
            let moved = self.sweep(begin.since(heads.at) + scene.model.movement(to));
            if moved >= best_cost {
                continue;
            }
            let settled = angle + Self::angle(moved);
            let angle = (command.target.angle - settled).0;
            let cost = moved + if blind { 0 } else { u64::from(angle) };
            if cost < best_cost {
                (best, best_cost) = (place, cost);
            }
        }
        (best, false)
    }

    /// How far the disk rotates in `time`, in 2⁻³² of a revolution; to within one of them in 4 s.
    fn sweep(&self, time: Duration) -> u64 {
        let product = u128::from(time.as_nanos()) * u128::from(self.turn_rate);
        u64::try_from(product >> 32).unwrap_or(u64::MAX)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the angle")]
    const fn angle(sweep: u64) -> Angle {
        Angle(sweep as u32)
    }

    /// The command at `place`, or the first that has to go before it.
    fn unblocked(&self, mut place: usize) -> usize {
        loop {
            let chosen = &self.waiting[place];
            let mut before = self.waiting.range(..place);
            let Some(first) = before.position(|other| other.conflicts(chosen)) else {
                return place;
            };
            place = first;
        }
    }
}

/// What a command waits for.
enum Source {
    /// For nothing but the electronics and the bus.
    Memory,
    /// For room in the write buffer.
    Room,
    /// For the heads, once the electronics have taken so long.
    Media(Duration),
}

impl Scene<'_> {
    fn source(&self, command: &Command) -> Source {
        let Operation { op, extent, fua } = command.operation;
        let overheads = || self.model.overheads(self.after_write);
        match op {
            Op::Read => {
                let held = !fua
                    && (self.writes.holds(extent, self.at)
                        || matches!(
                            self.reads.find(self.model, extent),
                            Found::All | Found::Arriving
                        ));
                if held { Source::Memory } else { Source::Media(overheads().read_miss) }
            }
            Op::Write | Op::WriteZeroes if fua || extent.len > self.writes.write_max() => {
                Source::Media(overheads().write_media)
            }
            Op::Write | Op::WriteZeroes if !self.writes.fits(extent, self.at) => Source::Room,
            Op::Seek => Source::Media(overheads().control),
            Op::Write | Op::WriteZeroes | Op::Flush | Op::Trim => Source::Memory,
        }
    }
}
