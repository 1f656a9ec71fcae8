//! Every table and key of a config or scenario, with its type, default and description.
//!
//! The parser rejects the keys that are not described here, and the reference pages are generated
//! from the descriptions. This file is also the table of earlier names that are still accepted:
//! [`Key::formerly`].

use std::sync::LazyLock;

use engine::limits::{JIT_OFFSET_MAX, SERVER_PERIOD_MIN, WEIGHT_MAX};
use engine::{EstimatorName, PolicyName};
pub use input::{Key, TableKeys};
use input::{list, size_text, time_text};
use units::{Bytes, Duration};

use crate::limits as l;
use crate::plan::Nbd;
use crate::{RecordSettings, defaults as d};

/// The tables of a config, in the order of the reference page.
pub fn all() -> Vec<&'static TableKeys> {
    vec![
        &TOP,
        &LISTEN,
        &NBD,
        &LOG,
        &DISK,
        &BEST_EFFORT,
        &FAULTS,
        &VOLUME,
        &STREAM,
        &POOL,
        &POOL_VOLUME,
        &FROM,
        &WORKLOAD,
    ]
}

type Lazy = LazyLock<TableKeys>;

fn times(low: Duration, high: Duration) -> String {
    format!("a time from {} to {}", time_text(low), time_text(high))
}

fn sizes(low: Bytes, high: Bytes) -> String {
    format!("a size from {} to {}", size_text(low), size_text(high))
}

fn numbers(low: u64, high: u64) -> String {
    format!("a whole number from {low} to {high}")
}

const SHARE: &str = "a share from 0% to 100%";
const SHARE_OR_RATE: &str = "a share from 0% to 100%, or a rate with policy = \"throughput\"";
const BOOLEAN: &str = "true or false";
const PATH: &str = "a path, relative to the config's directory";

pub(crate) static TOP: Lazy = Lazy::new(|| {
    let about = "The top of the file.";
    let keys = vec![
        Key::new("seed", "a whole number", "Seed of a simulation's random numbers.")
            .or(d::SEED.to_string()),
        Key::new(
            "duration",
            times(Duration::from_nanos(1), l::TIME_MAX),
            "Length of a simulation.",
        )
        .or("the latest `stop` of the workloads"),
        Key::new("listen", "a table", "Addresses of the daemon."),
        Key::new("nbd", "a table", "Limits, authentication and encryption of NBD clients."),
        Key::new("log", "a table", "The log of slow requests, and flight records."),
        Key::new(
            "disk",
            format!("tables, at most {}", l::DISKS_MAX),
            "The disks that volumes are placed on.",
        ),
        Key::new(
            "volume",
            format!("tables, at most {}", l::VOLUMES_MAX),
            "The volumes, each with its contract.",
        ),
        Key::new("pool", "a table", "Disks whose space is shared by the pool's volumes."),
        Key::new(
            "workload",
            format!("tables, at most {}", l::WORKLOADS_MAX),
            "The load of a simulation.",
        ),
    ];
    TableKeys::new("", about, keys)
});

pub(crate) static LISTEN: Lazy = Lazy::new(|| {
    let shape = format!("a list of at most {} addresses, unix:PATH or ADDRESS:PORT", l::LISTEN_MAX);
    let keys = vec![Key::new("nbd", shape, "Addresses on which NBD clients connect.")];
    TableKeys::new("[listen]", "Addresses of the daemon.", keys)
});

