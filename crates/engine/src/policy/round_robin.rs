//! Whose turn it is among those that are due at about the same time.
//!
//! After a round of everybody all deadlines are alike but for what each turn was too long or too short, and who has
//! just had a turn would have another by that accident. A volume that asks for little at a time comes between two long
//! turns as often as it likes, so it is not enough to see who had the arm last: of those whose deadlines are alike, the
//! one whose last turn is longest ago goes.

use units::{Duration, Instant};

use super::indexed_heap::IndexedHeap;
use crate::VolumeId;
use crate::accounting::bucket::SignedInstant;

/// So many deadlines are looked at, and who has had none of the last so many turns goes without a look at the others.
const LOOK: u32 = 4;

/// When each volume had its last turn, in turns.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    taken: u64,
    last: Vec<Option<u64>>,
}

impl RoundRobin {
    pub(crate) const fn new() -> Self {
        Self { taken: 0, last: Vec::new() }
    }

    /// A volume that has had none.
    pub(crate) fn add(&mut self) {
        self.last.push(None);
    }

    pub(crate) fn reset_volume(&mut self, volume: VolumeId) {
        self.last[volume.0 as usize] = None;
    }

    pub(crate) fn begun(&mut self, volume: VolumeId) {
        self.taken += 1;
        self.last[volume.0 as usize] = Some(self.taken);
    }

    /// Who of those that are due goes next: the first, unless it had one of the last turns, and one whose deadline lies
    /// no more than half a `period` behind has waited for longer.
    pub(crate) fn next(
        &self,
        deadlines: &mut IndexedHeap<SignedInstant>,
        period: Duration,
        now: Instant,
    ) -> Option<VolumeId> {
        let due = |first: Option<(SignedInstant, VolumeId)>| {
            first.filter(|(moment, _)| *moment <= SignedInstant::at(now))
        };
        let (earliest, first) = due(deadlines.first())?;
        let last = |volume: VolumeId| self.last[volume.0 as usize];
        if last(first).is_none_or(|turn| self.taken - turn >= u64::from(LOOK)) {
            return Some(first);
        }
        let alike = i64::try_from(period.as_nanos() / 2).expect("a period is short");
        let mut looked_at = [None; LOOK as usize];
        for seen in &mut looked_at {
            let head = due(deadlines.first());
            *seen = head.filter(|(moment, _)| moment.0.saturating_sub(earliest.0) <= alike);
            let Some((_, volume)) = *seen else { break };
            deadlines.remove(volume);
        }
        let alike = || looked_at.iter().flatten();
        for (moment, volume) in alike() {
            deadlines.set(*volume, *moment);
        }
        alike().map(|(_, volume)| *volume).min_by_key(|volume| last(*volume))
    }
}
