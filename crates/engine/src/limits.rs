//! All bounds of the engine.

use units::{Duration, Sectors};

/// Volumes on one disk. A volume costs about 300 bytes.
pub const VOLUMES_MAX: usize = 65_536;

/// The largest weight: with a thousand to one the other volume gets almost nothing.
pub const WEIGHT_MAX: u32 = 1_000;

/// Requests that one engine holds at a time, queued and in service. The NBD server's own limits add
/// up to less.
pub const REQUESTS_MAX: usize = 1 << 20;

/// Commands inside one drive at a time: NCQ allows 32, and more are of use to `NVMe`.
pub const DEPTH_MAX: u32 = 256;

/// While a command has been in a drive for this long, a drive that orders its own queue is given no
/// other: it would serve newer ones before it.
pub const FEEDING_AGE_MAX: Duration = Duration::from_secs(1);

/// The requests of a volume among which the next one is chosen: those at the front of its queue.
pub const CANDIDATES_MAX: usize = 512;

/// The volumes that share a joint quantum: their requests are candidates together.
pub const JOINT_VOLUMES_MAX: usize = 8;

/// The queued reads among which one is looked for that fits into a rotational wait.
pub const FREEBLOCK_CANDIDATES_MAX: usize = 512;

/// The volumes whose reads are looked at for one rotational wait.
pub const FREEBLOCK_VOLUMES_MAX: usize = 64;

/// The longest read that is carried out in a rotational wait: a quarter of a revolution of a fast
/// zone.
pub const FREEBLOCK_READ_MAX: Sectors = Sectors(512);

/// The most that one command reads or writes; a longer request becomes several commands, with a
/// decision between any two. 1 MiB keeps a slow disk busy for about 50 ms: the longest time without
/// preemption.
pub const COMMAND_MAX: Sectors = Sectors(2_048);

/// The most that one command reads for a volume in the background. A block of 1 MiB takes
/// deskstar-34gxp up to 75 ms, and one more or less in two seconds was 3.5 points of others. The
/// drive has read ahead for the next command: reading in order is as fast.
pub const BACKGROUND_READ_MAX: Sectors = Sectors(512);

/// The most that requests which are merged into one command transfer. Beyond it a drive gains
/// little: 128 KiB take longer to transfer than the command's overheads.
pub const MERGED_MAX: Sectors = Sectors(256);

/// The requests of a volume's queue that are looked at for a neighbour to merge.
pub const MERGE_CANDIDATES_MAX: usize = 128;

/// The most that one trim covers. It moves no data, so its bound is only that of a map to walk.
pub const TRIM_MAX: Sectors = Sectors(2_048 * 1_024);

/// The shortest accounting period: in a shorter one a single seek is a large part.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);

/// The longest accounting period: a bucket gives at most one period's worth at the start.
pub const PERIOD_MAX: Duration = Duration::from_secs(10);

/// The shortest period of the server that keeps best effort from starving.
pub const SERVER_PERIOD_MIN: Duration = Duration::from_millis(10);

/// Refills of one sporadic server that are pending at a time. With more, the latest two are merged,
/// at the later time.
pub const REFILLS_MAX: usize = 32;

/// Instants at which one computation of the dynamic slack sums demand; beyond them the mean load
/// bounds it.
pub const SLACK_STEPS_MAX: u32 = 16_384;

/// The longest idle time for the next request of a sequential run.
pub const LINGER_MAX: Duration = Duration::from_millis(20);

/// The largest just-in-time offset: about a revolution of the slowest disk.
pub const JIT_OFFSET_MAX: Duration = Duration::from_millis(20);

/// A request that was preempted this often before it transferred anything becomes non-preemptible:
/// it makes progress whatever arrives.
pub const PREEMPTIONS_MAX: u8 = 4;

/// Tasks in one set: streams, reserves and servers that share a disk at one time. A task costs
/// about 100 bytes, and a µs per admission check.
pub const STREAM_TASKS_MAX: usize = 20_000;

/// The longest period of a task, the most that one may cost, and the most slack that is ever given:
/// one day.
pub const STREAM_PERIOD_MAX: Duration = Duration::from_secs(86_400);

/// The shortest time that a bounded latency may require.
pub const LATENCY_MIN: Duration = Duration::from_millis(1);

/// The longest time that a bounded latency may require, and the longest that is offered.
pub const LATENCY_MAX: Duration = Duration::from_secs(60);

/// Requests that a task may release at one instant.
pub const TASK_BURST_MAX: u32 = 1_024;

/// Quotients that one search for the minimum slack may compute, about 10 ns each. Thousands of
/// streams need thousands to some millions.
pub const STREAM_WORK_MAX: u64 = 1 << 24;

/// Bookings on one disk, past and future.
pub const BOOKINGS_MAX: usize = 20_000;

/// Times at which one admission check looks one by one. With more changes than that, neighbouring
/// times are merged as if all of their tasks were present at once: this is safe, and may refuse
/// what would fit.
pub const BOOKED_TIMES_MAX: usize = 256;

/// The longest request of the read-ahead: a volume's own reads may wait for one. 4 MiB keep a disk
/// busy for 20 ms.
pub const READ_AHEAD_REQUEST_MAX: Sectors = Sectors(8_192);

/// The shortest, unless a volume ends.
pub const READ_AHEAD_REQUEST_MIN: Sectors = Sectors(256);

/// Runs of reads in order on one disk that are read ahead.
pub const READ_AHEAD_RUNS_MAX: usize = 64;

