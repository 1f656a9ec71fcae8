//! The keys of a config: the reference page and `spindle.toml(5)`.

use core::fmt::Write as _;

use crate::markdown::{cell, head, paragraph};

/// A key of one of a config's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub value: &'static str,
    /// Its value where it is absent; `required` if there is none.
    pub default: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// A table of a config with its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The table as it is written: `[[disk]]`; empty for the top of the file.
    pub table: &'static str,
    /// What the table is.
    pub about: &'static str,
    /// Its keys, in the order of the page.
    pub keys: &'static [Key],
}

const fn key(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, value, default, meaning }
}

/// Every table, in the order of the page.
pub const TABLES: &[Keys] = &[
    Keys {
        table: "",
        about: "The top of the file.",
        keys: &[
            key("seed", "integer", "1", "The seed of a simulation."),
            key("duration", "time", "60s", "The virtual time of a simulation."),
            key("listen", "list of addresses", "none", "NBD: `unix:PATH` or `ADDRESS:PORT`."),
        ],
    },
    Keys {
        table: "[nbd]",
        about: "Limits on NBD clients, and TLS. Defaults are the maxima.",
        keys: &[
            key("list", "boolean", "true", "Whether exports are listed; else they open by name."),
            key("connections", "integer", "1024", "Connections of all volumes together."),
            key("volume_connections", "integer", "1024", "Connections of one volume."),
            key("requests", "integer", "256", "Requests of one connection at once."),
            key("memory", "size", "64MiB", "Payload of one connection at once."),
            key("handshake", "time", "10s", "How long a handshake may take."),
            key("stall", "time", "60s", "How long a message that has begun may make no progress."),
            key(
                "tls",
                "`off`, `allowed`, `required`",
                "off",
                "Whether clients may or must use TLS.",
            ),
            key("certificate", "path", "none", "The server's certificate, PEM."),
            key("key", "path", "none", "The certificate's key, PEM."),
            key(
                "client_ca",
                "path",
                "none",
                "Authorities that client certificates must come from.",
            ),
        ],
    },
    Keys {
        table: "[log]",
        about: "Slow requests and flight records.",
        keys: &[
            key("slow", "time", "none", "Requests that take at least this long are logged."),
            key("format", "`text`, `json`", "text", "The format of the log's lines."),
            key("record", "path", "none", "The directory of flight records."),
            key("record_max", "size", "256MiB", "The size of all flight records together."),
        ],
    },
    Keys {
        table: "[[disk]]",
        about: "A disk: emulated (`drive`), of memory (`drive = \"memory\"` or `\"null\"`), or real \
                (`path`).",
        keys: &[
            key("name", "text", "required", "Its name, unique among the disks."),
            key(
                "drive",
                "name or path",
                "none",
                "A drive of the library, a drive file, `memory` or \
                 `null`.",
            ),
            key("profile", "path", "none", "A measured profile."),
            key("path", "path", "none", "A block device or file, in place of `drive`."),
            key("buffered", "boolean", "false", "Whether a real disk uses the page cache."),
            key(
                "adopt",
                "boolean",
                "false",
                "Whether a partition table on a real disk is accepted as \
                 volumes' data.",
            ),
            key(
                "io_uring",
                "boolean",
                "true",
                "Whether a real disk may use io_uring; else threads.",
            ),
            key("size", "size", "none", "The size of a disk of memory."),
            key("backing", "`ram` or path", "ram", "Where an emulated disk's data is kept."),
            key(
                "policy",
                "name",
                "utilization",
                "`utilization`, `throughput`, `fcfs`, `edf`, `lst`, \
                 `delta-l` or `delta-star`.",
            ),
            key("depth", "1 to 32", "1", "Commands inside the drive at once."),
            key("period", "time", "1s", "The accounting period in which every reserve is kept."),
            key("batch", "time", "250ms", "The quantum out of the slack; 0 ms: no quanta."),
            key(
                "linger",
                "time",
                "2ms",
                "How long the disk waits for the next request of a \
                 sequential run.",
            ),
            key(
                "estimate",
                "`constants`, `profile`, `learned`",
                "constants",
                "The estimator of a \
                 command's disk time.",
            ),
            key("estimate_sequential", "time", "300us", "The estimate of a sequential command."),
            key("estimate_random", "time", "20ms", "The estimate of any other command."),
            key(
                "nominal_rate",
                "rate",
                "the worst case's",
                "Commands a second under \
                 `throughput`.",
            ),
            key("unreserved", "share", "0%", "The share that admission keeps back."),
            key("execution", "`whole`, `preemptible`", "whole", "How requests become commands."),
            key("split", "size", "none", "The longest command of whole execution."),
            key(
                "chunk",
                "size, `auto`",
                "auto",
                "The length of a command of preemptible execution.",
            ),
            key(
                "jit_offset",
                "time, `off`",
                "1ms",
                "How much earlier than predicted the head is to \
                 arrive.",
            ),
            key(
                "approach",
                "`ahead`, `in-time`",
                "ahead",
                "Whether a seek command or the transfer \
                 itself moves the arm.",
            ),
            key("seek_split", "`hidden`, `off`, cylinders", "hidden", "When long seeks are split."),
            key("free_prefetch", "boolean", "false", "Whether slack is used to read on."),
            key("preempt_writes", "boolean", "true", "Whether writes are split too."),
            key(
                "host_lateness",
                "time",
                "1ms",
                "What the host adds to each command, for deadlines.",
            ),
            key(
                "best_effort",
                "table",
                "none",
                "A server for best effort beside deadlines: `share` \
                 and `period`.",
            ),
            key(
                "range",
                "`all`, `paper`",
                "all",
                "The intervals that ΔL is taken over (`delta-l`, \
                 for experiments).",
            ),
            key(
                "faults",
                "table",
                "none",
                "Injected faults: `seed`, `read`, `write`, `flush`, \
                 `stall`, `stall_for`, `vanish_after`.",
            ),
        ],
    },
    Keys {
        table: "[[volume]]",
        about: "A volume of a disk.",
        keys: &[
            key("name", "text", "required", "Its name, unique among all volumes."),
            key("disk", "name", "required", "The disk it lies on."),
            key("size", "size", "required", "Its size."),
            key("at", "offset", "the first gap", "Where it begins on its disk."),
            key("same_as", "name", "none", "Another volume whose sectors it has."),
            key("reserve", "share or rate", "0%", "Its guaranteed share of the disk's time."),
            key("limit", "share", "100%", "The most that it receives, slack included."),
            key("weight", "1 to 1000", "1", "Its part of the slack."),
            key("priority", "`normal`, `high`", "normal", "Whether it is served before others."),
            key("iops", "rate", "none", "Requests a second that a reserve is computed from."),
            key(
                "bandwidth",
                "rate of bytes",
                "none",
                "Bytes a second that a reserve is computed \
                 from.",
            ),
            key(
                "run",
                "integer",
                "1",
                "Requests in a row before a jump, for `iops` and `bandwidth`.",
            ),
            key("block", "size", "4KiB", "The size of such a request."),
            key("stream", "table", "none", "A stream: `bandwidth`, `block`, `range`, `span`."),
            key(
                "clients",
                "list",
                "any client",
                "Clients that may open it: `CN=NAME` or \
                 `sha256:FINGERPRINT`.",
            ),
        ],
    },
    Keys {
        table: "[pool]",
        about: "Disks whose space is shared.",
        keys: &[
            key("disks", "list of names", "required", "The disks that belong to it."),
            key("metadata", "share", "1%", "Each disk's time for the pool's metadata."),
            key("reorganise", "share", "5%", "Each disk's time for moving blocks."),
        ],
    },
    Keys {
        table: "[[pool.volume]]",
        about: "The contract of a volume of the pool.",
        keys: &[
            key("name", "text", "required", "Its name, unique among all volumes."),
            key("size", "size", "required", "Its size when it is created, whole MiB."),
            key("disks", "list of names", "all of the pool", "The disks it lies on."),
            key(
                "layout",
                "`single`, `stripe`, `random`",
                "single",
                "How blocks follow each other.",
            ),
            key("zone", "`fast`, `slow`, `any`", "any", "The part of each disk that it lies on."),
            key("thin", "boolean", "false", "Whether blocks are allocated on first write."),
            key("from", "name", "none", "The snapshot that it is."),
            key("reserve", "share", "0%", "Its guaranteed share of each of its disks' time."),
            key("limit", "share", "100%", "The most that it receives of each disk."),
            key("weight", "1 to 1000", "1", "Its part of the slack."),
            key("priority", "`normal`, `high`", "normal", "Whether it is served before others."),
            key("stream", "table", "none", "A stream: `bandwidth`, `block`, `range`, `span`."),
            key("clients", "list", "any client", "Clients that may open it."),
        ],
    },
    Keys {
        table: "[[workload]]",
        about: "A load on a volume, in simulation alone.",
        keys: &[
            key("volume", "name", "required", "The volume that it loads."),
            key("op", "`read`, `write`, `mix`", "required", "What its requests do."),
            key("read_share", "share", "required for `mix`", "The share of reads."),
            key(
                "access",
                "`sequential`, `random`, `stream`, `trace`",
                "required",
                "Where its \
                 requests go.",
            ),
            key("run", "integer", "none", "Requests of a sequential run before a jump."),
            key("block", "size", "required", "The size of a request."),
            key("outstanding", "integer", "1", "Requests at once: a closed loop."),
            key("think", "time", "0ms", "The pause between a reply and the next request."),
            key("rate", "rate", "none", "Requests a second: an open loop."),
            key("arrivals", "`constant`, `poisson`", "constant", "The arrivals of an open loop."),
            key(
                "elevator",
                "integer",
                "none",
                "The number of random requests that are sorted at a \
                 time.",
            ),
            key("start", "time", "0s", "When it begins."),
            key("stop", "time", "never", "When it ends."),
            key("file", "path", "required for `trace`", "The trace."),
            key("format", "name", "from its content", "The trace's format."),
            key("device", "integer", "all", "The device of the trace that is replayed."),
            key("scale", "factor", "1", "What the trace's times are multiplied by."),
            key(
                "remap",
                "`refuse`, `modulo`",
                "refuse",
                "What happens to requests past the volume's \
                 end.",
            ),
        ],
    },
];

