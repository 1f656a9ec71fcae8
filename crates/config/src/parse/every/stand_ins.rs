//! Values that take the place of refused ones, so that the rest of a table, and the tables that
//! refer to it, are still checked.
//!
//! A stand-in asks for as little as it can: what does not fit beside it fits beside no right value.
//! Where no value is the least demanding there are several, and the config is checked with each of
//! them ([`VARIANTS`]): what is refused beside one of them alone may be right beside the value that
//! was meant.

/// How often a config with errors is checked, each time with other stand-ins.
pub(super) const VARIANTS: usize = 4;

/// What is done to a table in which a key is refused or missing.
pub(super) struct StandIn {
    /// Keys that are removed.
    pub(super) removes: &'static [&'static str],
    /// Keys and values, in TOML, one text a variant.
    pub(super) sets: &'static [&'static str],
}

/// A rule: where a table with one of these headers has a key `beside` (if it is not empty), the
/// stand-in for `key`.
struct Rule {
    headers: &'static [&'static str],
    key: &'static str,
    beside: &'static str,
    stand_in: StandIn,
}

const DISK: &[&str] = &["disk"];
const VOLUMES: &[&str] = &["volume", "pool.volume"];
const LATENCIES: &[&str] = &["volume.latency", "pool.volume.latency"];
const STREAMS: &[&str] = &["volume.stream", "pool.volume.stream"];
const WORKLOAD: &[&str] = &["workload"];
const TLS: &[&str] = &["nbd"];

const fn rule(
    headers: &'static [&'static str],
    key: &'static str,
    beside: &'static str,
    sets: &'static [&'static str],
) -> Rule {
    Rule { headers, key, beside, stand_in: StandIn { removes: &[], sets } }
}

/// A real disk that cannot be looked at becomes an emulated one.
const fn emulated(key: &'static str) -> Rule {
    let removes = &["path", "profile", "buffered", "adopt", "io_uring"];
    Rule { headers: DISK, key, beside: "", stand_in: StandIn { removes, sets: DRIVES } }
}

/// Drives of different sizes with an arm, and without.
const DRIVES: &[&str] = &["drive = \"nearline-20t\"", "drive = \"hgst-7k8\""];
const FLASH: &[&str] = &["drive = \"intel-p4500-2t\"", "drive = \"samsung-870evo-1t\""];

const PREEMPTIBLE: &[&str] = &["execution = \"preemptible\"\nchunk = \"256KiB\""];

