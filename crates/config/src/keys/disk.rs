//! The tables of a disk.

use engine::limits::{
    JIT_OFFSET_MAX, READ_AHEAD_MEMORY, READ_AHEAD_MEMORY_MAX, READ_AHEAD_MEMORY_MIN,
    SERVER_PERIOD_MIN, WRITE_AGE, WRITE_AGE_MAX, WRITE_BUFFER_MEMORY, WRITE_BUFFER_MEMORY_MAX,
};
use engine::{ChooserName, EstimatorName, PolicyName};
use input::{Key, TableKeys, list, size_text, time_text};
use units::Duration;

use super::shapes::{BOOLEAN, Lazy, PATH, SHARE, numbers, sizes, times};
use crate::defaults as d;
use crate::limits as l;

/// What a disk is to a pool.
fn disk_in_pool() -> Vec<Key> {
    vec![
        Key::new(
            "domain",
            format!("a name of 1 to {} printable characters", l::DOMAIN_BYTES_MAX),
            "What it fails together with: its shelf, controller or power supply. The copies of a \
             mirror's block are on disks of different domains.",
        )
        .or("it fails alone"),
        Key::new(
            "spare",
            BOOLEAN,
            "Whether it takes, by itself, the place of a disk that the pool has taken out; its \
             data is lost then. It has no volumes until then, and is none of the pool's.",
        )
        .or("false"),
    ]
}

fn disk_identity() -> Vec<Key> {
    vec![
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The disk's name, unique among the disks.",
        )
        .required(),
        Key::new(
            "drive",
            "a name of the drive library, \"memory\", \"null\", or the path of a drive file \
             (*.toml)",
            "The drive that the disk emulates or simulates; required without `path` and `profile`.",
        ),
        Key::new(
            "profile",
            "the path of a profile (*.toml), relative to the config's directory",
            "The measured profile of the drive, used instead of what its parameters imply.",
        ),
        Key::new(
            "slowed",
            format!("a factor from {:.2} to 1, or a share in quotes", l::SLOWED_MIN.as_f64()),
            "The share of its speed at which an emulated or simulated drive runs: every service \
             time, the rotation included, is divided by it, and so are a profile's times and the \
             default estimates.",
        )
        .or("1"),
        Key::new(
            "bus",
            "the name of a bus",
            "The bus that the disk shares with others; without it the disk has its own.",
        ),
    ]
}

fn disk_backing() -> Vec<Key> {
    vec![
        Key::new("path", PATH, "A block device or file that is served directly: a real disk."),
        Key::new("buffered", BOOLEAN, "Whether a real disk is accessed through the page cache.")
            .or("false"),
        Key::new(
            "adopt",
            BOOLEAN,
            "Whether a real disk with a partition table is accepted, and overwritten.",
        )
        .or("false"),
        Key::new(
            "io_uring",
            BOOLEAN,
            "Whether a real disk's commands use io_uring if it is available, or a thread pool.",
        )
        .or("true"),
        Key::new(
            "write_cache",
            "\"auto\", \"forced\", \"off\" or \"flushed\"",
            "The write cache of the drive, of a real one or one that rotates: writes are forced \
             past it, it is off while the disk is served (SCSI, SATA), or a flush follows those of \
             a volume. \"auto\": the cheapest of these that there is, by the drive's parameters or \
             profile, where the host has write buffers; else it is left.",
        )
        .or("\"auto\""),
        Key::new(
            "size",
            sizes(l::DISK_SIZE_MIN, l::MEMORY_SIZE_MAX),
            "The size of a disk with drive = \"memory\" or \"null\", where it is required.",
        ),
        Key::new(
            "backing",
            "\"ram\", or a path relative to the config's directory",
            "Where an emulated disk keeps its data.",
        )
        .or("\"ram\""),
    ]
}

fn depth() -> Key {
    Key::new(
        "depth",
        format!("\"auto\", or {}, at most the drive's own queue", numbers(1, l::DEPTH_MAX.into())),
        "Commands in flight inside the drive. `auto`: as many as keep each promise at the most \
         throughput; `spindle disk ls` says how many, and why.",
    )
    .or("\"auto\"")
}

