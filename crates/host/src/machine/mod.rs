//! What Linux says of this machine without being asked twice: block devices, limits of the process,
//! sleep states of the processors.
//!
//! ```text
//! /sys/block/NAME/{size, ro, removable, holders/, queue/…, device/…} ──▶ BlockDevice
//! /proc/sys/kernel/io_uring_disabled, /proc/self/limits            ──▶ IoUringPolicy, LimitValue
//! /sys/devices/system/cpu/cpu0/cpuidle/state*/latency              ──▶ the longest exit latency
//! ```
//!
//! A file that is absent is a property that is unknown (`None`), never an error: kernels and
//! containers differ. Formats: `Documentation/ABI/stable/sysfs-block`, `proc(5)` and
//! `Documentation/admin-guide/sysctl/kernel.rst` of Linux.

mod block_device;
mod files;
mod limits;

use std::path::{Path, PathBuf};

use units::Duration;

pub use block_device::{BlockDevice, DeviceKind, WriteCache};
use files::{entries, text};
pub use limits::{IoUringPolicy, LimitValue};

/// The machine, below a directory that holds `proc` and `sys`.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self::at(Path::new("/"))
    }
}

impl Machine {
    /// The machine whose `proc` and `sys` are in `root`: `/`, except in tests.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The whole block devices that hold sectors, in the order of their names: no partitions, no
    /// empty drives.
    pub fn block_devices(&self) -> Vec<BlockDevice> {
        let names = entries(&self.path("sys/block"));
        names.iter().filter_map(|name| BlockDevice::read(&self.path("sys/block"), name)).collect()
    }

    /// The longest time that an idle processor takes to leave a sleep state; `None` if it has none
    /// that the kernel uses.
    pub fn exit_latency_max(&self) -> Option<Duration> {
        let states = self.path("sys/devices/system/cpu/cpu0/cpuidle");
        let latency = |state: &String| {
            let micros: u64 = text(&states.join(state).join("latency"))?.parse().ok()?;
            Some(Duration::from_micros(micros))
        };
        entries(&states).iter().filter_map(latency).max().filter(|max| *max > Duration::ZERO)
    }

    /// The processes that may set up an io_uring; a setting that is not known counts as disabled.
    pub fn io_uring_policy(&self) -> IoUringPolicy {
        match text(&self.path("proc/sys/kernel/io_uring_disabled")).as_deref() {
            None | Some("0") => IoUringPolicy::All,
            Some("1") => IoUringPolicy::Privileged,
            Some(_) => IoUringPolicy::Disabled,
        }
    }

    /// The files and sockets that this process may have open at once.
    pub fn open_files_max(&self) -> Option<LimitValue> {
        self.limit("Max open files")
    }

    /// The bytes that this process may lock in memory.
    pub fn locked_memory_max(&self) -> Option<LimitValue> {
        self.limit("Max locked memory")
    }

    /// The soft limit of the line of `/proc/self/limits` that begins with `name`.
    fn limit(&self, name: &str) -> Option<LimitValue> {
        let limits = text(&self.path("proc/self/limits"))?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().next()? {
            "unlimited" => Some(LimitValue::Unlimited),
            number => number.parse().ok().map(LimitValue::At),
        }
    }

    /// A file below the root.
    fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }
}
