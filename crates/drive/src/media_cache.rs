//! The log on the disk that takes scattered cached writes, where firmware keeps one.
//!
//! A short run out of the write buffer is not taken to where it belongs but appended to a log that
//! has a piece near the heads wherever they are: each record takes the media as long, however far
//! apart the writes are. That is what makes a flush take a time that is linear in the number of
//! writes from the first on, where a sweep would make the first the dearest.
//!
//! The model keeps count of the records, not of which they are: a logged sector is read where it
//! belongs, and records go home while the media rest before the next record, one after the other,
//! at nobody's cost. A log that is full takes nothing, and runs go to where they belong.
//!
//! Invariant: never more records than the log holds.

use units::{Duration, Instant};

use crate::firmware::MediaCache;

/// What is in the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Log {
    records: u32,
    /// Whether something was appended since the log was last closed.
    open: bool,
}

impl Log {
    /// Whether there is room for one more record, after the media rested from `free` to `at`.
    pub(crate) fn has_room(&mut self, cache: &MediaCache, free: Instant, at: Instant) -> bool {
        let rested = at.saturating_since(free);
        let gone = rested.as_nanos() / cache.home.as_nanos();
        self.records = self.records.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
        self.records < cache.records_max
    }

    pub(crate) fn append(&mut self, cache: &MediaCache) {
        assert!(self.records < cache.records_max, "the caller has made sure of room");
        self.records += 1;
        self.open = true;
    }

    /// How long the media take to make all that was appended findable; nothing if nothing was.
    pub(crate) fn close(&mut self, cache: &MediaCache) -> Duration {
        if core::mem::take(&mut self.open) { cache.close } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Sectors;

    const CACHE: MediaCache = MediaCache {
        run_max: Sectors(128),
        append: Duration::from_millis(9),
        close: Duration::from_millis(28),
        records_max: 3,
        home: Duration::from_millis(10),
    };

    #[test]
    fn a_full_log_takes_nothing_until_the_media_have_rested() {
        let mut log = Log::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        for _ in 0..3 {
            assert!(log.has_room(&CACHE, at(0), at(0)));
            log.append(&CACHE);
        }
        assert!(!log.has_room(&CACHE, at(0), at(9)));
        assert!(log.has_room(&CACHE, at(9), at(19)));
        assert_eq!(log.records, 2);
    }

    #[test]
    fn only_a_log_that_was_written_to_is_closed() {
        let mut log = Log::default();
        assert_eq!(log.close(&CACHE), Duration::ZERO);
        log.append(&CACHE);
        assert_eq!([log.close(&CACHE), log.close(&CACHE)], [CACHE.close, Duration::ZERO]);
    }
}
