//! The choice among volumes that are due at about the same time: least recently served first.
//!
//! After a round all deadlines differ only by what each quantum was too long or too short, so that
//! EDF order among them is arbitrary, and the volume that was just served could be served again.
//! Comparing with the last-served volume is not sufficient, because a third volume with one
//! outstanding request can run between two quanta as often as it likes. Ties (deadlines within half
//! a period) therefore go to the volume whose last quantum began longest ago.

use units::{Duration, Instant};

use super::indexed_heap::IndexedHeap;
use crate::VolumeId;
use crate::accounting::bucket::SignedInstant;
use crate::limits::VOLUMES_MAX;

/// The number of deadlines that are compared. A volume that had none of the last quanta of this
/// number goes without a comparison.
const COMPARED: u32 = 4;

/// The number of each volume's last quantum, counted over all volumes.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    quanta: u64,
    last: Vec<Option<u64>>,
}

impl RoundRobin {
    pub(crate) const fn new() -> Self {
        Self { quanta: 0, last: Vec::new() }
    }

    /// Adds a volume without a quantum.
    pub(crate) fn add(&mut self) {
        assert!(self.last.len() < VOLUMES_MAX, "volumes are bounded");
        self.last.push(None);
    }

    pub(crate) fn reset(&mut self, volume: VolumeId) {
        self.last[volume.0 as usize] = None;
    }

    /// The number of `volume`'s last quantum.
    pub(crate) fn last(&self, volume: VolumeId) -> Option<u64> {
        let last = self.last[volume.0 as usize];
        debug_assert!(last <= Some(self.quanta), "quanta are counted up");
        last
    }

    /// Notes that a quantum of `volume` begins.
    pub(crate) fn started(&mut self, volume: VolumeId) {
        self.quanta += 1;
        let before = self.last[volume.0 as usize].replace(self.quanta);
        assert!(before.is_none_or(|before| before < self.quanta), "quanta are counted up");
    }

    /// The due volume that goes next: the first, unless it had one of the last quanta, and one
    /// whose deadline is at most half a `period` later was served less recently.
    pub(crate) fn next(
        &self,
        deadlines: &mut IndexedHeap<SignedInstant>,
        period: Duration,
        now: Instant,
    ) -> Option<VolumeId> {
        debug_assert!(period > Duration::ZERO, "deadlines are compared within a period");
        let due = |first: Option<(SignedInstant, VolumeId)>| {
            first.filter(|(moment, _)| *moment <= SignedInstant::at(now))
        };
        let (earliest, first) = due(deadlines.first())?;
        let last = |volume: VolumeId| self.last[volume.0 as usize];
        if last(first).is_none_or(|quantum| self.quanta - quantum >= u64::from(COMPARED)) {
            return Some(first);
        }
        let count = deadlines.len();
        let tie = i64::try_from(period.as_nanos() / 2).expect("a period is short");
        let mut compared = [None; COMPARED as usize];
        for entry in &mut compared {
            let head = due(deadlines.first());
            *entry = head.filter(|(moment, _)| moment.0.saturating_sub(earliest.0) <= tie);
            let Some((_, volume)) = *entry else { break };
            deadlines.remove(volume);
        }
        let ties = || compared.iter().flatten();
        for (moment, volume) in ties() {
            deadlines.set(*volume, *moment);
        }
        assert_eq!(deadlines.len(), count, "what was taken out is back");
        debug_assert_eq!(deadlines.first(), Some((earliest, first)), "in the same order");
        debug_assert!(ties().count() > 0, "the first ties with itself");
        ties().map(|(_, volume)| *volume).min_by_key(|volume| last(*volume))
    }
}
