//! The write cache of a real disk's drive, and how a forced write reaches its medium.
//!
//! A drive with a write cache completes a write before it is on the medium. There are three ways
//! past it. A forced write is one command where the kernel has the drive's FUA for it. The cache of
//! a SCSI or SATA drive can be switched off: by `cache_type` of the SCSI disk in sysfs, which
//! changes the drive's caching mode page; nothing is sent beside the write then. Or a flush follows
//! the write, a second command. What each costs depends on the drive: the caller says which is
//! taken first of those that there are.
//!
//! ```text
//!            no cache ─▶ None       FUA ─▶ Forced      cache_type ─▶ Off       any ─▶ Flushed
//! ```
//!
//! Invariant: a cache that was switched off here is switched on again when the disk is closed, if
//! it is still off.

use core::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use drive::CacheBypass;

/// What is asked of a drive's write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCacheUse {
    /// The first of these ways past it that there is. A flush always is.
    Auto([CacheBypass; 3]),
    /// It stays on, and the kernel forces writes: by FUA, or a flush after each.
    Forced,
    /// It is switched off while the disk is open; the disk is refused where that fails.
    Off,
    /// It stays on, and a flush follows forced writes: the drive's FUA is not trusted.
    Flushed,
}

impl Default for WriteCacheUse {
    fn default() -> Self {
        Self::Auto(CacheBypass::ALL)
    }
}

/// How writes get past a drive's write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCacheState {
    /// There is none, or it is off by itself.
    None,
    /// Forced writes have FUA.
    Forced,
    /// It is off as long as the disk is open.
    Off,
    /// A flush follows forced writes.
    Flushed,
}

impl fmt::Display for WriteCacheState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Forced => CacheBypass::Forced.fmt(f),
            Self::Off => CacheBypass::Off.fmt(f),
            Self::Flushed => CacheBypass::Flushed.fmt(f),
        }
    }
}

/// A drive's write cache while its disk is open.
#[derive(Debug)]
pub(crate) struct WriteCache {
    state: WriteCacheState,
    /// Whether the kernel forces writes by FUA.
    has_fua: bool,
    /// `cache_type` of a cache that was switched off, and what it was.
    switched: Option<(PathBuf, String)>,
}

const THROUGH: &str = "write through";

impl WriteCache {
    /// Looks at the cache of the block device with this directory in sysfs, and switches it off if
    /// that is asked and not done yet.
    ///
    /// # Errors
    /// If it is to be off, and cannot be switched off.
    pub(crate) fn open(sysfs: &Path, asked: WriteCacheUse) -> io::Result<Self> {
        // A partition has no queue and no device of its own.
        let find = |name: &str| {
            [sysfs.join(name), sysfs.join("..").join(name)].into_iter().find(|path| path.exists())
        };
        let read = |name| find(name).and_then(|path| fs::read_to_string(path).ok());
        let has_fua = read("queue/fua").is_some_and(|text| text.trim() == "1");
        let found = |state| Self { state, has_fua, switched: None };
        if read("queue/write_cache").is_none_or(|text| text.trim() == THROUGH) {
            return Ok(found(WriteCacheState::None));
        }
        let forced = if has_fua { WriteCacheState::Forced } else { WriteCacheState::Flushed };
        let switch_off = || Self::switch_off(find("device"), has_fua);
        let by = |way| match way {
            CacheBypass::Forced => has_fua.then(|| found(forced)),
            CacheBypass::Off => switch_off().ok(),
            CacheBypass::Flushed => Some(found(WriteCacheState::Flushed)),
        };
        match asked {
            WriteCacheUse::Forced => Ok(found(forced)),
            WriteCacheUse::Flushed => Ok(found(WriteCacheState::Flushed)),
            WriteCacheUse::Off => switch_off(),
            WriteCacheUse::Auto(order) => {
                let taken = order.into_iter().find_map(by);
                Ok(taken.unwrap_or_else(|| found(WriteCacheState::Flushed)))
            }
        }
    }

    /// Switches the cache of a SCSI disk off.
    fn switch_off(device: Option<PathBuf>, has_fua: bool) -> io::Result<Self> {
        let disks = device.map(|device| device.join("scsi_disk"));
        let disks = disks.and_then(|disks| fs::read_dir(disks).ok()).into_iter().flatten();
        let file = disks.flatten().map(|disk| disk.path().join("cache_type")).next();
        let file = file.ok_or_else(|| io::Error::other("it is not a SCSI or SATA drive"))?;
        let before = fs::read_to_string(&file)?.trim().to_owned();
        fs::write(&file, THROUGH)?;
        let after = fs::read_to_string(&file)?;
        if after.trim() != THROUGH {
            return Err(io::Error::other("the drive keeps it on"));
        }
        debug_assert_ne!(before, THROUGH, "the kernel's queue says that it is on");
        Ok(Self { state: WriteCacheState::Off, has_fua, switched: Some((file, before)) })
    }

