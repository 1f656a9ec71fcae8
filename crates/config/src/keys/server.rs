//! The top of the file, and the tables of the daemon: `[listen]`, `[nbd]` and `[log]`.

use input::{Key, TableKeys, size_text, time_text};
use units::Duration;

use super::shapes::{BOOLEAN, Lazy, PATH, numbers, sizes, times};
use crate::limits as l;
use crate::plan::Nbd;
use crate::{RecordSettings, defaults as d};

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
        Key::new(
            "write_buffer_memory",
            format!("\"0\", or a size of at most {}", size_text(l::WRITE_BUFFER_PROCESS_MAX)),
            "The memory of the write buffers of all disks together.",
        )
        .or(size_text(d::WRITE_BUFFER_PROCESS.bytes())),
        Key::new("listen", "a table", "Addresses of the daemon."),
        Key::new("nbd", "a table", "Limits, authentication and encryption of NBD clients."),
        Key::new("log", "a table", "The log of slow requests, and flight records."),
        Key::new(
            "bus",
            format!("tables, at most {}", l::DISKS_MAX),
            "The buses that several disks share.",
        ),
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
            "change",
            format!("tables, at most {}", l::POOL_CHANGES_MAX),
            "The changes of the pool in a simulation.",
        ),
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
    let keys = vec![
        Key::new("nbd", shape, "Addresses on which NBD clients connect."),
        Key::new("vhost_user", PATH, "The directory of vhost-user sockets, `NAME.sock` a volume."),
    ];
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
