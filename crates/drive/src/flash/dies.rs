//! The dies and their channels: reads wait for them, programs and erases keep them.
//!
//! ```text
//!        ┌─────────── read ────▶ Sense ──▶ Send (over the channel) ──┐
//! Rest ──┤                                                           ├──▶ Rest
//!        └─ unit, collect, erase ▶ Work ──────────────────────────────┤
//!                                   └─ a read comes ─▶ Suspending ────┘ the rest is kept
//! ```
//!
//! Invariant: a die does one thing at a time, and a channel carries for one die at a time.

use std::collections::VecDeque;

use units::{Duration, Instant, Sectors};

use super::event_queue::{EventKind, EventQueue};
use super::model::FlashModel;
use super::pieces::{DieId, List, Op, OpId, Ops, Owner, Stripe};
use super::spec::Suspend;
use super::write_buffer::{Closed, UnitId};

/// The work that makes reads of a die wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Unit(UnitId),
    /// A program of garbage collection.
    Collect,
    Erase,
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Rest,
    Sense(OpId),
    Send(OpId),
    Work { work: Work, begins: Instant, ends: Instant, suspended: u32 },
    Suspending(Kept),
}

/// Work that was suspended.
#[derive(Clone, Copy, Debug)]
struct Kept {
    work: Work,
    left: Duration,
    suspended: u32,
}

#[derive(Clone, Debug)]
struct Die {
    doing: Doing,
    /// Counts the operations of the cells: an event of an earlier operation is ignored.
    generation: u32,
    reads: List,
    units: VecDeque<Closed>,
    kept: Option<Kept>,
    /// Programs that garbage collection is owed before the next unit.
    collect: u32,
    /// Programs since the last erase.
    programs: u32,
    /// Reads that went before work that waits.
    passed: u32,
}

/// The effect of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Nothing,
    /// A unit is in the cells.
    Programmed(UnitId),
}

#[derive(Clone, Debug)]
pub(super) struct Dies {
    all: Vec<Die>,
    /// When each channel is free.
    channels: Vec<Instant>,
    /// The die that the next unit goes to.
    next: u32,
    pub(super) ops: Ops,
}

impl Dies {
    pub(super) fn new(model: &FlashModel) -> Self {
        let die = Die {
            doing: Doing::Rest,
            generation: 0,
            reads: List::default(),
            units: VecDeque::with_capacity(4),
            kept: None,
            collect: 0,
            programs: 0,
            passed: 0,
        };
        let channels = model.spec().nand.channels as usize;
        Self {
            all: vec![die; model.dies() as usize],
            channels: vec![Instant::ZERO; channels],
            next: 0,
            ops: Ops::new(model.queue_depth_max() as usize + channels),
        }
    }

    /// Where a stripe lies: stripes go round the dies.
    pub(super) fn die_of(&self, stripe: Stripe) -> DieId {
        let die = stripe.0 % self.all.len() as u64;
        DieId(u32::try_from(die).expect("one of the dies"))
    }

    /// Queues a piece of a read on its die.
    pub(super) fn read(
        &mut self,
        model: &FlashModel,
        events: &mut EventQueue,
        (now, at, op): (Instant, DieId, OpId),
    ) {
        let die = &mut self.all[at.0 as usize];
        self.ops.append(&mut die.reads, op);
        match die.doing {
            Doing::Rest => self.go_on(model, events, (now, at)),
            Doing::Work { work, begins, ends, suspended } => {
                let Some(Suspend { enter, count_max, .. }) = model.spec().nand.suspend else {
                    return;
                };
                let stops = begins.max(now) + enter;
                if suspended < count_max && stops < ends {
                    let left = ends.since(stops);
                    die.doing = Doing::Suspending(Kept { work, left, suspended: suspended + 1 });
                    die.generation = die.generation.wrapping_add(1);
                    let least = Some(model.sensed_least);
                    events.enter(stops, EventKind::Array(at, die.generation), least);
                }
            }
            Doing::Sense(_) | Doing::Send(_) | Doing::Suspending(_) => {}
        }
    }

    /// Gives a unit to the next die.
    pub(super) fn program(
        &mut self,
        model: &FlashModel,
        events: &mut EventQueue,
        (now, closed): (Instant, Closed),
    ) {
        let at = DieId(self.next);
        self.next = (self.next + 1) % model.dies();
        let die = &mut self.all[at.0 as usize];
        die.units.push_back(closed);
        if matches!(die.doing, Doing::Rest) {
            self.go_on(model, events, (now, at));
        }
    }