    pub(crate) fn state(&self) -> WriteCacheState {
        self.state
    }

    /// Whether a flush has to follow a forced write: the kernel's own way would be FUA.
    pub(crate) fn needs_flush(&self) -> bool {
        self.has_fua && self.state == WriteCacheState::Flushed
    }
}

impl Drop for WriteCache {
    fn drop(&mut self) {
        let Some((file, before)) = self.switched.take() else { return };
        if fs::read_to_string(&file).is_ok_and(|text| text.trim() == THROUGH) {
            // A drive that is gone has nothing to switch on.
            let _ = fs::write(&file, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory as sysfs has one for a drive: with a queue, and a SCSI disk if `scsi`.
    fn sysfs(cache: &str, fua: &str, scsi: bool) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
            fs::write(path, format!("{text}\n")).expect("it is written");
        };
        write("queue/write_cache", cache);
        write("queue/fua", fua);
        write("sda1/partition", "1");
        if scsi {
            write("device/scsi_disk/0:0:0:0/cache_type", cache);
        }
        let cache_type = dir.path().join("device/scsi_disk/0:0:0:0/cache_type");
        (dir, cache_type)
    }

    #[test]
    fn the_cheapest_way_past_a_cache_is_taken() {
        use CacheBypass::{Flushed, Forced, Off};
        use WriteCacheState as State;
        for (order, cache, fua, scsi, expected) in [
            ([Forced, Off, Flushed], "write through", "0", true, State::None),
            ([Forced, Off, Flushed], "write back", "1", true, State::Forced),
            ([Forced, Off, Flushed], "write back", "0", true, State::Off),
            ([Forced, Off, Flushed], "write back", "0", false, State::Flushed),
            ([Forced, Flushed, Off], "write back", "0", true, State::Flushed),
            ([Off, Forced, Flushed], "write back", "1", true, State::Off),
            ([Off, Forced, Flushed], "write back", "1", false, State::Forced),
            ([Flushed, Forced, Off], "write back", "1", true, State::Flushed),
        ] {
            let (dir, _) = sysfs(cache, fua, scsi);
            let asked = WriteCacheUse::Auto(order);
            let found = WriteCache::open(dir.path(), asked).expect("it is found");
            let what = format!("{order:?}: {cache}, fua {fua}, scsi {scsi}");
            assert_eq!(found.state(), expected, "{what}");
            // The kernel's own way would be FUA.
            assert_eq!(found.needs_flush(), expected == State::Flushed && fua == "1", "{what}");
        }
    }

    #[test]
    fn what_is_asked_is_done_or_refused() {
        use WriteCacheState as State;
        let (dir, _) = sysfs("write back", "1", false);
        let open = |asked| WriteCache::open(dir.path(), asked);
        let state = |asked| open(asked).expect("it can be done").state();
        assert_eq!(state(WriteCacheUse::Forced), State::Forced);
        assert_eq!(state(WriteCacheUse::Flushed), State::Flushed);
        let refused = open(WriteCacheUse::Off).expect_err("there is no SCSI disk");
        assert!(refused.to_string().contains("SCSI"), "{refused}");
        let (dir, _) = sysfs("write back", "0", false);
        let forced = WriteCache::open(dir.path(), WriteCacheUse::Forced).expect("it can be done");
        assert_eq!(forced.state(), State::Flushed, "the kernel flushes");
    }

    #[test]
    fn a_cache_that_was_switched_off_is_switched_on_again() {
        let (dir, cache_type) = sysfs("write back", "1", true);
        let now = || fs::read_to_string(&cache_type).expect("it is there").trim().to_owned();
        // By the partition too.
        for of in [dir.path().to_path_buf(), dir.path().join("sda1")] {
            let cache = WriteCache::open(&of, WriteCacheUse::Off).expect("it is switched off");
            assert_eq!((cache.state(), now().as_str()), (WriteCacheState::Off, "write through"));
            drop(cache);
            assert_eq!(now(), "write back");
        }
        // What was changed meanwhile stays.
        let cache = WriteCache::open(dir.path(), WriteCacheUse::Off).expect("it is switched off");
        fs::write(&cache_type, "none").expect("it is changed");
        drop(cache);
        assert_eq!(now(), "none");
    }
}
