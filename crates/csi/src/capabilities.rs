//! What a claim may ask of a volume: a block device or a file system, on one node.

use tonic::Status;

use crate::proto::VolumeCapability;
use crate::proto::volume_capability::AccessType;
use crate::proto::volume_capability::access_mode::Mode;

/// The file system of a claim that names none.
const FILE_SYSTEM_DEFAULT: &str = "ext4";
/// The file systems that can be made.
const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// How a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// As a block device.
    Block,
    /// As a mounted file system, with these options.
    Mount {
        /// `ext4` or `xfs`.
        file_system: String,
        /// As of `mount -o`.
        options: Vec<String>,
    },
}

/// What a capability asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// As what the volume is used.
    pub(crate) access: Access,
    /// Whether it is only read.
    pub(crate) is_read_only: bool,
    /// Whether it is published at one path at most: the mode of `ReadWriteOncePod`.
    pub(crate) is_exclusive: bool,
}

/// How a capability asks for a volume to be used.
///
/// # Errors
/// It is incomplete, or asks for more than one node or for an unknown file system.
pub(crate) fn asked(capability: Option<&VolumeCapability>) -> Result<Asked, Status> {
    let missing = || Status::invalid_argument("expected volume_capability");
    let capability = capability.ok_or_else(missing)?;
    let kind = capability.access_type.as_ref().ok_or_else(missing)?;
    let mode = capability.access_mode.as_ref().ok_or_else(missing)?.mode();
    let is_read_only = match mode {
        Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => {
            false
        }
        Mode::SingleNodeReaderOnly => true,
        other => {
            return Err(Status::invalid_argument(format!(
                "access_mode: found {}, expected one of a single node: a volume is of the node \
                 whose disks have it",
                other.as_str_name()
            )));
        }
    };
    let access = match kind {
        AccessType::Block(_) => Access::Block,
        AccessType::Mount(mount) => {
            let named = mount.fs_type.as_str();
            let file_system = if named.is_empty() { FILE_SYSTEM_DEFAULT } else { named };
            if !FILE_SYSTEMS.contains(&file_system) {
                return Err(Status::invalid_argument(format!(
                    "fs_type: found `{file_system}`, expected one of {}",
                    FILE_SYSTEMS.join(", ")
                )));
            }
            let (file_system, options) = (file_system.to_owned(), mount.mount_flags.clone());
            Access::Mount { file_system, options }
        }
    };
    Ok(Asked { access, is_read_only, is_exclusive: mode == Mode::SingleNodeSingleWriter })
}

/// Checks all capabilities of a claim.
///
/// # Errors
/// There is none, or as of [`asked`].
pub(crate) fn check(capabilities: &[VolumeCapability]) -> Result<(), Status> {
    if capabilities.is_empty() {
        return Err(Status::invalid_argument("expected volume_capabilities"));
    }
    capabilities.iter().try_for_each(|one| asked(Some(one)).map(drop))
}
