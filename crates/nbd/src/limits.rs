//! The limits of the NBD server and client, and their relations.
//!
//! A client decides how much it sends; the limits decide how much of that is held. A limit is in
//! bytes or a count, as its name says.

use units::{Bytes, Duration};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The longest export name (section "Conventions": a string is at most 4096 bytes).
pub const NAME_BYTES_MAX: usize = 4 * KIB;
/// The longest description that is sent; a longer one is cut (section "Conventions": SHOULD be at
/// most 256).
pub const DESCRIPTION_BYTES_MAX: usize = 256;
/// The most exports that one server lists.
pub const EXPORTS_MAX: usize = 1_024;

/// The most data of one option that is parsed: a name and many information requests.
pub const OPTION_BYTES_MAX: usize = 8 * KIB;
/// The most data of one option that is skipped; a client that announces more is disconnected.
pub const OPTION_SKIP_BYTES_MAX: usize = 64 * KIB;
/// The most options in one handshake. A client that asks about every export by name stays well
/// under it.
pub const OPTIONS_MAX: usize = 8 * EXPORTS_MAX;

/// The `maximum block size` that clients are told: the most bytes that one read or write should
/// move.
pub const PAYLOAD_BYTES_MAX: usize = 32 * MIB;
/// The longest read or write. Some clients do not ask for the maximum and send more: the NBD
/// project's own test suite sends 49 MB in one piece.
pub const PAYLOAD_ACCEPTED_BYTES_MAX: usize = 64 * MIB;
/// The longest payload of a refused write that is skipped; a client that announces more is
/// disconnected.
pub const PAYLOAD_SKIP_BYTES_MAX: usize = 128 * MIB;
/// The smallest growth of an arriving payload's buffer: the cost of a header whose payload does not
/// arrive.
pub const PAYLOAD_STEP_BYTES: usize = 64 * KIB;

/// The most descriptors in one answer to a block status request. A client asks on from where they
/// end.
pub const STATUS_SEGMENTS_MAX: usize = 256;
/// The largest reply to a block status request, for which it is charged.
pub const STATUS_BYTES_MAX: usize = 16 * STATUS_SEGMENTS_MAX;
/// The longest list of metadata contexts in a block status request that is parsed.
pub const STATUS_PAYLOAD_BYTES_MAX: usize = 64;

/// The bytes that a write to parts of sectors holds besides its payload: the first and the last
/// sector, as read and as written.
pub const READ_MODIFY_WRITE_BYTES: usize = 4 * SECTOR;
/// A sector's bytes, as an index into memory.
pub(crate) const SECTOR: usize = 512;

/// The largest buffer that is recycled.
pub const RECYCLED_BUFFER_BYTES_MAX: usize = 2 * MIB;
/// The most recycled buffers of each size, a power of two.
pub const RECYCLED_BUFFERS_MAX: usize = 64;
/// The total of all recycled buffers of a server, divided among its threads.
pub const RECYCLED_BYTES_MAX: usize = 64 * MIB;

/// The most outstanding requests of one connection.
pub const REQUESTS_MAX: usize = 256;
/// The most payload bytes of one connection at once: arriving, at the disks, or waiting to be sent.
pub const BYTES_IN_FLIGHT_MAX: usize = 64 * MIB;
/// No request is read from a connection with this number of unsent replies.
pub const OUTPUT_PIECES_MAX: usize = 2 * REQUESTS_MAX;
/// No option is read from a connection with this many bytes of unsent handshake replies.
pub const HANDSHAKE_OUTPUT_BYTES_MAX: usize = 64 * KIB;
/// The size of a read where a head with a long payload is expected.
pub const HEAD_BYTES: usize = 4 * KIB;
/// The bytes read along with a payload that goes straight into its buffer: the longest head of a
/// request.
pub const NEXT_HEAD_BYTES: usize = 32;
/// The most bytes handed to a session at once.
pub const RECEIVE_BYTES_MAX: usize = 256 * KIB;

/// The most connections, including disconnected ones with requests at the disks.
pub const CONNECTIONS_MAX: usize = 1_024;
/// The most threads of one server.
pub const THREADS_MAX: usize = 4;
/// The most listening sockets of one server.
pub const LISTENERS_MAX: usize = 64;
/// The most payload bytes of all connections together.
pub const PAYLOADS_BYTES_MAX: usize = 1_024 * MIB;