/// Of these, the runs of one volume.
pub const READ_AHEAD_VOLUME_RUNS_MAX: usize = 8;

/// Positions of one volume from which reads may go on in order.
pub const READ_AHEAD_CANDIDATES_MAX: usize = 8;

/// Client reads that wait for a read-ahead in flight; further ones go to the disk.
pub const READ_AHEAD_WAITING_MAX: usize = 1_024;

/// The memory for read-ahead of one disk that its user has given no size.
pub const READ_AHEAD_MEMORY: Sectors = Sectors(64 << 11);

/// The least memory for read-ahead of one disk.
pub const READ_AHEAD_MEMORY_MIN: Sectors = Sectors(1 << 11);

/// The most.
pub const READ_AHEAD_MEMORY_MAX: Sectors = Sectors(4 << 21);

const _: () = assert!(COMMAND_MAX.0 <= TRIM_MAX.0);
const _: () = assert!(MERGED_MAX.0 <= BACKGROUND_READ_MAX.0);
const _: () = assert!(BACKGROUND_READ_MAX.0 <= COMMAND_MAX.0);
const _: () = assert!(FREEBLOCK_READ_MAX.0 <= COMMAND_MAX.0);
const _: () = assert!(MERGE_CANDIDATES_MAX <= CANDIDATES_MAX);
/// The memory for the write buffers of a disk, by default.
pub const WRITE_BUFFER_MEMORY: Sectors = Sectors(256 << 11);

/// The most memory for the write buffers of a disk.
pub const WRITE_BUFFER_MEMORY_MAX: Sectors = Sectors(16 << 21);

/// The write buffer of a volume, by default.
pub const WRITE_BUFFER: Sectors = Sectors(16 << 11);

/// Runs of sectors that the write buffer of a volume holds. A buffer of 16 MiB holds 4,096 writes
/// of 4 KiB.
pub const WRITE_BUFFER_PARTS_MAX: usize = 16_384;

/// The longest write from a write buffer to the disk. One that is longer than a command is ended by
/// a flush, which costs about a revolution.
pub const DESTAGE_MAX: Sectors = Sectors(32_768);

/// The writes of a volume's write buffer among which its disk's chooser has the choice: they are
/// near each other, as they are taken in the order of their sectors.
pub const DESTAGE_DEPTH: u32 = 64;

/// The time after which written data is sent to the disk, by default.
pub const WRITE_AGE: Duration = Duration::from_secs(5);

/// The longest time after which written data is sent to the disk.
pub const WRITE_AGE_MAX: Duration = Duration::from_secs(600);

/// The forced writes of a volume that one flush ends, where a drive's FUA is not used. Other
/// volumes wait for it: on hgst-7k8 for 240 ms if the writes are anywhere on the disk.
pub const FLUSH_BATCH_MAX: usize = 32;

/// How long a disk has nothing to do before what is buffered is written without need.
pub const DESTAGE_IDLE: Duration = Duration::from_millis(50);

/// How long no other volume has used a disk before writes of the one that does are left to the
/// drive's own buffer.
pub const DEFER_AFTER: Duration = Duration::from_secs(1);

const _: () = assert!(READ_AHEAD_REQUEST_MIN.0 <= READ_AHEAD_REQUEST_MAX.0);
const _: () = assert!(READ_AHEAD_REQUEST_MIN.0 <= READ_AHEAD_MEMORY_MIN.0);
const _: () = assert!(READ_AHEAD_MEMORY_MIN.0 <= READ_AHEAD_MEMORY.0);
const _: () = assert!(READ_AHEAD_MEMORY.0 <= READ_AHEAD_MEMORY_MAX.0);
const _: () = assert!(READ_AHEAD_VOLUME_RUNS_MAX <= READ_AHEAD_RUNS_MAX);
const _: () = assert!(READ_AHEAD_WAITING_MAX < REQUESTS_MAX);
const _: () = assert!(BOOKINGS_MAX <= STREAM_TASKS_MAX);
const _: () = assert!(DEPTH_MAX as usize <= REQUESTS_MAX);
const _: () = assert!(LINGER_MAX.as_nanos() < PERIOD_MIN.as_nanos());
const _: () = assert!(JIT_OFFSET_MAX.as_nanos() < PERIOD_MIN.as_nanos());
const _: () = assert!(PERIOD_MIN.as_nanos() < PERIOD_MAX.as_nanos());
const _: () = assert!(SERVER_PERIOD_MIN.as_nanos() <= PERIOD_MAX.as_nanos());
// A reserve is a task whose period is the accounting period.
const _: () = assert!(PERIOD_MAX.as_nanos() <= STREAM_PERIOD_MAX.as_nanos());
// The numbers of volumes and their tasks lie below the id of the server of best effort.
const _: () = assert!(VOLUMES_MAX < u32::MAX as usize);
// A request counts its commands in flight with 16 bits.
const _: () = assert!(DEPTH_MAX <= u16::MAX as u32);
const _: () = assert!(TASK_BURST_MAX > 0);
const _: () = assert!(LATENCY_MIN.as_nanos() < LATENCY_MAX.as_nanos());
const _: () = assert!(LATENCY_MAX.as_nanos() <= STREAM_PERIOD_MAX.as_nanos());
// The latest refill is merged with the one before.
const _: () = assert!(REFILLS_MAX > 1);
const _: () = assert!(BOOKED_TIMES_MAX <= 2 * BOOKINGS_MAX);