    /// The cells of a die have finished, unless the event is of an earlier operation.
    pub(super) fn array(
        &mut self,
        model: &FlashModel,
        events: &mut EventQueue,
        (now, at, generation): (Instant, DieId, u32),
    ) -> Outcome {
        let die = &mut self.all[at.0 as usize];
        if die.generation != generation {
            return Outcome::Nothing;
        }
        match die.doing {
            Doing::Sense(op) => {
                let Op { owner, len, .. } = *self.ops.get(op);
                die.doing = Doing::Send(op);
                let left = self.carry(model, (now, at, len));
                let least = sent_least(model, owner, len);
                events.enter(left, EventKind::Left(at), Some(least));
                Outcome::Nothing
            }
            Doing::Work { work, .. } => {
                die.doing = Doing::Rest;
                self.go_on(model, events, (now, at));
                match work {
                    Work::Unit(unit) => Outcome::Programmed(unit),
                    Work::Collect | Work::Erase => Outcome::Nothing,
                }
            }
            Doing::Suspending(kept) => {
                die.kept = Some(kept);
                die.doing = Doing::Rest;
                self.go_on(model, events, (now, at));
                Outcome::Nothing
            }
            Doing::Rest | Doing::Send(_) => unreachable!("the cells were told to do something"),
        }
    }

    /// The data of a read has left its die: returns the piece, and the die continues.
    pub(super) fn left(
        &mut self,
        model: &FlashModel,
        events: &mut EventQueue,
        (now, at): (Instant, DieId),
    ) -> Op {
        let die = &mut self.all[at.0 as usize];
        let Doing::Send(id) = die.doing else { unreachable!("it was sending") };
        die.doing = Doing::Rest;
        let (op, _) = self.ops.leave(id);
        self.go_on(model, events, (now, at));
        op
    }

    /// A transfer over the channel of a die, once it is free: when it ends.
    fn carry(&mut self, model: &FlashModel, (now, at, len): (Instant, DieId, Sectors)) -> Instant {
        let channel = at.0 as usize % self.channels.len();
        let ends = self.channels[channel].max(now) + model.channel.of(len);
        self.channels[channel] = ends;
        ends
    }

    /// A die at rest takes up the next thing, if there is one.
    fn go_on(&mut self, model: &FlashModel, events: &mut EventQueue, (now, at): (Instant, DieId)) {
        let die = &mut self.all[at.0 as usize];
        let work_waits = die.kept.is_some() || die.collect > 0 || !die.units.is_empty();
        let reads_go = !work_waits || die.passed < model.spec().nand.reads_before_program;
        if reads_go && let Some(op) = self.ops.pop(&mut die.reads) {
            die.passed += u32::from(work_waits);
            die.doing = Doing::Sense(op);
            die.generation = die.generation.wrapping_add(1);
            let Op { owner, len, .. } = *self.ops.get(op);
            let least = model.channel.of(len) + sent_least(model, owner, len);
            events.enter(
                now + model.spec().nand.read,
                EventKind::Array(at, die.generation),
                Some(least),
            );
        } else if work_waits {
            die.passed = 0;
            self.work(model, events, (now, at));
        }
    }

    fn work(&mut self, model: &FlashModel, events: &mut EventQueue, (now, at): (Instant, DieId)) {
        let nand = &model.spec().nand;
        let die = &mut self.all[at.0 as usize];
        die.generation = die.generation.wrapping_add(1);
        let generation = die.generation;
        let (work, begins, ends, suspended) = if let Some(kept) = die.kept.take() {
            let resume = nand.suspend.map_or(Duration::ZERO, |suspend| suspend.resume);
            let begins = now + resume;
            (kept.work, begins, begins + kept.left, kept.suspended)
        } else if die.programs >= nand.units_per_block {
            die.programs = 0;
            (Work::Erase, now, now + nand.erase, 0)
        } else {
            die.programs += 1;
            let work = if die.collect > 0 {
                die.collect -= 1;
                Work::Collect
            } else {
                let Closed { unit, collect } = die.units.pop_front().expect("a unit waits");
                die.collect = collect;
                Work::Unit(unit)
            };
            let begins = self.carry(model, (now, at, model.stripe()));
            (work, begins, begins + nand.program, 0)
        };
        self.all[at.0 as usize].doing = Doing::Work { work, begins, ends, suspended };
        events.enter(ends, EventKind::Array(at, generation), None);
    }
}

/// The earliest that a read is answered after its data has left the die. A command that waits for
/// data that is read ahead may need only one sector of it.
fn sent_least(model: &FlashModel, owner: Owner, len: Sectors) -> Duration {
    match owner {
        Owner::Command(_) => model.to_host.of(len) + model.spec().host.read_latency,
        Owner::Ahead(_) => model.sent_least,
    }
}
