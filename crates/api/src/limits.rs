//! The limits of the API. Names are bounded by [`config::limits::NAME_BYTES_MAX`], volumes by
//! [`config::limits::VOLUMES_MAX`].

use std::time::Duration;

/// The largest body of a request in bytes: many times the longest description of a volume.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// The largest head of a request in bytes. The longest path, a name with every byte escaped, is a
/// tenth of it.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// The largest number of connections. Further clients wait to be accepted.
pub const CONNECTIONS_MAX: usize = 64;
/// The longest time for a request's head, and between two requests of a connection.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest time for a request's body.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest time that a stopping server waits for its last replies to be sent.
pub const STOP_MAX: Duration = Duration::from_secs(10);
/// The pause before the next accept if the system has no more descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The smallest token in bytes: a shorter one can be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;
/// The largest token in bytes.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// The longest time that a browser stays logged in.
pub const SESSION_MAX: Duration = Duration::from_hours(12);
/// The largest size of all files of the page together.
pub const PAGE_BYTES_MAX: usize = 150 << 10;
/// The largest reply in bytes that a client accepts: ten thousand volumes fit.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The largest number of chunks of lines queued for a live trace. Further lines wait in the daemon,
/// which bounds them.
pub const LIVE_CHUNKS_MAX: usize = 4;
/// The largest sampling interval of a live trace.
pub const LIVE_EVERY_MAX: u32 = 1_000_000;
/// The longest time until a live trace notices that its client is gone.
pub const LIVE_PAUSE: units::Duration = units::Duration::from_millis(200);

/// The largest number of clients of the event stream.
pub const EVENT_CLIENTS_MAX: usize = 16;
/// The largest number of events queued for a client: a minute of frames. A client with more is
/// disconnected.
pub const EVENTS_QUEUED_MAX: usize = 64;
/// The longest name of a client in bytes.
pub const EVENT_CLIENT_NAME_BYTES_MAX: usize = 64;

/// The number of minutes of which what was kept of contracts is remembered, for each volume.
pub const PROMISE_MINUTES_MAX: usize = 60;
/// The interval at which what was kept is sampled: the time that a worth is estimated over.
pub const PROMISE_SAMPLE: Duration = Duration::from_secs(10);

const _: () = assert!(daemon::SUBSCRIBERS_MAX + EVENT_CLIENTS_MAX < CONNECTIONS_MAX / 2);
const _: () = assert!(config::limits::NAME_BYTES_MAX * 3 < HEAD_BYTES_MAX / 2);
const _: () = assert!(TOKEN_BYTES_MIN < TOKEN_BYTES_MAX && TOKEN_BYTES_MAX < HEAD_BYTES_MAX);
