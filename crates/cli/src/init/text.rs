//! The text of a new config.

use std::path::{Path, PathBuf};

use config::size_text;
use units::Bytes;

/// One `[[disk]]` table, and the volume on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskLines {
    name: String,
    /// The lines of the table behind its name.
    lines: String,
    /// The size of the disk's volume.
    volume: Bytes,
    /// A file to create, relative to the config, and its size.
    pub(super) create: Option<(PathBuf, Bytes)>,
}

const HEAD: &str = "\
# Disks, the volumes on them, and the contract of each. `spindle check` says everything that is
# wrong with this file; `spindle vol`, `spindle disk` and the API change it while it is served, and
# keep its comments.
";

/// The contract of a first volume.
const VOLUME: &str = "\
reserve = \"30%\"          # of the disk's time, in every period, whatever other volumes do
# limit = \"60%\"          # at most, slack included
# weight = 2             # the part of the slack, against other volumes
# stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }   # deadlines instead of a reserve
";

/// The first volume takes half of its disk, at most this.
const VOLUME_MAX: Bytes = Bytes(100 << 30);
const MIB: u64 = 1 << 20;

impl DiskLines {
    fn new(name: String, lines: String, capacity: Bytes) -> Self {
        let half = Bytes(capacity.0 / 2 / MIB * MIB);
        Self { name, lines, volume: half.min(VOLUME_MAX), create: None }
    }

    /// An emulated drive of the library.
    pub(super) fn emulated(drive: &str, capacity: Bytes) -> Self {
        let lines = format!(
            "drive = {drive:?}      # an emulated drive, delays included: `spindle drive ls`\n\
             backing = \"disk0.img\"    # where it keeps its data\n"
        );
        Self::new("d0".to_owned(), lines, capacity)
    }

    /// A file of this size.
    pub(super) fn file(path: &Path, size: Bytes) -> Self {
        let file = path.display().to_string();
        let lines = format!(
            "path = {file:?}           # a file; a disk of its own is `/dev/disk/by-id/…`\n"
        );
        let create = Some((path.to_owned(), size));
        Self { create, ..Self::new("d0".to_owned(), lines, size) }
    }

    /// Block devices, with their capacities.
    pub(super) fn devices(devices: &[(PathBuf, Bytes)]) -> Vec<Self> {
        let disk = |(index, (path, capacity)): (usize, &(PathBuf, Bytes))| {
            let device = path.display().to_string();
            let profile = format!("d{index}.toml");
            let lines = format!(
                "path = {device:?}\n# profile = {profile:?}   # streams and predictions: \
                 `spindle profile {device} --out {profile}` measures it\n"
            );
            Self::new(format!("d{index}"), lines, *capacity)
        };
        devices.iter().enumerate().map(disk).collect()
    }
}

/// The whole config.
pub(super) fn config(listen: Option<&str>, disks: &[DiskLines]) -> String {
    let disk =
        |DiskLines { name, lines, .. }: &DiskLines| format!("\n[[disk]]\nname = {name:?}\n{lines}");
    let volume = |(number, DiskLines { name, volume, .. }): (usize, &DiskLines)| {
        let size = size_text(*volume);
        format!("\n[[volume]]\nname = \"vm{number}\"\ndisk = {name:?}\nsize = \"{size}\"\n{VOLUME}")
    };
    let disk_texts: Vec<_> = disks.iter().map(disk).collect();
    let volume_texts: Vec<_> = (1..).zip(disks).map(volume).collect();
    let listen = listen.map(|address| format!("\n[listen]\nnbd = [{address:?}]\n"));
    [HEAD.to_owned(), listen.unwrap_or_default(), disk_texts.concat(), volume_texts.concat()]
        .concat()
}
