//! Every bound of the engine, in one place.

use units::{Duration, Sectors};

/// Volumes on one disk. A volume costs about 300 bytes.
pub const VOLUMES_MAX: usize = 65_536;

/// The largest weight: a thousand to one is as good as nothing for the other.
pub const WEIGHT_MAX: u32 = 1_000;

/// Requests that one engine holds at a time, queued and in service. The frontends' own limits add up to less.
pub const REQUESTS_MAX: usize = 1 << 20;

/// Commands inside one drive at a time: what NCQ allows.
pub const DEPTH_MAX: u32 = 32;

/// The most that one command reads or writes; a longer request becomes several, with a decision between any
/// two. 1 MiB keeps a slow disk busy for about 50 ms: the longest that nobody can be preempted.
pub const COMMAND_MAX: Sectors = Sectors(2_048);

/// The most that one trim covers. It moves no data, so its bound is only that of a map to walk.
pub const TRIM_MAX: Sectors = Sectors(2_048 * 1_024);

/// The accounting period is at least so long: shorter, and one seek is a large part of it.
pub const PERIOD_MIN: Duration = Duration::from_millis(100);

/// The accounting period is at most so long: a bucket gives at most one period's worth at a start.
pub const PERIOD_MAX: Duration = Duration::from_secs(10);

/// The period of the server that keeps best effort from starving is at least so long.
pub const SERVER_PERIOD_MIN: Duration = Duration::from_millis(10);

/// Refills that a reserve kept as a server waits for at a time: with more, the latest two come together, the sooner of
/// them later than it might.
pub const REFILLS_MAX: usize = 32;

/// Instants at which one look at the present slack adds demand up; beyond, what a mean load leaves has to do.
pub const SLACK_STEPS_MAX: u32 = 16_384;

/// The longest that the disk may be kept waiting for the next request of a sequential run.
pub const LINGER_MAX: Duration = Duration::from_millis(20);

/// The longest by which a head may be sent to arrive too early: about a turn of the slowest disk.
pub const JIT_OFFSET_MAX: Duration = Duration::from_millis(20);

/// A request whose way was given up so often for others goes on until it has transferred something: whatever arrives,
/// it makes headway.
pub const PREEMPTIONS_MAX: u8 = 4;

/// Tasks in one set: streams, reserves and servers that share a disk at one time. A task costs about 100 bytes and a µs a
/// verdict.
pub const STREAM_TASKS_MAX: usize = 20_000;

/// The longest period of a task, the most that one may cost, and the most slack that is ever given: one day.
pub const STREAM_PERIOD_MAX: Duration = Duration::from_secs(86_400);

/// Quotients that one search for the least room may take, about 10 ns each. Thousands of streams take thousands to
/// some millions of them.
pub const STREAM_WORK_MAX: u64 = 1 << 24;

/// Bookings on one disk, of any time.
pub const BOOKINGS_MAX: usize = 20_000;

/// Times at which one verdict looks one by one. With more changes than that, neighbours are looked at together, as if all
/// of theirs were there at once: that is safe, and may refuse what would fit.
pub const BOOKED_TIMES_MAX: usize = 256;

const _: () = assert!(COMMAND_MAX.0 <= TRIM_MAX.0);
const _: () = assert!(BOOKINGS_MAX <= STREAM_TASKS_MAX);
const _: () = assert!(DEPTH_MAX as usize <= REQUESTS_MAX);
const _: () = assert!(LINGER_MAX.as_nanos() < PERIOD_MIN.as_nanos());
