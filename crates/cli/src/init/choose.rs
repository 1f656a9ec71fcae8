//! Which disks of the machine are free, and which of them the operator gives.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use backend::device::{DeviceInfo, check_overwritable};
use console::{bad_input, eprintln};
use host::{BlockDevice, DeviceKind};
use units::Bytes;

/// The smallest device that is offered.
const OFFERED_MIN: Bytes = Bytes(1 << 30);
/// Times that a question is asked.
const QUESTIONS_MAX: usize = 3;

/// What to serve from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// These block devices.
    Devices(Vec<PathBuf>),
    /// A file.
    File,
}

/// Whether a device is hardware that nothing uses and that holds no partitions.
pub(super) fn is_spare(device: &BlockDevice) -> bool {
    let is_disk = device.kind == DeviceKind::Fixed && !device.is_read_only;
    let is_large = device.capacity >= OFFERED_MIN;
    is_disk
        && is_large
        && device.partitions.is_empty()
        && device.holders.is_empty()
        && check(&device.path).is_ok()
}

/// The capacity of a device; one that is in use, or holds partitions, is refused.
pub(super) fn check(path: &Path) -> anyhow::Result<Bytes> {
    let refused = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(|error| refused(&error))?;
    let info = DeviceInfo::of(&mut file, true).map_err(|error| refused(&error))?;
    check_overwritable(path, &file, &info).map_err(|user| refused(&user))?;
    Ok(info.capacity.bytes())
}

/// Asks which of the `spare` devices to serve. Without a terminal, or told to ask nothing, a file:
/// a device is never taken without being named.
pub(super) fn choose(spare: &[BlockDevice], yes: bool) -> anyhow::Result<Choice> {
    if yes || !io::stdin().is_terminal() {
        return Ok(Choice::File);
    }
    if spare.is_empty() {
        eprintln!("no free disk: a file beside the config serves as one");
        return Ok(Choice::File);
    }
    for (number, device) in (1..).zip(spare) {
        let model = device.model.as_deref().unwrap_or("unknown model");
        let kind = if device.is_rotational { "rotates" } else { "flash" };
        let (path, capacity) = (device.path.display(), device.capacity);
        eprintln!("{number}  {path}  {capacity}  {model}, {kind}");
    }
    let mut lines = io::stdin().lock().lines();
    for _ in 0..QUESTIONS_MAX {
        eprintln!("Disks to serve, whose data is lost (numbers, or nothing for a file)?");
        let Some(answer) = lines.next().transpose()? else { return Ok(Choice::File) };
        match answered(&answer, spare) {
            Some(choice) => return Ok(choice),
            None => eprintln!("found `{answer}`, expected numbers from 1 to {}", spare.len()),
        }
    }
    Err(bad_input("no disk was chosen"))
}

/// The devices whose numbers are in an answer; `None` if something else is.
fn answered(answer: &str, spare: &[BlockDevice]) -> Option<Choice> {
    let number = |word: &str| {
        let index = word.parse::<usize>().ok()?.checked_sub(1)?;
        spare.get(index).map(|device| device.path.clone())
    };
    let words = answer.split(|c: char| c == ',' || c.is_whitespace());
    let words = words.filter(|word| !word.is_empty());
    let mut devices: Vec<_> = words.map(number).collect::<Option<_>>()?;
    devices.sort();
    devices.dedup();
    Some(if devices.is_empty() { Choice::File } else { Choice::Devices(devices) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> BlockDevice {
        BlockDevice {
            name: name.to_owned(),
            path: Path::new("/dev").join(name),
            model: None,
            capacity: Bytes(1 << 40),
            is_rotational: true,
            is_read_only: false,
            kind: DeviceKind::Fixed,
            scheduler: None,
            write_cache: None,
            queue_depth: None,
            partitions: Vec::new(),
            holders: Vec::new(),
        }
    }

    #[test]
    fn an_answer_names_devices_by_their_numbers() {
        let spare = [device("sda"), device("sdb"), device("sdc")];
        let devices = |names: &[&str]| {
            let paths = names.iter().map(|name| Path::new("/dev").join(name)).collect();
            Some(Choice::Devices(paths))
        };
        assert_eq!(answered("2", &spare), devices(&["sdb"]));
        assert_eq!(answered(" 3, 1 3", &spare), devices(&["sda", "sdc"]));
        assert_eq!(answered("", &spare), Some(Choice::File));
        for wrong in ["0", "4", "sdb", "1 x", "-1"] {
            assert_eq!(answered(wrong, &spare), None, "{wrong}");
        }
    }

    #[test]
    fn a_device_that_is_used_is_not_offered() {
        let used = [
            BlockDevice { holders: vec!["dm-0".to_owned()], ..device("sda") },
            BlockDevice { partitions: vec!["sda1".to_owned()], ..device("sda") },
            BlockDevice { is_read_only: true, ..device("sda") },
            BlockDevice { kind: DeviceKind::Removable, ..device("sda") },
            BlockDevice { kind: DeviceKind::Virtual, ..device("sda") },
            BlockDevice { capacity: Bytes(1 << 20), ..device("sda") },
        ];
        assert!(used.iter().all(|device| !is_spare(device)));
    }
}
