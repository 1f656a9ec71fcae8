//! Things to do to disks, in an order: phases, each begun when the one before is done.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use units::Extent;

use crate::location::{DiskExtent, DiskId};

/// A thing to do to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write metadata.
    Write {
        /// To which disk.
        disk: DiskId,
        /// Where.
        extent: Extent,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// Make all that was written to a disk durable.
    Flush {
        /// Which.
        disk: DiskId,
    },
    /// Make sectors read as zeroes: nobody reads what another has written.
    Erase {
        /// Which.
        placed: DiskExtent,
    },
    /// Copy sectors.
    Copy {
        /// Which.
        from: DiskExtent,
        /// Where to.
        to: DiskExtent,
    },
}

/// One action under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId(pub(crate) u64);

/// What of its phases is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    phases: VecDeque<Vec<Action>>,
    /// What of the first phase is not given out yet, from the back.
    waiting: Vec<Action>,
    running: BTreeSet<StepId>,
    pub(crate) failed: bool,
}

impl Script {
    pub(crate) fn new(phases: impl IntoIterator<Item = Vec<Action>>) -> Self {
        let mut script = Self { phases: phases.into_iter().collect(), ..Self::default() };
        script.turn();
        script
    }

    /// The next action that may begin.
    pub(crate) fn next(&mut self, id: StepId) -> Option<Action> {
        if self.failed {
            return None;
        }
        let action = self.waiting.pop()?;
        self.running.insert(id);
        Some(action)
    }

    pub(crate) fn runs(&self, id: StepId) -> bool {
        self.running.contains(&id)
    }

    /// An action has ended.
    pub(crate) fn done(&mut self, id: StepId, well: bool) {
        assert!(self.running.remove(&id), "a step ends once");
        self.failed |= !well;
        if self.running.is_empty() && self.waiting.is_empty() && !self.failed {
            self.turn();
        }
    }

    /// Nothing begins any more.
    pub(crate) fn abandon(&mut self) {
        self.failed = true;
    }

    /// Whether nothing runs and nothing will.
    pub(crate) fn ended(&self) -> bool {
        self.running.is_empty()
            && (self.failed || (self.waiting.is_empty() && self.phases.is_empty()))
    }

    fn turn(&mut self) {
        while self.waiting.is_empty() {
            let Some(mut phase) = self.phases.pop_front() else { return };
            phase.reverse();
            self.waiting = phase;
        }
    }
}