/// The first rule that fits holds.
const RULES: &[Rule] = &[
    rule(&[""], "duration", "", &["duration = \"1s\""]),
    rule(TLS, "tls", "certificate", &["tls = \"required\""]),
    rule(TLS, "tls", "key", &["tls = \"required\""]),
    rule(TLS, "tls", "client_ca", &["tls = \"required\""]),
    rule(TLS, "certificate", "", &["certificate = \"certificate.pem\""]),
    rule(TLS, "key", "", &["key = \"key.pem\""]),
    rule(&["log"], "record", "", &["record = \"flight\""]),
    rule(DISK, "drive", "size", &["drive = \"null\""]),
    rule(DISK, "drive", "worst_case", FLASH),
    rule(DISK, "drive", "", DRIVES),
    rule(DISK, "size", "", &["size = \"8GiB\""]),
    emulated("path"),
    emulated("profile"),
    rule(DISK, "policy", "nominal_rate", &["policy = \"throughput\"\nnominal_rate = \"60/s\""]),
    rule(
        DISK,
        "policy",
        "",
        &[
            "policy = \"spindle\"",
            "policy = \"throughput\"\nnominal_rate = \"60/s\"",
            "policy = \"utilization\"",
            "policy = \"delta-l\"\ndepth = 1",
        ],
    ),
    rule(DISK, "unkept_contracts", "", &["unkept_contracts = \"allowed\""]),
    rule(DISK, "period", "", &["period = \"10s\"", ""]),
    rule(DISK, "nominal_rate", "", &["nominal_rate = \"60/s\""]),
    rule(DISK, "execution", "split", &["execution = \"whole\""]),
    rule(DISK, "execution", "chunk", &["execution = \"preemptible\""]),
    rule(DISK, "execution", "jit_offset", PREEMPTIBLE),
    rule(DISK, "execution", "approach", PREEMPTIBLE),
    rule(DISK, "execution", "seek_split", PREEMPTIBLE),
    rule(DISK, "execution", "free_prefetch", PREEMPTIBLE),
    rule(DISK, "execution", "preempt_writes", PREEMPTIBLE),
    rule(
        DISK,
        "execution",
        "",
        &["execution = \"preemptible\"\nchunk = \"256KiB\"", "execution = \"whole\""],
    ),
    rule(DISK, "chunk", "", &["chunk = \"256KiB\""]),
    rule(DISK, "write_buffer", "write_age", &["write_buffer = \"1MiB\""]),
    rule(DISK, "worst_case", "", &["worst_case = { command = \"1ms\", rate = \"1GB/s\" }"]),
    rule(&["disk.worst_case"], "command", "", &["command = \"1ms\""]),
    rule(&["disk.worst_case"], "rate", "", &["rate = \"1GB/s\""]),
    rule(&["disk.best_effort"], "share", "", &["share = \"5%\""]),
    rule(VOLUMES, "size", "", &["size = \"1MiB\"", "size = \"1GiB\"", "size = \"100GiB\""]),
    rule(VOLUMES, "same_as", "size", &[""]),
    rule(VOLUMES, "same_as", "", &["size = \"1MiB\"", "size = \"1GiB\"", "size = \"100GiB\""]),
    rule(VOLUMES, "iops", "", &["iops = \"0.001/s\""]),
    rule(VOLUMES, "bandwidth", "", &["bandwidth = \"1B/s\""]),
    rule(LATENCIES, "within", "", &["within = \"1s\""]),
    rule(LATENCIES, "requests", "", &["requests = \"0.1/s\""]),
    rule(LATENCIES, "size", "", &["size = \"4KiB\""]),
    rule(STREAMS, "bandwidth", "", &["bandwidth = \"10kB/s\""]),
    rule(STREAMS, "block", "", &["block = \"1MiB\"", "block = \"64KiB\""]),
    rule(&["pool.volume.from"], "zone", "", &["zone = \"any\""]),
    rule(&["change"], "at", "", &["at = \"1s\""]),
    rule(&["change"], "action", "name", &["action = \"snapshot\""]),
    rule(WORKLOAD, "op", "read_share", &["op = \"mix\""]),
    rule(WORKLOAD, "op", "flush_every", &["op = \"write\""]),
    rule(WORKLOAD, "op", "", &["op = \"read\"", "op = \"write\""]),
    rule(WORKLOAD, "read_share", "", &["read_share = \"50%\""]),
    rule(WORKLOAD, "access", "file", &["access = \"trace\""]),
    rule(WORKLOAD, "access", "run", &["access = \"sequential\""]),
    rule(WORKLOAD, "access", "elevator", &["access = \"random\""]),
    rule(WORKLOAD, "access", "", &["access = \"random\"", "access = \"stream\""]),
    rule(WORKLOAD, "block", "", &["block = \"4KiB\""]),
    rule(WORKLOAD, "outstanding", "", &["outstanding = 1"]),
    rule(WORKLOAD, "burst", "", &["burst = 1"]),
    rule(WORKLOAD, "rate", "", &["rate = \"1/s\""]),
    rule(WORKLOAD, "stop", "", &["stop = \"9000000s\""]),
    rule(&["workload.think"], "exponential", "", &["exponential = \"1ms\""]),
];

/// The stand-in for a key of a table; `has` says which other keys the table has.
pub(super) fn stand_in(
    header: &str,
    key: &str,
    has: impl Fn(&str) -> bool,
) -> Option<&'static StandIn> {
    let fits = |rule: &&Rule| {
        rule.headers.contains(&header)
            && rule.key == key
            && (rule.beside.is_empty() || has(rule.beside))
    };
    RULES.iter().find(fits).map(|rule| &rule.stand_in)
}

/// A disk for tables that refer to none, and a volume on it.
pub(super) const SPARE_DISK: &str = "drive = \"nearline-20t\"";
pub(super) const SPARE_VOLUME: &str = "size = \"1TiB\"";
