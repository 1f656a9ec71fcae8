//! Every limit of the frontend, and how they relate.
//!
//! A client decides how much it sends; these decide how much of it is held. A limit is in bytes or
//! is a count, as its name says.

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

/// The most data of one handshake option that is understood: a name and many information requests.
pub const OPTION_BYTES_MAX: usize = 8 * KIB;
/// The most data of one option that is read only to be thrown away; a client that announces more is
/// cut off.
pub const OPTION_SKIP_BYTES_MAX: usize = 64 * KIB;
/// The most options in one handshake. A client that asks about every export by name stays well
/// under it.
pub const OPTIONS_MAX: usize = 8 * EXPORTS_MAX;

/// The `maximum block size` that clients are told: the most bytes that one read or write should
/// move.
pub const PAYLOAD_BYTES_MAX: usize = 32 * MIB;
/// The most bytes that one read or write moves. There are clients that do not ask for the maximum
/// and send more: the NBD project's own tester sends 49 MB in one piece.
pub const PAYLOAD_ACCEPTED_BYTES_MAX: usize = 64 * MIB;
/// The longest payload of a refused write that is read only to be thrown away; a client that
/// announces more is cut off.
pub const PAYLOAD_SKIP_BYTES_MAX: usize = 128 * MIB;
/// The least by which the buffer of an arriving payload grows. A header that announces much and is
/// followed by silence costs this much.
pub const PAYLOAD_STEP_BYTES: usize = 64 * KIB;

/// The most descriptors in one answer to a block status request. A client asks on from where they
/// end.
pub const STATUS_SEGMENTS_MAX: usize = 256;
/// What an answer to a block status request holds at most, and is charged for.
pub const STATUS_BYTES_MAX: usize = 16 * STATUS_SEGMENTS_MAX;
/// The longest list of metadata contexts in a block status request that is looked at.
pub const STATUS_PAYLOAD_BYTES_MAX: usize = 64;

/// What a write to parts of sectors holds beside its payload: the first and the last sector, as
/// they were read and as they are written.
pub const READ_MODIFY_WRITE_BYTES: usize = 4 * SECTOR;
/// A sector's bytes, as an index into memory.
pub(crate) const SECTOR: usize = 512;

/// The largest buffer that is kept to be used again.
pub const RECYCLED_BUFFER_BYTES_MAX: usize = 2 * MIB;
/// The most spare buffers of each size, a power of two.
pub const RECYCLED_BUFFERS_MAX: usize = 64;
/// What all spare buffers of a server hold together at most; each of its threads has its part.
pub const RECYCLED_BYTES_MAX: usize = 64 * MIB;

/// The most requests of one connection that wait for an answer.
pub const REQUESTS_MAX: usize = 256;
/// The most payload bytes of one connection at once: arriving, at the disks, or waiting to be sent.
pub const BYTES_IN_FLIGHT_MAX: usize = 64 * MIB;
/// With so many answers unsent, no further request of the connection is read.
pub const OUTPUT_PIECES_MAX: usize = 2 * REQUESTS_MAX;
/// With so many bytes of handshake answers unsent, no further option is read.
pub const HANDSHAKE_OUTPUT_BYTES_MAX: usize = 64 * KIB;
/// What is read at once where a long payload is expected behind a head.
pub const HEAD_BYTES: usize = 4 * KIB;
/// What is read at once behind a payload that is read straight into its buffer: the longest head of
/// a request.
pub const NEXT_HEAD_BYTES: usize = 32;
/// The most bytes handed to a session at once.
pub const RECEIVE_BYTES_MAX: usize = 256 * KIB;

/// The most connections, counting those that are gone and whose requests are still at the disks.
pub const CONNECTIONS_MAX: usize = 1_024;
/// The most threads of one server's sockets.
pub const THREADS_MAX: usize = 4;
/// The most listening sockets of one server.
pub const LISTENERS_MAX: usize = 64;
/// The most payload bytes of all connections together.
pub const PAYLOADS_BYTES_MAX: usize = 1_024 * MIB;