pub(crate) static NBD: Lazy = Lazy::new(|| {
    let default = Nbd::default();
    let times = || times(l::PATIENCE_MIN, l::PATIENCE_MAX);
    let connections = || numbers(1, l::CONNECTIONS_MAX as u64);
    let file = "a path of a PEM file, relative to the config's directory";
    let keys = vec![
        Key::new("list", BOOLEAN, "Whether clients can list the volumes.").or("true"),
        Key::new("connections", connections(), "Connections to all volumes at once.")
            .or(default.connections.to_string()),
        Key::new("volume_connections", connections(), "Connections to one volume at once.")
            .or(default.volume_connections.to_string()),
        Key::new(
            "requests",
            numbers(1, l::CONNECTION_REQUESTS_MAX as u64),
            "Requests in flight on one connection.",
        )
        .or(default.requests.to_string()),
        Key::new(
            "memory",
            sizes(l::CONNECTION_MEMORY_MIN, l::CONNECTION_MEMORY_MAX),
            "Payload in flight on one connection.",
        )
        .or(size_text(default.memory)),
        Key::new("handshake", times(), "The longest duration of a handshake.")
            .or(time_text(default.handshake)),
        Key::new("stall", times(), "The longest pause within a message.")
            .or(time_text(default.stall)),
        Key::new("tls", "\"off\", \"allowed\" or \"required\"", "Whether connections use TLS.")
            .or("\"off\""),
        Key::new("certificate", file, "The server's certificate chain; required with TLS."),
        Key::new("key", file, "The certificate's private key; required with TLS."),
        Key::new("client_ca", file, "Authorities whose client certificates are accepted."),
    ];
    TableKeys::new("[nbd]", "Limits, authentication and encryption of NBD clients.", keys)
});

pub(crate) static LOG: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new(
            "slow",
            times(l::SLOW_MIN, l::TIME_MAX),
            "Latency from which on a request is logged, with the parts of its latency.",
        ),
        Key::new("format", "\"text\" or \"json\"", "The format of the log's lines.")
            .or("as the command line says"),
        Key::new(
            "record",
            PATH,
            "Directory of the flight records, which hold the inputs and decisions of all engines.",
        ),
        Key::new(
            "record_max",
            sizes(l::RECORD_BYTES_MIN, l::RECORD_BYTES_MAX),
            "The size of all records; those of the oldest runs are deleted first.",
        )
        .or(size_text(RecordSettings::BYTES_DEFAULT)),
    ];
    TableKeys::new("[log]", "The log of slow requests, and flight records.", keys)
});

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

fn disk_schedule() -> Vec<Key> {
    vec![
        Key::new(
            "policy",
            format!("one of {}", list(PolicyName::ALL.iter(), '"')),
            "The scheduling policy.",
        )
        .or(format!("\"{}\"", PolicyName::Utilization)),
        Key::new(
            "depth",
            format!("{}, at most the drive's own queue", numbers(1, l::DEPTH_MAX.into())),
            "Commands in flight inside the drive.",
        )
        .or("1"),
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
            "How long the disk idles for the next request of a sequential run.",
        )
        .or(format!("{}; 0s for flash", time_text(d::LINGER))),
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
            "\"ahead\" or \"in-time\"",
            "Whether a seek command moves the head ahead of a transfer.",
        )
        .or("\"ahead\" if the drive has a seek command"),
        Key::new(
            "seek_split",
            "\"hidden\", \"off\" or a number of cylinders",
            "Which seeks are split into shorter ones.",
        )
        .or("\"hidden\""),
        Key::new(
            "free_prefetch",
            BOOLEAN,
            "Whether rotational waits are used to read ahead of the target.",
        )
        .or("false"),
        Key::new("preempt_writes", BOOLEAN, "Whether writes are split into chunks too.").or("true"),
    ]
}

