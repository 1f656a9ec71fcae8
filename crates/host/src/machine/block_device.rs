//! A block device, as sysfs describes it.

use std::path::{Path, PathBuf};

use units::{Bytes, SECTOR_BYTES};

use super::files::{entries, text};

/// Whether a device completes writes before they are on its medium: `queue/write_cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// It does, and a flush makes them durable.
    WriteBack,
    /// It does not.
    WriteThrough,
}

/// What is behind a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Hardware that stays.
    Fixed,
    /// Hardware whose medium can be taken out.
    Removable,
    /// No hardware of its own: loop devices, device mapper, memory.
    Virtual,
}

/// A whole block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its name, such as `sdb`.
    pub name: String,
    /// Its node, such as `/dev/sdb`.
    pub path: PathBuf,
    /// The model that it reports.
    pub model: Option<String>,
    /// Its capacity.
    pub capacity: Bytes,
    /// Whether the kernel takes it for a rotating drive.
    pub is_rotational: bool,
    /// Whether it refuses writes.
    pub is_read_only: bool,
    /// What is behind it.
    pub kind: DeviceKind,
    /// The active scheduler of its queue in the kernel, such as `mq-deadline` or `none`.
    pub scheduler: Option<String>,
    /// Its write cache.
    pub write_cache: Option<WriteCache>,
    /// The commands that it takes at once.
    pub queue_depth: Option<u32>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// The devices that are built on it.
    pub holders: Vec<String>,
}

impl BlockDevice {
    /// The device of this name in the directory `block`; `None` if there is none, or it has no
    /// sectors.
    pub(super) fn read(block: &Path, name: &str) -> Option<Self> {
        let of = block.join(name);
        let sectors: u64 = text(&of.join("size"))?.parse().ok()?;
        let capacity = Bytes(sectors.checked_mul(SECTOR_BYTES)?);
        if sectors == 0 {
            return None;
        }
        let flag = |file: &str| text(&of.join(file)).is_some_and(|text| text == "1");
        let cache = match text(&of.join("queue/write_cache")).as_deref() {
            Some("write back") => Some(WriteCache::WriteBack),
            Some("write through") => Some(WriteCache::WriteThrough),
            _ => None,
        };
        let kind = match of.join("device").exists() {
            false => DeviceKind::Virtual,
            true if flag("removable") => DeviceKind::Removable,
            true => DeviceKind::Fixed,
        };
        let is_partition = |entry: &String| of.join(entry).join("partition").exists();
        Some(Self {
            name: name.to_owned(),
            // sysfs writes the slash in names such as `cciss/c0d0` as an exclamation mark.
            path: Path::new("/dev").join(name.replace('!', "/")),
            model: text(&of.join("device/model")),
            capacity,
            is_rotational: flag("queue/rotational"),
            is_read_only: flag("ro"),
            kind,
            scheduler: text(&of.join("queue/scheduler")).and_then(|text| active(&text)),
            write_cache: cache,
            queue_depth: text(&of.join("device/queue_depth")).and_then(|text| text.parse().ok()),
            partitions: entries(&of).into_iter().filter(is_partition).collect(),
            holders: entries(&of.join("holders")),
        })
    }
}

/// The scheduler in brackets of `none [mq-deadline] bfq`; one alone has none.
fn active(schedulers: &str) -> Option<String> {
    let bracketed = schedulers.split_once('[').and_then(|(_, tail)| tail.split_once(']'));
    let active = bracketed.map_or(schedulers, |(active, _)| active);
    Some(active.trim().to_owned()).filter(|name| !name.is_empty() && !name.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::active;

    #[test]
    fn the_active_scheduler_is_the_one_in_brackets_or_the_only_one() {
        assert_eq!(active("none [mq-deadline] bfq").as_deref(), Some("mq-deadline"));
        assert_eq!(active("[none] mq-deadline").as_deref(), Some("none"));
        assert_eq!(active("none").as_deref(), Some("none"));
        assert_eq!(active("none bfq"), None);
        assert_eq!(active(""), None);
    }
}
