//! Which volumes use the disk at present.

use units::{Duration, Instant};

use crate::VolumeId;

/// A volume without a request uses the disk for this long after its last one.
pub(super) const SHARED_FOR: Duration = Duration::from_millis(100);

/// The volume that was active last, and the last one that was another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    last: Option<(VolumeId, Instant)>,
    other: Option<(VolumeId, Instant)>,
}

impl Activity {
    /// A request of `volume` arrives, or goes to the drive.
    pub(super) fn note(&mut self, volume: VolumeId, now: Instant) {
        debug_assert!(self.last.is_none_or(|(_, at)| at <= now), "events are in order");
        if self.last.is_some_and(|(last, _)| last != volume) {
            self.other = self.last;
        }
        self.last = Some((volume, now));
        debug_assert_ne!(self.other.map(|(other, _)| other), Some(volume), "another volume's");
    }

    /// `volume` does not count any more.
    pub(super) fn forget(&mut self, volume: VolumeId) {
        self.other.take_if(|(other, _)| *other == volume);
        if self.last.take_if(|(last, _)| *last == volume).is_some() {
            self.last = self.other.take();
        }
        debug_assert!(self.last.is_some() || self.other.is_none(), "the last one is noted");
    }

    /// When another volume than `volume` was active last.
    pub(super) fn of_others(&self, volume: VolumeId) -> Option<Instant> {
        let last = self.last.filter(|(last, _)| *last != volume);
        debug_assert!(self.last.is_some() || self.other.is_none(), "the last one is noted");
        last.or(self.other).map(|(_, at)| at)
    }
}
