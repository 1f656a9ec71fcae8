//! Every limit of the control API. Names are bounded by [`config::limits::NAME_BYTES_MAX`], volumes by
//! [`config::limits::VOLUMES_MAX`].

use std::time::Duration;

/// Bytes of a request's body: many times what the longest description of a volume takes.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Bytes of a request's head. The longest path, a name of which every byte is escaped, is a tenth of it.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Connections at once. Who comes later waits to be accepted.
pub const CONNECTIONS_MAX: usize = 64;
/// How long a request's head may take, or a connection may rest between two.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a request's body may take.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a server that stops waits for its last answers to be sent.
pub const STOP_MAX: Duration = Duration::from_secs(10);
/// How long it waits to accept again where the system has no descriptor left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a token: fewer can be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Bytes of a token: more is not one.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// Bytes of an answer that a client takes: ten thousand volumes fit.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Chunks of lines on their way to somebody who looks on. What does not fit waits in the daemon, which bounds it.
pub const LIVE_CHUNKS_MAX: usize = 4;
/// The most of which one request is told to somebody who looks on.
pub const LIVE_EVERY_MAX: u32 = 1_000_000;
/// How soon it is noticed that nobody looks on any more.
pub const LIVE_PAUSE: units::Duration = units::Duration::from_millis(200);

const _: () = assert!(daemon::SUBSCRIBERS_MAX < CONNECTIONS_MAX / 2);
const _: () = assert!(config::limits::NAME_BYTES_MAX * 3 < HEAD_BYTES_MAX / 2);
const _: () = assert!(TOKEN_BYTES_MIN < TOKEN_BYTES_MAX && TOKEN_BYTES_MAX < HEAD_BYTES_MAX);
