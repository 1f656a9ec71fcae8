//! The JSON that goes over the API. Quantities that a client sets are texts as in the config; what was measured comes as
//! numbers in the unit of the field's name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::pool::PoolVolume;
use crate::problem::Fault;

/// A volume to be made, or to be asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// The name that clients open it by: 1 to 255 bytes, printable, without `/`, `\` and quotes.
    #[schema(example = "vm1")]
    pub name: String,
    /// The disk that it is to lie on.
    #[schema(example = "d0")]
    pub disk: String,
    /// Its size: whole sectors of 512 bytes.
    #[schema(example = "10GiB")]
    pub size: String,
    /// Its share of the disk's time in every period. Without: nothing.
    #[schema(example = "30%")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<String>,
    /// The most it gets, at least the reserve. Without: all.
    #[schema(example = "60%")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Its part of the slack beside others, 1 to 1000. Without: 1.
    #[schema(example = 2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// What it is promised by deadlines, in place of a reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
}

/// A stream: blocks that come at a rate, each served before the next is due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Bytes a second.
    #[schema(example = "817KB/s")]
    pub bandwidth: String,
    /// Bytes a request, up to 32MiB.
    #[schema(example = "1MB")]
    pub block: String,
    /// The part of the volume that is played. Without: all of it.
    #[schema(example = "0GiB..2GiB")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// From when to when, counted from the daemon's start. Without: always.
    #[schema(example = json!(["0s", "2h"]))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<[String; 2]>,
}

/// What is to change of a volume. What is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// Its size. It grows into the free space behind it. To shrink, no client may have it open.
    #[schema(example = "20GiB")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Its share of the disk's time in every period; of the nominal rate, as `20/s`, where the policy is `throughput`. It
    /// takes the place of the `iops` or `bandwidth` that it was worked out from.
    #[schema(example = "30%")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<String>,
    /// The most it gets, at least the reserve.
    #[schema(example = "60%")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Its part of the slack beside others, 1 to 1000.
    #[schema(example = 2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// What it is promised by deadlines, in place of a reserve or another stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
    /// Take its stream away: it becomes best effort.
    #[serde(default)]
    pub drop_stream: bool,
    /// Disconnect the clients of a volume that shrinks.
    #[serde(default)]
    pub force: bool,
}

/// What is to change of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskChange {
    /// The period in which every reserve is kept.
    #[schema(example = "500ms")]
    pub period: String,
}

/// A volume: what it is promised, and what it has had since the daemon's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The disk it lies on; of a volume of the pool, the disks, with a `+` between them.
    pub disk: String,
    /// What that disk is good for.
    pub state: DiskState,
    /// Its size, as it can be typed back.
    pub size: String,
    /// The same in bytes.
    pub size_bytes: u64,
    /// Where it begins on its disk; a volume of the pool does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_bytes: Option<u64>,
    /// How it lies in the pool, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolVolume>,
    /// Its share of the disk's time in every period.
    pub reserve: String,
    /// The most it gets.
    pub limit: String,
    /// Its part of the slack.
    pub weight: u32,
    /// What it is promised by deadlines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Connections that have it open.
    pub connections: usize,
    /// Disk time charged.
    pub disk_time_s: f64,
    /// What it has saved up of its reserve, or owes if negative; nothing where the policy keeps no such books.
    pub balance_s: Option<f64>,
    /// Requests answered.
    pub requests: u64,
    /// Of those, failed.
    pub failures: u64,
    /// Read and written.
    pub bytes: u64,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// From each answered request's arrival to its answer, added up.
    pub request_time_s: f64,
    /// When all this was so: seconds since the daemon's start.
    pub told_at_s: f64,
    /// From a request's arrival to its answer. Told of one volume alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<LatencyMs>,
}

