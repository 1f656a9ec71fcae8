//! Every limit on a config, in one place.
//!
//! They keep each value that is computed from a plan within its type: a time of [`TIME_MAX`] fits
//! the signed nanoseconds of disk time, a run of blocks fits a count of bytes.

pub use input::{INTERVAL_MIN, TIME_MAX};
use units::{Bytes, Duration, SECTOR_BYTES, Share};

/// Bytes of a config file. A larger file is refused without reading all of it.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Errors of one config that are reported together.
pub const ERRORS_MAX: usize = 64;
/// How often the tables of a config with errors are read with one set of stand-ins: an error may
/// need several.
pub(crate) const CHECK_STEPS_MAX: usize = 8 * ERRORS_MAX;
/// Disks of one plan.
pub const DISKS_MAX: usize = 64;
/// The smallest real disk, and the smallest disk in memory.
pub const DISK_SIZE_MIN: Bytes = Bytes(1 << 20);
/// The largest disk in memory.
pub const MEMORY_SIZE_MAX: Bytes = Bytes(8 << 30);
/// Volumes of one plan.
pub const VOLUMES_MAX: usize = 10_000;
/// Volumes of one pool: the capacity of its metadata.
pub const POOL_VOLUMES_MAX: usize = volume::pool::limits::VOLUMES_MAX;
/// Workloads of one plan.
pub const WORKLOADS_MAX: usize = 10_000;
/// Addresses to listen on.
pub const LISTEN_MAX: usize = 16;
/// Connections at once, to all volumes together or to one.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Requests in flight on one connection.
pub const CONNECTION_REQUESTS_MAX: usize = 256;
/// The smallest payload limit of a connection: the protocol requires requests of this size.
pub const CONNECTION_MEMORY_MIN: Bytes = Bytes(1 << 20);
/// The largest payload limit of a connection.
pub const CONNECTION_MEMORY_MAX: Bytes = Bytes(64 << 20);
/// The shortest time-out of a handshake, or of a message in progress.
pub const PATIENCE_MIN: Duration = Duration::from_millis(1);
/// The longest.
pub const PATIENCE_MAX: Duration = Duration::from_secs(86_400);
/// The shortest latency that can be configured as slow.
pub const SLOW_MIN: Duration = Duration::from_micros(1);
/// The smallest limit on all flight records: some minutes of a busy disk.
pub const RECORD_BYTES_MIN: Bytes = Bytes(1 << 20);
/// The largest limit on all flight records.
pub const RECORD_BYTES_MAX: Bytes = Bytes(1 << 40);
/// Clients that a volume lists.
pub const CLIENTS_MAX: usize = 64;
/// Bytes of a disk's or a volume's name. A client opens a volume by it, and file systems accept no
/// more.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of the name of a failure domain.
pub const DOMAIN_BYTES_MAX: usize = 63;
/// Labels of a volume.
pub const LABELS_MAX: usize = 16;
/// Bytes of a label's name, as for names of labels in Kubernetes.
pub const LABEL_NAME_BYTES_MAX: usize = 63;
/// Bytes of a label's value: a name of an object in Kubernetes fits.
pub const LABEL_VALUE_BYTES_MAX: usize = 253;
/// Bytes of a path on Linux.
pub const PATH_BYTES_MAX: usize = 4_095;
/// Bytes of a Unix socket's path on Linux.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Commands in flight inside a drive: SATA drives take 32, `NVMe` drives more.
pub const DEPTH_MAX: u32 = 256;
/// The shortest accounting period: a few random requests long, otherwise no share could be
/// guaranteed.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);
/// The longest accounting period: a volume that used up its share may wait for the next period.
pub const PERIOD_MAX: Duration = Duration::from_secs(10);
/// The longest wait for the next request of a sequential run: a seek costs less than a longer one.
pub const LINGER_MAX: Duration = Duration::from_millis(20);
/// The longest time that a disk is out before a spare takes its place: a week without a copy is as
/// good as no spare.
pub const SPARE_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The shortest time from which on an answer of a pool's disk can be called slow: a healthy drive
/// takes up to half of it for a command among 32.
pub const SLOW_AFTER_MIN: Duration = Duration::from_millis(500);
/// The longest.
pub const SLOW_AFTER_MAX: Duration = Duration::from_secs(3600);
/// The shortest estimate of a request. Not zero: a request without cost would not be accounted for.
pub const ESTIMATE_MIN: Duration = Duration::from_micros(1);
/// The longest lateness of a host: with more, streams cannot be admitted in any useful number.
pub const HOST_LATENESS_MAX: Duration = Duration::from_secs(1);

