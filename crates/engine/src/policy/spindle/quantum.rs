//! The current quantum, the one that it interrupted, the switch between two, and rounds of them.

use units::{DiskTime, Instant};

use super::switches::{Prepaid, RETURNS_SPREAD};
use super::volume::Depth;
use crate::VolumeId;
use crate::policy::interface::Candidates;

/// A round while several deep volumes wait. Two seconds hold three of them, and two halves of a
/// disk alternate every 333 ms. Rounds of half a second cost two sequential readers on hgst-7k8
/// another 1.5 % of their throughput, and random ones up to 2 %; rounds of a second make the 99th
/// percentile of two halves half a second.
pub(super) const ROUND: DiskTime = DiskTime::from_millis(666);
const _: () = assert!(ROUND.as_nanos() == RETURNS_SPREAD * 1_000_000);

/// The state of the rounds in which deep volumes alternate.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) length: DiskTime,
    /// Until then a round is as long as the period: a quantum began that would be short in a
    /// [`ROUND`], or whose end empties the drive at a high cost.
    pub(super) long_until: Instant,
    /// Until then a round is a little shorter: something in the background had a turn.
    pub(super) background_until: Instant,
    /// Whether the last quantum was out of the slack.
    pub(super) after_slack: bool,
    /// When the last deep volume that clients wait for had its turn: what is in the background has
    /// its place behind that if it is ready by then.
    pub(super) turn_ended: Instant,
    /// The volumes in the background, by their numbers.
    pub(super) background: Vec<VolumeId>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            length: ROUND,
            long_until: Instant::ZERO,
            background_until: Instant::ZERO,
            after_slack: false,
            turn_ended: Instant::ZERO,
            background: Vec::new(),
        }
    }
}

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
    pub(super) after: After,
}

impl Quantum {
    /// A quantum of `volume` that has spent nothing.
    pub(super) const fn new(volume: VolumeId, depth: Depth, from_slack: bool) -> Self {
        let (spent, last) = (DiskTime::ZERO, DiskTime::ZERO);
        let (lingering, after) = (false, After::Other);
        Self { volume, depth, from_slack, spent, last, lingering, after }
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