fn chooser() -> Key {
    Key::new(
        "chooser",
        format!("\"auto\" or one of {}", list(ChooserName::ALL.iter(), '"')),
        "Which of a volume's requests goes next: the oldest, the next or the nearest one by \
         address, or the one that the heads reach first as the profile predicts it. \"auto\": \
         \"predicted\" with a profile or a drive file, else \"sweep\"; under the policies other \
         than \"spindle\", with preemptible or split execution, and on drives without an arm, \
         \"arrival\".",
    )
    .or("\"auto\"")
}

fn freeblock() -> Key {
    Key::new(
        "freeblock",
        "true or false",
        "Whether reads of volumes without a guarantee are carried out in the rotational waits of \
         other volumes' commands (freeblock scheduling), with chooser = \"predicted\". While a \
         volume of the disk has a stream or a bounded latency, they are not.",
    )
    .or("false")
}

fn disk_schedule() -> Vec<Key> {
    vec![
        Key::new(
            "policy",
            format!("one of {}", list(PolicyName::ALL.iter(), '"')),
            "The scheduling policy.",
        )
        .or(format!("\"{}\"", PolicyName::DEFAULT)),
        Key::new(
            "unkept_contracts",
            "\"refused\", or for experiments \"allowed\"",
            "Whether a simulation accepts contracts that the policy does not keep; `spindle serve` \
             refuses \"allowed\".",
        )
        .or("\"refused\""),
        depth(),
        Key::new(
            "period",
            times(l::PERIOD_MIN, l::PERIOD_MAX),
            "The accounting period, in which each reserve is guaranteed.",
        )
        .or(time_text(d::PERIOD)),
        Key::new(
            "batch",
            "a time from 0s to the period",
            "Disk time for which a sequential run is served before other volumes are.",
        )
        .or(format!("{}, at most the period; 0s for flash", time_text(d::BATCH))),
        Key::new(
            "linger",
            times(Duration::ZERO, l::LINGER_MAX),
            "How long the disk idles for the next request of a sequential run; under \
             \"spindle\", of any client that is expected in time.",
        )
        .or(format!(
            "{}; {} under \"spindle\"; 0s for flash",
            time_text(d::LINGER),
            time_text(d::LINGER_THINKING)
        )),
        Key::new(
            "estimate_sequential",
            format!("a time from {} to the period", time_text(l::ESTIMATE_MIN)),
            "The estimated time of a request close behind its predecessor.",
        )
        .or(format!(
            "{}; {} for flash",
            time_text(d::ESTIMATE_SEQUENTIAL),
            time_text(d::ESTIMATE_FLASH)
        )),
        Key::new(
            "estimate_random",
            format!("a time from {} to the period", time_text(l::ESTIMATE_MIN)),
            "The estimated time of any other request.",
        )
        .or(format!(
            "{}; {} for flash",
            time_text(d::ESTIMATE_RANDOM),
            time_text(d::ESTIMATE_FLASH)
        )),
        Key::new(
            "estimate",
            format!("one of {}", list(EstimatorName::ALL.iter(), '"')),
            "The estimator of service times.",
        )
        .or(format!("\"{}\"", EstimatorName::Constants)),
    ]
}

