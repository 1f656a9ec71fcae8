//! The health of volumes and of the disks below them.

use api::{DiskHealth, Volume};
use tonic::Status;

use super::Driver;
use crate::proto::node_get_storage_health_response::StorageBackendHealth;
use crate::proto::volume_health::VolumeHealthEntry;
use crate::proto::{StorageHealthErrorType, VolumeHealth, VolumeHealthErrorType};

/// What is wrong with a disk: the kind, a reason for programs, and a sentence.
fn disk(health: DiskHealth) -> Option<(VolumeHealthErrorType, &'static str, &'static str)> {
    match health {
        DiskHealth::Healthy => None,
        DiskHealth::Poisoned => Some((
            VolumeHealthErrorType::DataLoss,
            "FlushFailed",
            "a flush has failed: what was written before it may be lost, and the disk is only read \
             until it is opened again",
        )),
        DiskHealth::Offline => {
            Some((VolumeHealthErrorType::Inaccessible, "DiskOffline", "a disk does not answer"))
        }
    }
}

/// What is wrong with a volume; nothing if it is well.
pub(crate) fn of(volume: &Volume) -> VolumeHealth {
    let mut all: Vec<_> = disk(volume.health()).into_iter().collect();
    if volume.pool.as_ref().is_some_and(|pool| !pool.whole) {
        let words = "a disk that holds blocks of the volume is missing";
        all.push((VolumeHealthErrorType::Inaccessible, "DiskMissing", words));
    }
    let entry =
        |(status, reason, message): (VolumeHealthErrorType, &str, &str)| VolumeHealthEntry {
            status: status.into(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
    let health_statuses = all.into_iter().map(entry).collect();
    VolumeHealth { volume_id: volume.name.clone(), health_statuses }
}

impl Driver {
    /// What is wrong with the disks of this node.
    pub(super) fn storage(&self) -> Result<Vec<StorageBackendHealth>, Status> {
        let disks = self.daemon.disks()?;
        let of = |(name, health): (String, DiskHealth)| {
            let (kind, reason, message) = disk(health)?;
            let status = match kind {
                VolumeHealthErrorType::Inaccessible => StorageHealthErrorType::StorageUnreachable,
                _ => StorageHealthErrorType::StorageDegraded,
            };
            let (reason, message) = (reason.to_owned(), format!("disk \"{name}\": {message}"));
            Some(StorageBackendHealth {
                status: status.into(),
                reason,
                message,
                ..Default::default()
            })
        };
        Ok(disks.into_iter().filter_map(of).collect())
    }
}
