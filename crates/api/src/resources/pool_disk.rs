//! A disk of the pool, and the spare that is to have its place.

use daemon::{PoolDiskState, PoolDiskView, SpareView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::pool_checksums::PoolChecksums;

/// A disk of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolDisk {
    /// Its number in the pool.
    pub number: u32,
    /// Its name in the config; absent if the disk is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its failure domain; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its capacity for volumes.
    pub bytes: u64,
    /// The free part of that capacity.
    pub free_bytes: u64,
    /// Whether it is being drained.
    pub leaving: bool,
    /// `in`; `failing`, until the pool has stored that it is out; `out`: it failed, and is there;
    /// `out-missing`; or `missing`: it is not there, and the pool does not go on without it.
    pub state: String,
    /// The part of it that missed writes: it is written again when the disk is in.
    pub stale_bytes: u64,
    /// The checksums of its data; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<PoolChecksums>,
    /// What becomes of its place; absent unless it is out and there is a spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<PoolSpare>,
}

/// What becomes of the place of a disk that is out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolSpare {
    /// The time until a spare takes it; absent if each was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_over_in_s: Option<f64>,
    /// Why no spare may have it: each is asked again after a minute, and when the config changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl From<SpareView> for PoolSpare {
    fn from(view: SpareView) -> Self {
        match view {
            SpareView::Waits(left) => {
                Self { takes_over_in_s: Some(left.as_secs_f64()), refused: None }
            }
            SpareView::Refused(why) => Self { takes_over_in_s: None, refused: Some(why) },
        }
    }
}

impl From<PoolDiskView> for PoolDisk {
    fn from(disk: PoolDiskView) -> Self {
        let state = match disk.state {
            PoolDiskState::In => "in",
            PoolDiskState::Failing => "failing",
            PoolDiskState::Out => "out",
            PoolDiskState::OutMissing => "out-missing",
            PoolDiskState::Missing => "missing",
        };
        Self {
            number: disk.number,
            name: disk.name,
            domain: disk.domain,
            bytes: disk.size.0,
            free_bytes: disk.free.0,
            leaving: disk.leaving,
            state: state.to_owned(),
            stale_bytes: disk.stale.0,
            checksums: disk.checksums.map(PoolChecksums::from),
            spare: disk.spare.map(PoolSpare::from),
        }
    }
}