fn disk_memory() -> Vec<Key> {
    vec![
        Key::new(
            "read_ahead",
            format!(
                "\"auto\", \"off\", or a size from {} to {}",
                size_text(READ_AHEAD_MEMORY_MIN.bytes()),
                size_text(READ_AHEAD_MEMORY_MAX.bytes())
            ),
            "The memory in which the host reads ahead of clients that read in order and pause. \
             The disk time is charged to their volumes.",
        )
        .or(format!(
            "\"auto\" under \"spindle\", else \"off\"; \"auto\" is {0}, and \"off\" for flash and \
             for a buffered disk; with `free_prefetch`, {0} for what is prefetched",
            size_text(READ_AHEAD_MEMORY.bytes())
        )),
        Key::new(
            "write_buffer",
            format!(
                "\"auto\", \"off\", \"0\", or a size of at most {}",
                size_text(WRITE_BUFFER_MEMORY_MAX.bytes())
            ),
            "The memory of the volumes' write buffers, from which the host writes to the disk in \
             the time of the volume that wrote. \"off\": the drive's own buffer is used.",
        )
        .or(format!(
            "\"auto\" under \"spindle\", else \"off\"; \"auto\" is an equal part of \
             `write_buffer_memory`, at most {}, and \"off\" for flash and for a buffered disk",
            size_text(WRITE_BUFFER_MEMORY.bytes())
        )),
        Key::new(
            "write_age",
            times(l::WRITE_AGE_MIN, WRITE_AGE_MAX),
            "The time after which written data is sent to the disk at the latest.",
        )
        .or(time_text(WRITE_AGE)),
        Key::new(
            "write_buffer_log",
            "\"auto\", \"off\", or the path of a directory, relative to the config's directory",
            "The directory, of a memory file system, that keeps what is buffered when the daemon \
             is killed; the next one writes it to the disk before it serves. \"auto\": \
             $RUNTIME_DIRECTORY, or a directory of the user in /dev/shm.",
        )
        .or("\"auto\""),
    ]
}

fn disk_guarantees() -> Vec<Key> {
    vec![
        Key::new(
            "nominal_rate",
            "a rate such as 60/s, at least one in a period",
            "Requests a second that policy = \"throughput\" divides among the volumes.",
        )
        .or("what the drive does in its worst case"),
        Key::new(
            "reserve_headroom",
            SHARE,
            "The share of the disk's time that admission keeps free of reserves.",
        )
        .formerly("unreserved")
        .or("0%"),
        Key::new(
            "worst_case",
            "a table in braces",
            "The longest time of a command of a disk without a profile of an arm: flash, or a real \
             disk. Streams and bounded latencies need one.",
        ),
        Key::new(
            "host_lateness",
            times(Duration::ZERO, l::HOST_LATENESS_MAX),
            "Time added to each command's worst case for the host's delays, for streams.",
        )
        .or(time_text(d::HOST_LATENESS)),
        Key::new(
            "best_effort",
            "a table in braces",
            "A server that reserves time for best-effort requests beside deadlines.",
        ),
        Key::new(
            "slack_range",
            "\"all\", or for experiments \"clockwise\"",
            "The intervals that policy = \"delta-l\" takes its slack from.",
        )
        .formerly("range")
        .or("\"all\""),
        Key::new("faults", "a table in braces", "Faults to inject; not on a real disk."),
    ]
}

fn disk_execution() -> Vec<Key> {
    let piece = || format!("a size up to {}", size_text(engine::limits::COMMAND_MAX.bytes()));
    vec![
        chooser(),
        freeblock(),
        Key::new(
            "execution",
            "\"whole\" or \"preemptible\"",
            "Whether requests are executed as they are, or as short commands.",
        )
        .or("\"whole\""),
        Key::new("split", piece(), "The longest command, with execution = \"whole\"."),
        Key::new("chunk", format!("\"auto\", or {}", piece()), "The longest preemptible command.")
            .or("\"auto\", from the profile"),
        Key::new(
            "jit_offset",
            format!("\"off\", or {}", times(Duration::ZERO, JIT_OFFSET_MAX)),
            "How long before its sector passes a command is sent (just-in-time seeking).",
        )
        .or("1ms"),
        Key::new(
            "approach",
            "\"ahead\", \"short-read\", \"transfer\" or \"in-time\"",
            "How the arm moves: so early that the variation of seeks does not matter, by a seek \
             command, or on a drive without one by a read of one block (`short-read`) or with the \
             transfer (`transfer`), as pays by its profile (`ahead`); or so that it arrives as the \
             sector does (`in-time`).",
        )
        .or("\"ahead\""),
        Key::new(
            "seek_split",
            "\"hidden\", \"off\" or a number of cylinders",
            "Which seeks are split into shorter ones.",
        )
        .or("\"hidden\""),
        Key::new(
            "free_prefetch",
            BOOLEAN,
            "Whether rotational waits are used to read on for the volume that was read last: its \
             next read, or what its client reads next, kept in the memory of `read_ahead`. With \
             `read_ahead = \"off\"` that stays in the drive's buffer alone.",
        )
        .or("false"),
        Key::new("preempt_writes", BOOLEAN, "Whether writes are split into chunks too.").or("true"),
    ]
}

