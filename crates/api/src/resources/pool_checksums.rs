//! The checksums of a disk of the pool.

use daemon::ChecksumsView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The checksums of the data of a disk, since the daemon's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolChecksums {
    /// What was read and compared.
    pub verified_bytes: u64,
    /// What was read while its checksum was not known.
    pub unverified_bytes: u64,
    /// The 4 KiB that differed: each time they were read.
    pub wrong: u64,
    /// Pages of checksums that were damaged.
    pub pages_damaged: u64,
    /// Whether its checksums cannot be stored: it takes no writes to regions that are closed.
    pub broken: bool,
}

impl From<ChecksumsView> for PoolChecksums {
    fn from(view: ChecksumsView) -> Self {
        let ChecksumsView { verified, unverified, wrong, pages_damaged, is_broken } = view;
        let (verified_bytes, unverified_bytes) = (verified.0, unverified.0);
        Self { verified_bytes, unverified_bytes, wrong, pages_damaged, broken: is_broken }
    }
}
