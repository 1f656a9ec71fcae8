//! Actions on disks in phases: each phase begins when the one before is complete.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use units::Extent;

use crate::location::{DiskExtent, DiskId};
use crate::pool::names::PoolVolumeId;

/// An action on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write metadata.
    Write {
        /// The disk.
        disk: DiskId,
        /// The sectors.
        extent: Extent,
        /// The bytes.
        bytes: Arc<[u8]>,
        /// Completes only when durable. If not, a flush follows.
        fua: bool,
    },
    /// Make durable what the pool has written to a disk, and what this volume's clients have.
    Flush {
        /// Which.
        disk: DiskId,
        /// The volume, if any.
        of: Option<PoolVolumeId>,
    },
    /// Make sectors read as zeroes: no volume reads what another has written.
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

impl Action {
    /// The disk that it changes.
    pub fn disk(&self) -> DiskId {
        match self {
            Self::Write { disk, .. } | Self::Flush { disk, .. } => *disk,
            Self::Erase { placed: to } | Self::Copy { to, .. } => to.disk,
        }
    }
}

/// One action in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId(pub(crate) u64);

/// The progress of the phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    phases: VecDeque<Vec<Action>>,
    /// The actions of the first phase that are not issued yet, the next one last.
    waiting: Vec<Action>,
    running: BTreeMap<StepId, DiskId>,
    pub(crate) failed: bool,
}

impl Script {
    pub(crate) fn new(phases: impl IntoIterator<Item = Vec<Action>>) -> Self {
        let mut script = Self { phases: phases.into_iter().collect(), ..Self::default() };
        script.next_phase();
        assert!(!script.failed, "nothing has failed yet");
        assert!(script.running.is_empty(), "nothing has started yet");
        script
    }

    /// The next action that may start.
    pub(crate) fn next(&mut self, id: StepId) -> Option<Action> {
        if self.failed {
            return None;
        }
        let action = self.waiting.pop()?;
        let last = self.running.last_key_value();
        debug_assert!(last.is_none_or(|(last, _)| *last < id), "steps are numbered");
        let before = self.running.insert(id, action.disk());
        assert!(before.is_none(), "a step starts once");
        Some(action)
    }

    pub(crate) fn is_running(&self, id: StepId) -> bool {
        self.running.contains_key(&id)
    }

    /// The disk of an action in progress.
    pub(crate) fn disk(&self, id: StepId) -> DiskId {
        debug_assert!(self.is_running(id), "a step in progress");
        self.running[&id]
    }

    /// Starts no further action on a disk.
    pub(crate) fn forget(&mut self, disk: DiskId) {
        for actions in self.phases.iter_mut().chain([&mut self.waiting]) {
            actions.retain(|action| action.disk() != disk);
        }
        assert!(self.waiting.iter().all(|action| action.disk() != disk), "none is left");
        if self.running.is_empty() && self.waiting.is_empty() && !self.failed {
            self.next_phase();
        }
    }

    /// An action has ended.
    pub(crate) fn done(&mut self, id: StepId, ok: bool) {
        assert!(self.running.remove(&id).is_some(), "a step ends once");
        self.failed |= !ok;
        if self.running.is_empty() && self.waiting.is_empty() && !self.failed {
            self.next_phase();
        }
    }

    /// Starts no further action.
    pub(crate) fn abandon(&mut self) {
        self.failed = true;
    }

    /// Whether nothing is in progress and nothing will start.
    pub(crate) fn ended(&self) -> bool {
        self.running.is_empty()
            && (self.failed || (self.waiting.is_empty() && self.phases.is_empty()))
    }

    fn next_phase(&mut self) {
        assert!(self.running.is_empty(), "a phase begins when the one before is complete");
        assert!(!self.failed, "no phase begins after a failure");
        while self.waiting.is_empty() {
            let Some(mut phase) = self.phases.pop_front() else { return };
            phase.reverse();
            self.waiting = phase;
        }
    }
}