pub(crate) static DISK: Lazy = Lazy::new(|| {
    let keys = [disk_identity(), disk_schedule(), disk_execution()].concat();
    TableKeys::new("[[disk]]", "A disk, and how its time is divided.", keys)
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

fn clients() -> Key {
    let shape = format!("a list of at most {}, each CN=NAME or sha256:FINGERPRINT", l::CLIENTS_MAX);
    Key::new("clients", shape, "The certificates of the clients that may open the volume.")
        .or("all clients")
}

fn contract() -> Vec<Key> {
    vec![
        Key::new("reserve", SHARE_OR_RATE, "The guaranteed share in each period.").or("0%"),
        Key::new("limit", SHARE_OR_RATE, "The largest share in each period.").or("100%"),
        Key::new(
            "weight",
            numbers(1, WEIGHT_MAX.into()),
            "The weight with which time beyond the reserves is divided.",
        )
        .or("1"),
        Key::new(
            "priority",
            "\"normal\" or \"high\"",
            "Whether the volume is served before volumes of normal priority.",
        )
        .or("\"normal\""),
        Key::new("stream", "a table in braces", "A bandwidth whose blocks each meet a deadline."),
    ]
}

pub(crate) static VOLUME: Lazy = Lazy::new(|| {
    let mut keys = vec![
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The volume's name, unique among all volumes: clients open it by this name.",
        )
        .required(),
        Key::new("disk", "the name of a disk", "The disk that the volume is placed on.").required(),
        clients(),
        Key::new(
            "size",
            "a size of whole sectors",
            "The volume's size; required without `same_as`.",
        ),
        Key::new("at", "a location in whole sectors, such as 20GiB", "The volume's first sector.")
            .or("the first gap that holds it"),
        Key::new(
            "same_as",
            "the name of a volume above, on the same disk",
            "The volume whose sectors this one shares, under a contract of its own.",
        ),
        Key::new(
            "iops",
            "a rate such as 60/s",
            "Requests a second that the reserve is derived from.",
        ),
        Key::new(
            "bandwidth",
            "bytes a second such as 20MB/s",
            "Bytes a second that the reserve is derived from.",
        ),
        Key::new(
            "run",
            numbers(1, l::RUN_MAX),
            "Consecutive sequential requests that a declared rate assumes.",
        )
        .or("1"),
        Key::new(
            "block",
            sizes(l::BLOCK_MIN, l::BLOCK_MAX),
            "The request size that a declared rate assumes.",
        )
        .or(size_text(d::BLOCK)),
    ];
    keys.extend(contract());
    TableKeys::new("[[volume]]", "A volume on one disk, with its contract.", keys)
});

pub(crate) static STREAM: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new("bandwidth", "bytes a second such as 817KB/s", "The guaranteed bandwidth.")
            .required(),
        Key::new(
            "block",
            sizes(l::BLOCK_MIN, l::BLOCK_MAX),
            "The request size; one block is due in each period of block ÷ bandwidth.",
        )
        .required(),
        Key::new(
            "range",
            "two locations on the volume such as 0GiB..2GiB",
            "The part of the volume that the guarantee covers; not for a pool's volume.",
        )
        .or("the whole volume"),
        Key::new(
            "span",
            "a start and an end such as [\"0s\", \"2h\"]",
            "When the guarantee holds, from the start of the run or of the daemon.",
        )
        .or("always"),
    ];
    let about = "A bandwidth whose blocks each meet a deadline.";
    TableKeys::new("[[volume]] stream", about, keys)
});

pub(crate) static POOL: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new(
            "disks",
            format!("a list of at most {} names of disks", l::DISKS_MAX),
            "The disks that belong to the pool.",
        )
        .required(),
        Key::new("metadata_share", "a share above 0%", "Each disk's reserve for pool metadata.")
            .formerly("metadata")
            .or(d::METADATA_SHARE.to_string()),
        Key::new(
            "relocation_share",
            "a share above 0%",
            "Each disk's reserve and limit for relocating blocks.",
        )
        .formerly("reorganise")
        .or(d::RELOCATION_SHARE.to_string()),
        Key::new(
            "volume",
            format!("tables, at most {}", l::POOL_VOLUMES_MAX),
            "The pool's volumes, each with its contract.",
        ),
    ];
    TableKeys::new("[pool]", "Disks whose space is shared by the pool's volumes.", keys)
});