/// The shortest worst case of a command, apart from its transfer.
pub const WORST_COMMAND_MIN: Duration = Duration::from_micros(1);
/// The longest worst case of a command, apart from its transfer: with more, deadlines cannot be
/// kept in any useful number.
pub const WORST_COMMAND_MAX: Duration = Duration::from_secs(10);
/// The least rate of a transfer in the worst case, in bytes a second.
pub const WORST_RATE_MIN: Bytes = Bytes(1_000_000);

/// The least bandwidth of a bus, in bytes a second.
pub const BUS_BANDWIDTH_MIN: Bytes = Bytes(100_000);
/// The largest: a sector takes some nanoseconds.
pub const BUS_BANDWIDTH_MAX: Bytes = Bytes(100_000_000_000);
/// The largest burst of a bus: a longer one would be a command.
pub const BUS_BURST_MAX: Bytes = Bytes(16 << 20);

/// The smallest share of its speed to which a drive is slowed.
pub const SLOWED_MIN: Share = Share::from_percent(1);

/// The shortest delay of a stalled command.
pub const FAULT_STALL_MIN: Duration = Duration::from_micros(1);
/// The longest.
pub const FAULT_STALL_MAX: Duration = Duration::from_secs(600);

/// Changes of the pool in a simulation: as many as a pool takes at a time.
pub const POOL_CHANGES_MAX: usize = volume::pool::flow::CHANGES_MAX;

/// The smallest request.
pub const BLOCK_MIN: Bytes = Bytes(SECTOR_BYTES);
/// The largest request: what NBD clients may send in one piece.
pub const BLOCK_MAX: Bytes = Bytes(32 << 20);
/// Requests of one workload in flight.
pub const OUTSTANDING_MAX: u32 = 4_096;
/// Requests of all closed loops on one disk in flight: half of the engine's capacity, the other
/// half being for open loops.
pub const OUTSTANDING_DISK_MAX: u32 = 1 << 19;
const _: () = assert!(OUTSTANDING_DISK_MAX as usize <= engine::limits::REQUESTS_MAX / 2);
/// The shortest time after which written data is sent to the disk.
pub const WRITE_AGE_MIN: Duration = Duration::from_millis(100);
/// The most memory for the write buffers of all disks together.
pub const WRITE_BUFFER_PROCESS_MAX: Bytes = Bytes(64 << 30);
/// Requests of a sequential run before a jump.
pub const RUN_MAX: u64 = 1_000_000_000;
/// Writes of a workload between two flushes.
pub const FLUSH_EVERY_MAX: u32 = 1_000_000;
/// Requests that an elevator sorts at a time.
pub const ELEVATOR_MAX: u64 = 65_536;

const _: () = assert!(PERIOD_MIN.as_nanos() < PERIOD_MAX.as_nanos());
const _: () = assert!(LINGER_MAX.as_nanos() < PERIOD_MIN.as_nanos());
const _: () = assert!(ESTIMATE_MIN.as_nanos() < PERIOD_MIN.as_nanos());
const _: () = assert!(PERIOD_MAX.as_nanos() < TIME_MAX.as_nanos());
const _: () = assert!(DISKS_MAX <= volume::pool::limits::DISKS_MAX);
const _: () = assert!(NAME_BYTES_MAX <= volume::pool::limits::NAME_BYTES_MAX);
// The bookings of a pool's disk: each volume, the metadata, relocation, and the best-effort server.
const _: () = assert!(POOL_VOLUMES_MAX + 4 <= engine::limits::BOOKINGS_MAX);
const _: () = assert!(RUN_MAX < u64::MAX / BLOCK_MAX.0);
const _: () = assert!(BLOCK_MIN.0 <= BLOCK_MAX.0 && BLOCK_MAX.0.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(DISKS_MAX <= VOLUMES_MAX && SOCKET_PATH_BYTES_MAX < PATH_BYTES_MAX);
