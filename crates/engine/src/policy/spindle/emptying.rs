//! What emptying the drive for another deep volume costs, and which volumes pay it.
//!
//! A drive that orders its own queue serves a command the sooner the more it chooses from. Toward
//! the end of a quantum it has ever fewer, and each takes longer. That is a cost of the change of
//! volumes, as positioning is (RTAS 2008 §2.2): if each volume paid its own, a volume with a fifth
//! of a disk would lose as much in a round as one with four fifths.
//!
//! ```text
//! quantum  ├─────────── commands of one volume ───────────┤
//! in drive  32 32 32 32 32 32 32 32 31 24 16 10 6 4 3 2 1
//!                                   └── each takes longer
//! charged  the same part less for each of them; all pay that, in proportion to their disk time
//! ```
//!
//! The cost of a volume's quantum is learned. The part that it is of the quantum's length is taken
//! off each of its commands, so that the charge of a volume keeps in step with its disk time.
//! Emptying a drive that holds one or two commands costs little, and is not shared.

use units::DiskTime;

use super::Spindle;
use super::quantum::{Quantum, ROUND};
use super::volume::Depth;
use crate::VolumeId;

/// Emptying the drive takes long where it costs more than this part of a [`ROUND`].
const DRAIN_PARTS: i64 = 64;
/// Rounds become long where it costs more than this part of one, and stay so while it costs more
/// than that of [`DRAIN_PARTS`]: what is learned goes up and down, and rounds of both lengths in
/// turns left 40 % short of two seconds by 5 points.
const DRAIN_PARTS_ROUND: i64 = 40;
/// The drive begins to be emptied earlier by this part of the time that it takes. That time has a
/// standard deviation of a twelfth with 32 commands. If it is less than expected, more commands go
/// one by one; if it is more, nothing helps. With a twenty-fourth 20 % of nearline-20t ran 62 ms
/// over, and 80 % beside it lacked up to 3.4 points of two seconds; with a sixth 2.4.
const EARLY_PARTS: i64 = 6;
const _: () = assert!(DRAIN_PARTS_ROUND < DRAIN_PARTS);

impl Spindle {
    /// Whether emptying the drive of `volume`'s commands costs much.
    fn empties_long(&self, volume: VolumeId) -> bool {
        self.empties_long_for(volume, DRAIN_PARTS)
    }

    /// The same for the length of rounds, which keeps to what it is.
    pub(super) fn empties_long_in(&self, volume: VolumeId, is_long: bool) -> bool {
        self.empties_long_for(volume, if is_long { DRAIN_PARTS } else { DRAIN_PARTS_ROUND })
    }

    fn empties_long_for(&self, volume: VolumeId, parts: i64) -> bool {
        debug_assert!(parts > 0, "a part of a round");
        DiskTime::from_nanos(self.emptying_cost(volume).as_nanos() * parts) > ROUND
    }

    /// What emptying the drive of `volume`'s commands costs.
    fn emptying_cost(&self, volume: VolumeId) -> DiskTime {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        let entry = &self.volumes[volume.0 as usize];
        let cost = entry.drains.cost(entry.fills(self.queue_depth));
        debug_assert!(cost >= DiskTime::ZERO, "emptying the drive gives no disk time");
        cost
    }

    /// Whether all volumes pay for emptying the drive at the end of `quantum`.
    fn shares_emptying(&self, quantum: &Quantum) -> bool {
        debug_assert!((quantum.volume.0 as usize) < self.volumes.len(), "the volume exists");
        // A drive that takes one command is never emptied.
        quantum.depth == Depth::Deep
            && self.queue_depth > 1
            && self.positions()
            && self.has_deep_rival(quantum.volume)
            && self.empties_long(quantum.volume)
    }

    /// Of `own`, which commands of `quantum`'s volume cost, what all volumes pay; `None` if these
    /// do not pay for emptying the drive.
    fn emptying_part(&self, quantum: &Quantum, own: DiskTime) -> Option<DiskTime> {
        debug_assert!(own >= DiskTime::ZERO, "a service time is not negative: {own}");
        if !self.shares_emptying(quantum) {
            return None;
        }
        let entry = &self.volumes[quantum.volume.0 as usize];
        let cost = self.emptying_cost(quantum.volume);
        // One out of the slack may have less left than the volume was ahead.
        let length = (self.length(quantum) + entry.overrun).max(DiskTime::ZERO);
        // Both are at most some seconds: in microseconds their product fits.
        let (cost, length) = (cost.as_nanos() / 1_000, length.as_nanos() / 1_000);
        let part = own.as_nanos() / 1_000 * cost.min(length) / length.max(1) * 1_000;
        Some(DiskTime::from_nanos(part))
    }

    /// What `volume` is charged of `own`, without what all volumes pay in its quantum.
    pub(super) fn without_emptying(&mut self, volume: VolumeId, own: DiskTime) -> DiskTime {
        if self.queue_depth == 1 {
            return own;
        }
        let part = self.quantum_of(volume).and_then(|quantum| self.emptying_part(&quantum, own));
        debug_assert!(part.is_none_or(|part| part <= own), "no more than the cost is shared");
        let Some(part) = part else { return own };
        own - part + self.ledger.share_return(part)
    }

    /// What `quantum`'s volume will have been charged for the commands that the drive holds.
    pub(super) fn charge_inside(&self, quantum: &Quantum) -> DiskTime {
        let entry = &self.volumes[quantum.volume.0 as usize];
        if entry.running == 0 {
            return DiskTime::ZERO;
        }
        let drain = entry.drains.drain(entry.running, self.estimates.random);
        debug_assert!(drain >= DiskTime::ZERO, "a drain takes time");
        let Some(part) = self.emptying_part(quantum, drain) else { return drain };
        let early = DiskTime::from_nanos(drain.as_nanos() / EARLY_PARTS);
        self.ledger.with_returns(drain - part) + early
    }
}
