//! Every limit on a config, in one place.
//!
//! They keep whatever is computed from a plan within its type: a time of [`TIME_MAX`] fits the signed
//! nanoseconds of disk time, a run of blocks fits a count of bytes.

pub use input::{INTERVAL_MIN, TIME_MAX};
use units::{Bytes, Duration, SECTOR_BYTES};

/// Bytes of a config file. A bigger one is refused before it is read whole.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Disks of one plan.
pub const DISKS_MAX: usize = 64;
/// The smallest real disk, and the smallest of memory.
pub const DISK_SIZE_MIN: Bytes = Bytes(1 << 20);
/// The largest disk of memory: as much as the daemon holds of one.
pub const MEMORY_SIZE_MAX: Bytes = Bytes(8 << 30);
/// Volumes of one plan.
pub const VOLUMES_MAX: usize = 10_000;
/// Volumes of one pool: what its metadata hold.
pub const POOL_VOLUMES_MAX: usize = volume::pool::limits::VOLUMES_MAX;
/// Workloads of one plan.
pub const WORKLOADS_MAX: usize = 10_000;
/// Addresses to listen on.
pub const LISTEN_MAX: usize = 16;
/// Connections at once, of all volumes together or of one.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Requests of one connection at once.
pub const CONNECTION_REQUESTS_MAX: usize = 256;
/// The least payload of one connection at once: what the protocol wants to be taken in one piece.
pub const CONNECTION_MEMORY_MIN: Bytes = Bytes(1 << 20);
/// The most payload of one connection at once.
pub const CONNECTION_MEMORY_MAX: Bytes = Bytes(64 << 20);
/// The shortest time that a client can be given for a handshake, or for a message to move.
pub const PATIENCE_MIN: Duration = Duration::from_millis(1);
/// The longest.
pub const PATIENCE_MAX: Duration = Duration::from_secs(86_400);
/// The shortest time from which on a request can be called slow.
pub const SLOW_MIN: Duration = Duration::from_micros(1);
/// The least that flight records may take together: some minutes of a busy disk.
pub const RECORD_BYTES_MIN: Bytes = Bytes(1 << 20);
/// The most that flight records may take together.
pub const RECORD_BYTES_MAX: Bytes = Bytes(1 << 40);
/// Clients that a volume names.
pub const CLIENTS_MAX: usize = 64;
/// Bytes of a disk's or a volume's name. A client asks for a volume by it, and file systems take no more.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a path, as Linux has it.
pub const PATH_BYTES_MAX: usize = 4_095;
/// Bytes of a Unix socket's path, as Linux has it.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Commands inside a drive at once: what one SATA queue holds.
pub const DEPTH_MAX: u32 = 32;
/// The shortest accounting period: a few random requests long, or no share could be kept in it.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);
/// The longest accounting period: a volume that used its share up may wait so long for the next.
pub const PERIOD_MAX: Duration = Duration::from_secs(10);
/// The longest wait for the next request of a sequential run: a seek costs less than a longer one.
pub const LINGER_MAX: Duration = Duration::from_millis(20);
/// The shortest estimate of a request. Not zero: a request that costs nothing is never accounted for.
pub const ESTIMATE_MIN: Duration = Duration::from_micros(1);
/// The longest that a host may be said to be late for a command: a stream that has to reckon with more has no use for a disk.
pub const HOST_LATENESS_MAX: Duration = Duration::from_secs(1);

/// The shortest time that a command can be made to stall for.
pub const FAULT_STALL_MIN: Duration = Duration::from_micros(1);
/// The longest.
pub const FAULT_STALL_MAX: Duration = Duration::from_secs(600);

/// The smallest request.
pub const BLOCK_MIN: Bytes = Bytes(SECTOR_BYTES);
/// The largest request: what NBD clients may ask for in one piece.
pub const BLOCK_MAX: Bytes = Bytes(32 << 20);
/// Requests of one workload under way at once.
pub const OUTSTANDING_MAX: u32 = 4_096;
/// Requests of all closed loops on one disk under way at once: half of what its engine holds, the other half being
/// for open loops.
pub const OUTSTANDING_DISK_MAX: u32 = 1 << 19;
const _: () = assert!(OUTSTANDING_DISK_MAX as usize <= engine::limits::REQUESTS_MAX / 2);
/// Requests of a sequential run before it jumps.
pub const RUN_MAX: u64 = 1_000_000_000;
/// Requests that an elevator sorts at a time.
pub const ELEVATOR_MAX: u64 = 65_536;

const _: () = assert!(PERIOD_MIN.as_nanos() < PERIOD_MAX.as_nanos());
const _: () = assert!(LINGER_MAX.as_nanos() < PERIOD_MIN.as_nanos());
const _: () = assert!(ESTIMATE_MIN.as_nanos() < PERIOD_MIN.as_nanos());
const _: () = assert!(PERIOD_MAX.as_nanos() < TIME_MAX.as_nanos());
const _: () = assert!(DISKS_MAX <= volume::pool::limits::DISKS_MAX);
const _: () = assert!(NAME_BYTES_MAX <= volume::pool::limits::NAME_BYTES_MAX);
// What is booked on a disk of a pool: each volume, the metadata, moving blocks, and the server of best effort.
const _: () = assert!(POOL_VOLUMES_MAX + 3 <= engine::limits::BOOKINGS_MAX);
const _: () = assert!(RUN_MAX < u64::MAX / BLOCK_MAX.0);
const _: () = assert!(BLOCK_MIN.0 <= BLOCK_MAX.0 && BLOCK_MAX.0.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(DISKS_MAX <= VOLUMES_MAX && SOCKET_PATH_BYTES_MAX < PATH_BYTES_MAX);