pub(crate) static DISK: Lazy = Lazy::new(|| {
    let keys = [
        disk_identity(),
        disk_backing(),
        disk_in_pool(),
        disk_schedule(),
        disk_memory(),
        disk_guarantees(),
        disk_execution(),
    ]
    .concat();
    TableKeys::new("[[disk]]", "A disk, and how its time is divided.", keys)
});

pub(crate) static BUS: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The bus's name, unique among the buses.",
        )
        .required(),
        Key::new(
            "bandwidth",
            format!(
                "bytes a second from {}/s to {}/s",
                size_text(l::BUS_BANDWIDTH_MIN),
                size_text(l::BUS_BANDWIDTH_MAX)
            ),
            "What it carries for all of its disks together, as `spindle profile bus` measures it.",
        )
        .required(),
        Key::new(
            "burst",
            format!("a size of at most {}, a multiple of 512 bytes", size_text(l::BUS_BURST_MAX)),
            "The most that it carries for a disk before it carries what another waits for.",
        )
        .or(size_text(d::BUS_BURST)),
    ];
    let about = "A bus, hub or port multiplier that several disks share. Streams and bounded \
                 latencies of its disks are admitted as if all of them transferred at once.";
    TableKeys::new("[[bus]]", about, keys)
});

pub(crate) static BEST_EFFORT: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new("share", "a share above 0%", "The share of the disk's time.").required(),
        Key::new(
            "period",
            times(SERVER_PERIOD_MIN, engine::limits::PERIOD_MAX),
            "The period in which the share is available.",
        )
        .or(time_text(d::SERVER_PERIOD)),
    ];
    let about = "A server that reserves time for best-effort requests beside deadlines.";
    TableKeys::new("[[disk]] best_effort", about, keys)
});

pub(crate) static WORST_CASE: Lazy = Lazy::new(|| {
    let command = times(l::WORST_COMMAND_MIN, l::WORST_COMMAND_MAX);
    let keys = vec![
        Key::new(
            "command",
            command,
            "The longest time of a command apart from its transfer: writes are forced, and one \
             command is in the drive at a time.",
        )
        .required(),
        Key::new(
            "rate",
            "bytes a second such as 100MB/s",
            "The least rate of a transfer: a command takes `command` and its bytes ÷ `rate`.",
        )
        .required(),
    ];
    let about = "The longest time of a command, as declared: nothing verifies it.";
    TableKeys::new("[[disk]] worst_case", about, keys)
});

pub(crate) static FAULTS: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new(
            "seed",
            "a whole number",
            "Seed of the random faults, at each opening of the disk.",
        )
        .or(d::SEED.to_string()),
        Key::new("read", SHARE, "The share of reads that fail.").or("0%"),
        Key::new(
            "write",
            SHARE,
            "The share of writes, trims and zeroing that fail; half of those take effect.",
        )
        .or("0%"),
        Key::new("flush", SHARE, "The share of flushes that fail.").or("0%"),
        Key::new("stall", SHARE, "The share of commands that begin late.").or("0%"),
        Key::new(
            "stall_for",
            times(l::FAULT_STALL_MIN, l::FAULT_STALL_MAX),
            "The delay of a stalled command.",
        )
        .or(time_text(d::STALL)),
        Key::new(
            "vanish_after",
            "a whole number above zero",
            "The number of commands after which the disk goes offline until it is reopened.",
        ),
    ];
    TableKeys::new("[[disk]] faults", "Faults that a disk injects, for tests.", keys)
});
