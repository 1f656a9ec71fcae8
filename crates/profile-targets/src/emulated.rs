//! An emulated drive in real time, as `spindle serve` runs it, without sockets and without an
//! engine.

use core::fmt;
use std::collections::VecDeque;
use std::num::NonZeroU64;

use backend::{Disk, EmulatedDisk, Job, RamStore};
use drive::AnyModel;
use host::Clock;
use profiler::{Completion, Facts, Outcome, Tag, Target};
use units::{Instant, Op, Operation, Sectors};

use crate::timed_io::fill;

/// A drive model that delays data in memory as the drive would.
pub struct EmulatedTarget {
    disk: EmulatedDisk,
    facts: Facts,
    clock: Clock,
    submitted: Vec<(Tag, Instant)>,
    done: VecDeque<Completion>,
}

impl fmt::Debug for EmulatedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmulatedTarget").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl EmulatedTarget {
    /// An idle drive that holds zeroes.
    pub fn new(model: AnyModel, writable: bool) -> Self {
        let seeks = model.mechanical().is_some_and(|model| model.spec().arm.seek_command);
        let facts = Facts {
            sectors: model.capacity(),
            block: Sectors(1),
            writable,
            flushes: true,
            forces: true,
            seeks,
            depth_max: model.queue_depth_max(),
        };
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self {
            disk: EmulatedDisk::new(model, Box::new(RamStore::default())),
            facts,
            clock: Clock::start(),
            submitted: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// Collects the completions up to `now`.
    fn reap(&mut self, now: Instant) {
        while let Some(finished) = self.disk.reap(now) {
            let tag = Tag(finished.tag.0);
            let place = self.submitted.iter().position(|(known, _)| *known == tag);
            let (_, submitted) = self.submitted.swap_remove(place.expect("it was submitted"));
            let outcome = if finished.result.is_ok() { Outcome::Done } else { Outcome::Failed };
            self.done.push_back(Completion { tag, submitted, completed: now, outcome });
        }
    }
}

impl Target for EmulatedTarget {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn wait_until(&mut self, at: Instant) {
        while let Some(event) = self.disk.next_event().filter(|event| *event <= at) {
            host::wait_until(self.clock, event);
            let now = self.clock.now();
            self.reap(now);
        }
        host::wait_until(self.clock, at);
    }

    fn submit(&mut self, tag: Tag, operation: Operation) -> Instant {
        assert!(operation.op != Op::Write || self.facts.writable, "writing was not allowed");
        let bytes = if operation.op == Op::Write { operation.extent.len.bytes_usize() } else { 0 };
        let mut data = vec![0; bytes];
        fill(&mut data);
        let now = self.clock.now();
        self.reap(now);
        let job = Job { tag: backend::Tag(tag.0), operation, data: data.into(), no_hole: false };
        self.disk.submit(job, now);
        self.submitted.push((tag, now));
        now
    }

    fn complete(&mut self) -> Completion {
        loop {
            if let Some(done) = self.done.pop_front() {
                return done;
            }
            let event = self.disk.next_event().expect("something is outstanding");
            host::wait_until(self.clock, event);
            let now = self.clock.now();
            self.reap(now);
        }
    }
}