/// The reference page.
pub(crate) fn page() -> String {
    let mut text = head("Configuration keys", "`crates/docgen/src/keys.rs`");
    text.push_str(&paragraph(INTRODUCTION));
    for Keys { table, about, keys } in TABLES {
        let title = if table.is_empty() { "Top level" } else { table };
        let _ = writeln!(text, "\n## {}\n", title.trim_matches(['[', ']']));
        if !table.is_empty() {
            let _ = write!(text, "`{table}` ");
        }
        text.push_str(&paragraph(about));
        text.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
        for Key { name, value, default, meaning } in *keys {
            let (value, meaning) = (cell(value), cell(meaning));
            let _ = writeln!(text, "| `{name}` | {value} | {default} | {meaning} |");
        }
    }
    text
}

const INTRODUCTION: &str = "A config for `spindle serve` and a scenario for `spindle sim run` have \
     one format, TOML. `serve` ignores `[[workload]]`, `seed` and `duration`; a simulation ignores \
     addresses and data. An unknown key is refused with its line. Sizes, times, rates and shares are \
     quantities in quotes: `\"4KiB\"`, `\"1s\"`, `\"60/s\"`, `\"30%\"`. Paths are relative to the \
     config.";

/// `spindle.toml(5)`.
pub(crate) fn man() -> String {
    let mut text = String::from(
        ".TH spindle.toml 5 \"\" \"spindle\" \"File formats\"\n.SH NAME\nspindle.toml \\- the config \
         of spindle serve and the scenario of spindle sim run\n.SH DESCRIPTION\n",
    );
    let _ = writeln!(text, "{}", roff(INTRODUCTION));
    for Keys { table, about, keys } in TABLES {
        let title = if table.is_empty() { "Top level" } else { table };
        let _ = writeln!(text, ".SH \"{title}\"\n{}", roff(about));
        for Key { name, value, default, meaning } in *keys {
            let value = roff(value);
            let _ = writeln!(text, ".TP\n.B {name}\n({value}; default: {})", roff(default));
            let _ = writeln!(text, "{}", roff(meaning));
        }
    }
    text.push_str(".SH SEE ALSO\n.BR spindle (1),\n.BR spindle-serve (1)\n");
    text
}

/// Text as roff: code spans in bold, hyphens and leading full stops escaped.
fn roff(text: &str) -> String {
    let mut out = String::new();
    for (nth, part) in text.split('`').enumerate() {
        let part = part.replace('\\', "\\e").replace('-', "\\-");
        let is_code = nth % 2 == 1;
        out.push_str(&if is_code { format!("\\fB{part}\\fR") } else { part });
    }
    if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_of_a_table_is_described_twice() {
        for Keys { table, keys, .. } in TABLES {
            for (nth, key) in keys.iter().enumerate() {
                assert!(keys[..nth].iter().all(|k| k.name != key.name), "{table} {}", key.name);
            }
        }
    }
}
