//! The exports of a server.
//!
//! Invariant: an export that a client sees has passed [`Export::is_well_formed`].

use units::Bytes;

use crate::limits::{BLOCK_MIN, BLOCK_MIN_MAX, BLOCK_PREFERRED_MIN, NAME_BYTES_MAX};
use crate::proto::tls::{ClientName, Identity};

/// The number of an export, chosen by the implementor of [`Exports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u32);

/// One device that clients can open by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol, set or not")]
pub struct Export {
    /// Its number in requests.
    pub id: ExportId,
    /// The name that clients open.
    pub name: String,
    /// A description for people, or empty.
    pub description: String,
    /// Its size in bytes. A partial last block or sector is not offered.
    pub size: Bytes,
    /// Whether writing is refused.
    pub read_only: bool,
    /// The smallest unit of access: a power of two up to 65536 (section "Block size constraints").
    /// With less than a sector, a smaller write costs a read before it.
    pub block_min: Bytes,
    /// The unit in which access is efficient: a power of two, not under `block_min` nor under a
    /// sector.
    pub block_preferred: Bytes,
    /// Whether sectors close to each other are read faster than others.
    pub rotational: bool,
    /// Whether a write of zeroes that may leave a hole is faster than any other.
    pub fast_zero: bool,
    /// Whether a read makes later reads of the same sectors faster: then clients may send
    /// `NBD_CMD_CACHE`.
    pub caches: bool,
    /// The clients that may open it; `None`: every client.
    pub clients: Option<Vec<ClientName>>,
}

impl Export {
    /// A writable export with access to single bytes, best used in 4 KiB blocks.
    pub fn new(id: ExportId, name: impl Into<String>, size: Bytes) -> Self {
        Self {
            id,
            name: name.into(),
            description: String::new(),
            size,
            read_only: false,
            block_min: BLOCK_MIN,
            block_preferred: Bytes(4096),
            rotational: false,
            fast_zero: false,
            caches: false,
            clients: None,
        }
    }

    /// Whether this client may see and open it.
    pub(crate) fn admits(&self, client: Option<&Identity>) -> bool {
        self.clients.as_ref().is_none_or(|names| {
            client.is_some_and(|client| names.iter().any(|name| name.is_of(client)))
        })
    }

    /// Whether the protocol can express it. Other exports are never shown to a client.
    pub fn is_well_formed(&self) -> bool {
        let powers = self.block_min.0.is_power_of_two() && self.block_preferred.0.is_power_of_two();
        self.name.len() <= NAME_BYTES_MAX
            && !self.name.contains('\0')
            && !self.description.contains('\0')
            && powers
            && self.block_min >= BLOCK_MIN
            && self.block_min <= BLOCK_MIN_MAX
            && self.block_preferred >= self.block_min
            && self.block_preferred >= BLOCK_PREFERRED_MIN
            && u32::try_from(self.block_preferred.0).is_ok()
    }
}

/// The current exports of a server. Exports come and go while the server runs; a client that has
/// opened one keeps it.
pub trait Exports: Send + Sync {
    /// All exports, in the order in which they are listed.
    fn list(&self) -> Vec<Export>;

    /// The export of this name.
    fn open(&self, name: &str) -> Option<Export>;

    /// The size of an export now, if it can change while clients have it open. Called for requests
    /// past the end that the connection knows: a client that learns of a larger size by other means
    /// uses it without a new connection.
    fn size_now(&self, export: ExportId) -> Option<Bytes> {
        let _ = export;
        None
    }

    /// Removes an export: no client can open it from now on. Called on the server's first thread
    /// when [`crate::Handle::withdraw`] succeeds. Connections on other threads may have requests in
    /// flight until they are closed.
    fn withdraw(&self, export: ExportId) {
        let _ = export;
    }
}
