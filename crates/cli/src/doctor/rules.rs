//! What hurts, and what to do about it: rules over what is known of the machine and of one disk.
//!
//! Each rule is a function of values, so that each is tested without a machine that has the defect.

use host::{IoUringPolicy, LimitValue, WriteCache};
use serde::Serialize;
use units::Duration;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It costs speed or precision.
    Advice,
    /// A guarantee, data or the service is at risk.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What it is about: `machine`, or a disk's name.
    pub(super) subject: String,
    /// What was looked at, such as `io_uring`.
    pub(super) topic: &'static str,
    /// What was found.
    pub(super) found: String,
    /// What to do; empty where nothing is to be done.
    pub(super) remedy: String,
}

impl Finding {
    fn of(level: Level, topic: &'static str, found: String, remedy: String) -> Self {
        Self { level, subject: "machine".to_owned(), topic, found, remedy }
    }

    fn ok(topic: &'static str, found: impl Into<String>) -> Self {
        Self::of(Level::Ok, topic, found.into(), String::new())
    }

    fn advice(topic: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(Level::Advice, topic, found.into(), remedy.into())
    }

    fn problem(topic: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(Level::Problem, topic, found.into(), remedy.into())
    }

    /// The same finding about a disk.
    pub(super) fn about(self, disk: &str) -> Self {
        Self { subject: disk.to_owned(), ..self }
    }
}

/// Files that the daemon has open besides its clients' sockets: disks, descriptors, the API.
const OPEN_FILES_BESIDE_CLIENTS: u64 = 256;
/// An exit latency above this is seen in the service times of a disk's cache hits.
const EXIT_LATENCY_SEEN: Duration = Duration::from_micros(20);

/// Whether io_uring can be used.
pub(super) fn io_uring(policy: IoUringPolicy) -> Finding {
    const TOPIC: &str = "io_uring";
    const REMEDY: &str = "`sysctl kernel.io_uring_disabled=0`; until then threads carry out the \
                          commands of real disks";
    match policy {
        IoUringPolicy::All => Finding::ok(TOPIC, "allowed"),
        IoUringPolicy::Privileged => {
            Finding::advice(TOPIC, "for privileged processes only", REMEDY)
        }
        IoUringPolicy::Disabled => Finding::advice(TOPIC, "disabled", REMEDY),
    }
}

/// Whether as many clients can connect as the config allows.
pub(super) fn open_files(limit: Option<LimitValue>, connections: u64) -> Finding {
    const TOPIC: &str = "open files";
    let needed = connections.saturating_add(OPEN_FILES_BESIDE_CLIENTS);
    match limit {
        None => Finding::ok(TOPIC, "limit unknown"),
        Some(LimitValue::At(limit)) if limit < needed => Finding::problem(
            TOPIC,
            format!("a limit of {limit} for {connections} connections"),
            format!("`LimitNOFILE={needed}` in the unit, or `ulimit -n {needed}`"),
        ),
        Some(LimitValue::At(limit)) => Finding::ok(TOPIC, format!("a limit of {limit}")),
        Some(LimitValue::Unlimited) => Finding::ok(TOPIC, "no limit"),
    }
}

/// Whether processors take long to wake.
pub(super) fn sleep_states(exit_latency: Option<Duration>, can_limit: bool) -> Finding {
    const TOPIC: &str = "sleep states";
    let Some(latency) = exit_latency.filter(|latency| *latency > EXIT_LATENCY_SEEN) else {
        return Finding::ok(TOPIC, "processors wake at once");
    };
    let found = format!("processors take up to {latency} to wake");
    if can_limit {
        return Finding::ok(TOPIC, format!("{found}; the daemon can limit it"));
    }
    let remedy = "write access to /dev/cpu_dma_latency for the daemon's user: service times are \
                  longer by the wake-up otherwise";
    Finding::advice(TOPIC, found, remedy)
}

/// The kernel's scheduler below a real disk.
pub(super) fn scheduler(device: &str, active: Option<&str>) -> Finding {
    const TOPIC: &str = "kernel scheduler";
    match active {
        None => Finding::ok(TOPIC, "unknown"),
        Some("none") => Finding::ok(TOPIC, "none"),
        Some(active) => Finding::advice(
            TOPIC,
            format!("{active} orders commands a second time"),
            format!("`echo none > /sys/block/{device}/queue/scheduler`, and a udev rule"),
        ),
    }
}

/// The drive's write cache beside contracts.
pub(super) fn write_cache(cache: Option<WriteCache>, has_write_buffer: bool) -> Finding {
    const TOPIC: &str = "write cache";
    match (cache, has_write_buffer) {
        (Some(WriteCache::WriteBack), false) => Finding::advice(
            TOPIC,
            "the drive completes writes before they are on the medium, in the time of whichever \
             volume comes next",
            "`write_buffer = \"16MiB\"` on the disk: each volume pays for its own writes",
        ),
        (Some(WriteCache::WriteBack), true) => {
            Finding::ok(TOPIC, "on; writes are forced to the medium")
        }
        (Some(WriteCache::WriteThrough), _) => Finding::ok(TOPIC, "off"),
        (None, _) => Finding::ok(TOPIC, "unknown"),
    }
}

/// The depth of the config against the device's queue.
pub(super) fn queue_depth(configured: u32, device: Option<u32>) -> Finding {
    const TOPIC: &str = "queue depth";
    match device {
        Some(device) if device < configured => Finding::problem(
            TOPIC,
            format!("{configured} commands in flight, of which the device takes {device}"),
            format!("`depth = {device}`: the rest waits where its time cannot be seen"),
        ),
        Some(device) => Finding::ok(TOPIC, format!("{configured} of {device}")),
        None => Finding::ok(TOPIC, format!("{configured}")),
    }
}

/// The measured profile of a real disk.
pub(super) enum ProfileState {
    /// There is none.
    Missing,
    /// It is of this model, as far as either is known.
    Current,
    /// It was measured on another model.
    OtherModel {
        /// The model in the profile.
        measured: String,
        /// The model that the device reports.
        device: String,
    },
}

/// The profile of a real disk.
pub(super) fn profile(state: &ProfileState, path: &str, is_rotational: bool) -> Finding {
    const TOPIC: &str = "profile";
    let measure = format!("`spindle profile {path} --out PROFILE.toml`, then `profile = …`");
    match state {
        ProfileState::Current => Finding::ok(TOPIC, "measured"),
        ProfileState::Missing if !is_rotational => {
            Finding::ok(TOPIC, "none; the device does not rotate")
        }
        ProfileState::Missing => Finding::advice(
            TOPIC,
            "none: streams are not admitted, and positioning is not predicted",
            measure,
        ),
        ProfileState::OtherModel { measured, device } => Finding::problem(
            TOPIC,
            format!("measured on a {measured}, and this is a {device}"),
            measure,
        ),
    }
}

/// Whether the device is in use by something else.
pub(super) fn in_use(user: Option<String>) -> Finding {
    const TOPIC: &str = "use";
    match user {
        None => Finding::ok(TOPIC, "free"),
        Some(user) => Finding::problem(TOPIC, user, "another device, or none of its other users"),
    }
}

/// Whether the file or the device can be opened at all.
pub(super) fn access(error: &str) -> Finding {
    Finding::problem("access", error, "the daemon's user needs to read and to write it")
}