/// What a volume is promised by deadlines, and what became of them since the daemon's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stream {
    /// Bytes a second.
    pub bandwidth: String,
    /// Bytes a request.
    pub block: String,
    /// A block is due so long after its release, and the next is released then.
    pub period_ms: f64,
    /// What a block takes of the disk at most.
    pub cost_ms: f64,
    /// When it begins, counted from the daemon's start.
    pub from_s: f64,
    /// When it ends, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// Blocks answered by their deadline.
    pub met: u64,
    /// Blocks answered later.
    pub missed: u64,
    /// The latest answer after its deadline.
    pub lateness_max_ms: f64,
}

/// Latencies since the daemon's start, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencyMs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Of a hundred, the second longest.
    pub p99: f64,
    /// Of a thousand, the second longest.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// A disk: what it has promised, and what it has left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// The drive that it behaves like.
    pub drive: String,
    /// Who decides which request goes next.
    pub policy: String,
    /// Commands inside the drive at once.
    pub depth: u32,
    /// The period in which every reserve is kept.
    pub period: String,
    /// Volumes on it.
    pub volumes: usize,
    /// What they reserve of its time.
    pub reserved: String,
    /// What is left to reserve.
    pub left: String,
    /// What it holds.
    pub capacity_bytes: u64,
    /// What of that no volume has.
    pub free_bytes: u64,
    /// The largest piece of the free space: the largest volume that can be made. Of a disk of the pool none: the pool has it.
    pub gap_bytes: u64,
    /// Requests answered, since the daemon's start.
    pub requests: u64,
    /// Read and written.
    pub bytes: u64,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// How long it has had work, since the daemon's start.
    pub busy_s: f64,
    /// How long it has been served.
    pub uptime_s: f64,
    /// How a real disk's commands get to the kernel: `io_uring`, perhaps with `buffers not registered` behind a comma, or
    /// `threads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// What it is good for.
    pub state: DiskState,
    /// Reads that failed at the disk.
    pub read_failures: u64,
    /// Writes, trims and flushes that failed at the disk.
    pub write_failures: u64,
    /// Commands that it was not given, for its state.
    pub refused: u64,
    /// For how long the oldest of its commands has been under way, if one is: where a disk stalls, it shows here first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_command_ms: Option<f64>,
    /// What that command does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_command: Option<String>,
}

/// What a disk is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskState {
    /// Everything.
    Well,
    /// A flush failed, and something written before may be lost: until the daemon opens it again it is only read.
    Poisoned,
    /// It is not there any more: everything fails until the daemon opens it again.
    Gone,
}

/// What the deadlines of a disk leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Room {
    /// Streams and reserves on it, and the server of best effort.
    pub tasks: usize,
    /// The part of the disk's time that they ask for.
    pub utilization: f64,
    /// What best effort may take at any moment without anybody's being late: the ΔL of Clockwise.
    pub slack_ms: f64,
}

/// Would it fit; if not, what would?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Admission {
    /// Whether the volume could be made now.
    pub fits: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Fault>,
    /// The largest reserve that the disk has left.
    pub reserve_max: String,
    /// The largest size that the disk has room for.
    pub size_max: String,
    /// The same in bytes.
    pub size_max_bytes: u64,
    /// What deadlines leave of the disk: with the volume if it fits, without it if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
}

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident: $type:ty })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct $name {
            /// The version of this shape.
            pub schema: u32,
            $(#[$field_doc])*
            pub $field: $type,
        }

        impl From<$type> for $name {
            fn from($field: $type) -> Self {
                Self { schema: stats::SCHEMA, $field }
            }
        }
    )*};
}

answers! {
    /// One volume.
    VolumeAnswer {
        /// It.
        volume: Volume
    }
    /// All volumes.
    VolumesAnswer {
        /// In the order in which they came.
        volumes: Vec<Volume>
    }
    /// One disk.
    DiskAnswer {
        /// It.
        disk: Disk
    }
    /// All disks.
    DisksAnswer {
        /// In the config's order.
        disks: Vec<Disk>
    }
    /// What admission says.
    AdmissionAnswer {
        /// It.
        admission: Admission
    }
}
