//! The current quantum, the one that it interrupted, and the switch between two.

use units::DiskTime;

use super::switches::Prepaid;
use super::volume::Depth;
use crate::VolumeId;
use crate::policy::interface::Candidates;

/// What was served before a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Another volume.
    Other,
    /// A quantum of the same deep volume, as no other was due: it ends when another one is.
    Own,
}

/// The current volume, and the disk time that its quantum has spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantum {
    pub(super) volume: VolumeId,
    pub(super) depth: Depth,
    /// Whether no other volume was due when it began.
    pub(super) from_slack: bool,
    pub(super) spent: DiskTime,
    /// The service time of its last command.
    pub(super) last: DiskTime,
    pub(super) lingering: bool,
    /// Whether no command goes in it any more: the drive has the last few.
    pub(super) ends: bool,
    pub(super) after: After,
}

impl Quantum {
    /// A quantum of `volume` that has spent nothing.
    pub(super) const fn new(volume: VolumeId, depth: Depth, from_slack: bool) -> Self {
        let (spent, last) = (DiskTime::ZERO, DiskTime::ZERO);
        let (lingering, ends, after) = (false, false, After::Other);
        Self { volume, depth, from_slack, spent, last, lingering, ends, after }
    }
}

/// A switch that no command has borne yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    /// The volume whose command bears it.
    pub(super) to: VolumeId,
    /// The arrival at a shallow volume, paid.
    pub(super) arrival: Option<Prepaid>,
    /// The departure from a shallow volume, paid.
    pub(super) departure: Option<(VolumeId, Prepaid)>,
    /// Whether all volumes share what is not paid: the return of a preempted deep volume.
    pub(super) shared: bool,
    /// Whether the volume resumes a sequential run: the drive may have read ahead, and a later
    /// command bears the switch.
    pub(super) on_run: bool,
}

/// A decision among the volumes of a joint quantum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joint {
    /// The volume that was picked: the quantum is its own.
    pub(super) holder: VolumeId,
    /// Those of which one goes.
    pub(super) candidates: Candidates,
    /// Whether it is slack.
    pub(super) from_slack: bool,
}

/// What ended a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its client, which sent no further request in time.
    Client,
    /// Its length.
    Length,
    /// A volume that is served at once.
    Interrupted,
}
