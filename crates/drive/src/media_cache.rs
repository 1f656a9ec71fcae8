//! The log on the disk for scattered cached writes, of firmware that has one.
//!
//! A short run of the write buffer is not written to its home location but appended to a log with
//! segments near the heads everywhere: each record takes the same time, however far apart the
//! writes are. A flush therefore takes a time that is linear in the number of writes, where with a
//! sweep the first write costs the most.
//!
//! The model counts the records and does not identify them: a logged sector is read from its home
//! location. While the media are idle before the next record, records are written back one after
//! the other, without cost to any command. A full log takes no records, and runs go to their home
//! locations.
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
        let gone = rested.as_nanos() / cache.write_back.as_nanos();
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
        write_back: Duration::from_millis(10),
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
