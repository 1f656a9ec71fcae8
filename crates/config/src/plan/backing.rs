//! Where a disk's data is stored: the kinds of backing, and their capabilities.
//!
//! Two places name a kind: the parser (`crates/config/src/parse`) and the opener
//! (`crates/daemon/src/disk/open.rs`). All other code asks for capabilities.

use std::path::{Path, PathBuf};

/// Where a disk's data is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In memory: lost when the process ends.
    Ram,
    /// In a file; the path is already relative to the working directory rather than to the config.
    File(PathBuf),
    /// In memory, and every command completes at once.
    Memory,
    /// Nowhere, and every command completes at once: written data is discarded.
    Null,
    /// On a real disk, which is not emulated.
    Real(RealDisk),
}

/// How a real disk's commands reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMethod {
    /// Through io_uring if it is available and the page cache is not used; otherwise by threads.
    IoUring,
    /// By a pool of threads, each with one blocking command at a time.
    Threads,
}

/// What is done about the write cache of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteCache {
    /// The cheapest way past it, where the disk has write buffers in the host; else it is left.
    #[default]
    Auto,
    /// Writes are forced by the drive's FUA, or by what the kernel has for it.
    Forced,
    /// It is off while the disk is served.
    Off,
    /// A flush follows the forced writes of a volume.
    Flushed,
}

/// A real disk: a block device, or a file used as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealDisk {
    /// Its path, already relative to the working directory rather than to the config.
    pub path: PathBuf,
    /// Whether commands pass through the page cache.
    pub buffered: bool,
    /// Whether a disk with a partition table is accepted, and overwritten.
    pub adopt: bool,
    /// How its commands reach the kernel.
    pub io_method: IoMethod,
    /// Whether zeroing changes a mapping and moves no data.
    pub fast_zero: bool,
}

/// How long a backing keeps written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Not at all: it is discarded.
    Discarded,
    /// Until the process ends.
    UntilExit,
    /// Until it is overwritten, whichever process opens the disk.
    Durable,
}

/// What a backing is able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingCapabilities<'a> {
    /// How long written data is kept.
    pub retention: Retention,
    /// Whether commands pass through the kernel's page cache, which reads ahead and buffers writes.
    pub is_cached: bool,
    /// The file or the block device that holds the data, sector by sector.
    pub path: Option<&'a Path>,
    /// Whether the disk is a real one. A real disk may be a block device, is checked before any
    /// use, and never has injected faults.
    pub is_real: bool,
    /// Whether zeroing changes a mapping and moves no data; `None`: unless the drive rotates.
    pub fast_zero: Option<bool>,
}

impl Backing {
    /// What it is able to do.
    pub fn capabilities(&self) -> BackingCapabilities<'_> {
        let emulated = |retention, path| BackingCapabilities {
            retention,
            is_cached: false,
            path,
            is_real: false,
            fast_zero: None,
        };
        match self {
            Self::Ram | Self::Memory => emulated(Retention::UntilExit, None),
            Self::File(path) => emulated(Retention::Durable, Some(path.as_path())),
            Self::Null => emulated(Retention::Discarded, None),
            Self::Real(real) => BackingCapabilities {
                retention: Retention::Durable,
                is_cached: real.buffered,
                path: Some(&real.path),
                is_real: true,
                fast_zero: Some(real.fast_zero),
            },
        }
    }

    /// What a disk that has failed is opened on again while it is served, after it was closed;
    /// `None`: it stays open.
    pub fn reopened(&self) -> Option<Self> {
        match self {
            Self::Ram | Self::File(_) | Self::Memory | Self::Null => None,
            // The server's threads poll the completion descriptor of the old io_uring: threads have
            // none.
            Self::Real(real) => {
                Some(Self::Real(RealDisk { io_method: IoMethod::Threads, ..real.clone() }))
            }
        }
    }
}