pub(crate) static POOL_VOLUME: Lazy = Lazy::new(|| {
    let mut keys = vec![
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The volume's name, unique among all volumes.",
        )
        .required(),
        clients(),
        Key::new("size", "a size of whole MiB", "The size with which the volume is created.")
            .required(),
        Key::new("disks", "a list of names of the pool's disks", "The disks it is placed on.")
            .or("all disks of the pool"),
        Key::new(
            "layout",
            "\"single\", \"stripe\" or \"random\"",
            "How consecutive blocks are placed on the disks.",
        )
        .or("\"single\""),
        Key::new("zone", "\"fast\", \"slow\" or \"any\"", "The part of the disks it is placed on.")
            .or("\"any\""),
        Key::new("thin", BOOLEAN, "Whether blocks are allocated when first written.").or("false"),
        Key::new(
            "from",
            "a table in braces",
            "The placement from which the volume's blocks are being relocated.",
        ),
    ];
    keys.extend(contract());
    TableKeys::new("[[pool.volume]]", "A volume of the pool, with its contract.", keys)
});

pub(crate) static FROM: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new("zone", "\"fast\", \"slow\" or \"any\"", "The earlier part of the disks.")
            .required(),
        Key::new("disks", "a list of names of the pool's disks", "The earlier disks.").required(),
    ];
    TableKeys::new("[[pool.volume]] from", "A placement that is being left.", keys)
});

fn synthetic() -> Vec<Key> {
    vec![
        Key::new(
            "op",
            "\"read\", \"write\" or \"mix\"",
            "The operation; required without access = \"trace\".",
        ),
        Key::new("read_share", SHARE, "The share of reads; required with op = \"mix\"."),
        Key::new(
            "access",
            "\"sequential\", \"random\", \"stream\" or \"trace\"",
            "The locations of the requests.",
        )
        .required(),
        Key::new("run", numbers(1, l::RUN_MAX), "Sequential requests before a jump.")
            .or("no jumps"),
        Key::new("block", sizes(l::BLOCK_MIN, l::BLOCK_MAX), "The size of each request."),
        Key::new(
            "outstanding",
            numbers(1, l::OUTSTANDING_MAX.into()),
            "Requests in flight: a closed loop.",
        ),
        Key::new(
            "think",
            times(Duration::ZERO, l::TIME_MAX),
            "The pause between a completion and the next request of a closed loop.",
        )
        .or("0s"),
        Key::new("rate", "a rate such as 60/s", "Requests a second: an open loop."),
        Key::new("arrivals", "\"constant\" or \"poisson\"", "The arrival process of an open loop.")
            .or("\"constant\""),
        Key::new(
            "elevator",
            numbers(1, l::ELEVATOR_MAX),
            "Random requests that are generated at a time and sent in the order of their \
             locations.",
        ),
    ]
}

pub(crate) static WORKLOAD: Lazy = Lazy::new(|| {
    let volume = Key::new("volume", "the name of a volume", "The volume that is loaded.");
    let mut keys = vec![volume.required()];
    keys.extend(synthetic());
    keys.extend([
        Key::new("start", times(Duration::ZERO, l::TIME_MAX), "When the first request arrives.")
            .or("0s"),
        Key::new(
            "stop",
            times(Duration::from_nanos(1), l::TIME_MAX),
            "When requests end; after `start`.",
        )
        .or("the end of the run"),
        Key::new("file", PATH, "The trace; required with access = \"trace\"."),
        Key::new("format", format!("one of {}", trace::Format::names()), "The trace's format.")
            .or("recognised from its beginning"),
        Key::new("device", "a whole number", "The device whose requests are replayed.").or("all"),
        Key::new(
            "scale",
            "a factor such as 0.5",
            "The factor by which the trace's times are multiplied.",
        )
        .or("1"),
        Key::new(
            "remap",
            "\"refuse\" or \"modulo\"",
            "What happens to a request past the volume's end.",
        )
        .or("\"refuse\""),
    ]);
    TableKeys::new("[[workload]]", "A stream of requests that a simulation sends.", keys)
});