/// The default timeout of a handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The default timeout of an incomplete message that makes no progress, in or out: its client does
/// not run, or has gone without closing.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest timeout that can be set.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
/// The smallest memory limit of a connection: the longest message that the protocol expects a
/// server to take.
pub const MEMORY_MIN: Bytes = Bytes(1 << 20);
/// The most encrypted bytes that wait to be sent, besides the session's output.
pub const TLS_BYTES_MAX: usize = 256 * KIB;
/// How long one message may hold memory, in or out, while other connections wait for memory.
pub const MEMORY_HOLD_MAX: Duration = Duration::from_secs(30);
/// How long a stopping server still serves clients that it found in their handshake, at sockets
/// that outlive it.
pub const NEWCOMERS_TIME: Duration = Duration::from_secs(1);
/// How long a stopping server waits for a client to take its last replies.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The smallest minimum block size of an export. Requests for parts of sectors end here: handlers
/// count in sectors.
pub const BLOCK_MIN: Bytes = Bytes(1);
/// The smallest preferred block size (section "Block size constraints"): one sector.
pub const BLOCK_PREFERRED_MIN: Bytes = Bytes(units::SECTOR_BYTES);
/// The largest minimum block size (section "Block size constraints": at most 2^16).
pub const BLOCK_MIN_MAX: Bytes = Bytes(64 << 10);

/// One answer to `NBD_OPT_LIST` at its longest: each export's header, length, name and description.
pub(crate) const LIST_BYTES_MAX: usize =
    EXPORTS_MAX * (24 + NAME_BYTES_MAX + DESCRIPTION_BYTES_MAX) + 20;
/// The memory of one unsent reply, besides its data.
pub(crate) const PIECE_BYTES_MAX: usize = 128;

/// The most memory that one session holds, whatever its client sends: the bound of
/// [`Session::memory`](crate::session::Session::memory).
///
/// Twice the payloads, because a recycled buffer may be twice as large as its contents.
pub const SESSION_BYTES_MAX: usize = 2 * BYTES_IN_FLIGHT_MAX
    + 2 * LIST_BYTES_MAX
    + HANDSHAKE_OUTPUT_BYTES_MAX
    + OPTION_BYTES_MAX
    + RECEIVE_BYTES_MAX
    + 4 * (OUTPUT_PIECES_MAX + REQUESTS_MAX) * PIECE_BYTES_MAX
    + 64 * KIB;

const _: () = assert!(SECTOR as u64 == units::SECTOR_BYTES);
const _: () = assert!(
    RECYCLED_BUFFER_BYTES_MAX.is_power_of_two()
        && RECYCLED_BYTES_MAX >= 8 * THREADS_MAX * RECYCLED_BUFFER_BYTES_MAX
);
const _: () =
    assert!(MEMORY_MIN.0 >= STATUS_BYTES_MAX as u64 && MEMORY_MIN.0 <= PAYLOAD_BYTES_MAX as u64);
// A name with its lengths, and every kind of information request, fits an option.
const _: () = assert!(OPTION_BYTES_MAX >= 4 + NAME_BYTES_MAX + 2 + 2 * 1_024);
const _: () = assert!(OPTION_SKIP_BYTES_MAX >= OPTION_BYTES_MAX);
// A client may ask about every export by name.
const _: () = assert!(OPTIONS_MAX >= 4 * EXPORTS_MAX);
// The largest request is admitted to an idle connection; of the announced maximum size, two are.
const _: () = assert!(BYTES_IN_FLIGHT_MAX >= PAYLOAD_ACCEPTED_BYTES_MAX);
const _: () = assert!(BYTES_IN_FLIGHT_MAX >= 2 * PAYLOAD_BYTES_MAX);
const _: () = assert!(PAYLOAD_ACCEPTED_BYTES_MAX >= PAYLOAD_BYTES_MAX);
// Section "Block size constraints": a server should not disconnect for a payload under 2^25 bytes.
const _: () = assert!(PAYLOAD_SKIP_BYTES_MAX >= 1 << 25);
const _: () = assert!(PAYLOAD_SKIP_BYTES_MAX > PAYLOAD_ACCEPTED_BYTES_MAX);
const _: () = assert!(PAYLOAD_STEP_BYTES <= PAYLOAD_BYTES_MAX);
// A maximum block size is a multiple of every minimum.
const _: () = assert!((PAYLOAD_BYTES_MAX as u64).is_multiple_of(BLOCK_MIN_MAX.0));
// One connection cannot take all the memory there is.
const _: () = assert!(PAYLOADS_BYTES_MAX >= 4 * BYTES_IN_FLIGHT_MAX);
// Nor all memory of one thread.
const _: () = assert!(PAYLOADS_BYTES_MAX >= 4 * THREADS_MAX * BYTES_IN_FLIGHT_MAX);
// Headers without payloads on every connection leave most of the memory to others.
const _: () = assert!(PAYLOADS_BYTES_MAX >= 8 * CONNECTIONS_MAX * PAYLOAD_STEP_BYTES);
// Requests and connections are numbered with their slot in the low 16 bits.
const _: () = assert!(REQUESTS_MAX <= 1 << 16 && CONNECTIONS_MAX <= 1 << 16);
// Replies to all requests in flight can be queued before reading stops.
const _: () = assert!(OUTPUT_PIECES_MAX >= REQUESTS_MAX);