/// How long a handshake may take, unless a config says otherwise.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a message may stand still that has begun and not ended, on its way in or out, unless a
/// config says otherwise: a client that is asleep, or gone without a word.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest that either of the two can be set to.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
/// The least memory that a connection can be held to: what the protocol wants a server to take in
/// one piece.
pub const MEMORY_MIN: Bytes = Bytes(1 << 20);
/// Encrypted bytes that wait to be sent, besides the session's own output.
pub const TLS_BYTES_MAX: usize = 256 * KIB;
/// How long one message may hold memory, on its way in or out, while others wait for memory.
pub const MEMORY_HOLD_MAX: Duration = Duration::from_secs(30);
/// How long a stopping server waits for a client to take its last answers.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The smallest minimum block size an export can have. What is no whole number of sectors is made
/// one here: everything behind the frontend counts sectors.
pub const BLOCK_MIN: Bytes = Bytes(1);
/// The smallest preferred one (section "Block size constraints"), and that of whole sectors.
pub const BLOCK_PREFERRED_MIN: Bytes = Bytes(units::SECTOR_BYTES);
/// The largest minimum block size (section "Block size constraints": at most 2^16).
pub const BLOCK_MIN_MAX: Bytes = Bytes(64 << 10);

/// One answer to `NBD_OPT_LIST` at its longest: each export's header, length, name and description.
pub(crate) const LIST_BYTES_MAX: usize =
    EXPORTS_MAX * (24 + NAME_BYTES_MAX + DESCRIPTION_BYTES_MAX) + 20;
/// One answer unsent, besides its data.
pub(crate) const PIECE_BYTES_MAX: usize = 128;

/// The most memory one session holds, whatever its client does: what
/// [`crate::proto::session::Session::memory`] never exceeds.
///
/// Twice the payloads, because a buffer that is used again may be twice as large as what it is used
/// for.
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
// Asking about every export by name is no flood.
const _: () = assert!(OPTIONS_MAX >= 4 * EXPORTS_MAX);
// The largest request is admitted to an idle connection, and beside one of the size that clients
// are told, a second one.
const _: () = assert!(BYTES_IN_FLIGHT_MAX >= PAYLOAD_ACCEPTED_BYTES_MAX);
const _: () = assert!(BYTES_IN_FLIGHT_MAX >= 2 * PAYLOAD_BYTES_MAX);
const _: () = assert!(PAYLOAD_ACCEPTED_BYTES_MAX >= PAYLOAD_BYTES_MAX);
// Section "Block size constraints": a payload under 2^25 bytes is no attack.
const _: () = assert!(PAYLOAD_SKIP_BYTES_MAX >= 1 << 25);
const _: () = assert!(PAYLOAD_SKIP_BYTES_MAX > PAYLOAD_ACCEPTED_BYTES_MAX);
const _: () = assert!(PAYLOAD_STEP_BYTES <= PAYLOAD_BYTES_MAX);
// A maximum block size is a multiple of every minimum.
const _: () = assert!((PAYLOAD_BYTES_MAX as u64).is_multiple_of(BLOCK_MIN_MAX.0));
// One connection cannot take all the memory there is.
const _: () = assert!(PAYLOADS_BYTES_MAX >= 4 * BYTES_IN_FLIGHT_MAX);
// Nor all that one thread has of it.
const _: () = assert!(PAYLOADS_BYTES_MAX >= 4 * THREADS_MAX * BYTES_IN_FLIGHT_MAX);
// Silent headers on every connection leave most of the memory to the others.
const _: () = assert!(PAYLOADS_BYTES_MAX >= 8 * CONNECTIONS_MAX * PAYLOAD_STEP_BYTES);
// Requests and connections are numbered with their slot in the low 16 bits.
const _: () = assert!(REQUESTS_MAX <= 1 << 16 && CONNECTIONS_MAX <= 1 << 16);
// Answers of everything in flight can be queued before reading stops.
const _: () = assert!(OUTPUT_PIECES_MAX >= REQUESTS_MAX);
