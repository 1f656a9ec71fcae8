//! Reads what the rules judge.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use backend::device::{DeviceInfo, check_unused};
use config::{Backing, Disk, Plan, RealDisk};
use drive_library::profile::ProfileFile;
use host::{BlockDevice, Machine};

use super::rules::{self, Finding, ProfileState};

/// What is to be said of the machine.
pub(super) fn machine(machine: &Machine, plan: Option<&Plan>) -> Vec<Finding> {
    let connections = plan.map_or_else(
        || u64::try_from(config::limits::CONNECTIONS_MAX).expect("a small number"),
        |plan| u64::try_from(plan.nbd.connections).expect("a small number"),
    );
    let can_limit = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_ok();
    vec![
        rules::io_uring(machine.io_uring_policy()),
        rules::open_files(machine.open_files_max(), connections),
        rules::sleep_states(machine.exit_latency_max(), can_limit),
    ]
}

/// What is to be said of the real disks of the config at `path`.
pub(super) fn disks(machine: &Machine, plan: &Plan, path: &Path) -> Vec<Finding> {
    let devices = machine.block_devices();
    let base_dir = path.parent().unwrap_or(Path::new(""));
    let real = plan.disks.iter().filter_map(|disk| match &disk.backing {
        Backing::Real(real) => Some((disk, real)),
        _ => None,
    });
    real.flat_map(|(disk, real)| {
        let findings = of_disk(disk, real, &devices, base_dir);
        findings.into_iter().map(|finding| finding.about(&disk.name))
    })
    .collect()
}

fn of_disk(disk: &Disk, real: &RealDisk, devices: &[BlockDevice], base_dir: &Path) -> Vec<Finding> {
    let opened = File::open(&real.path).and_then(|mut file| {
        let info = DeviceInfo::of(&mut file, !real.buffered)?;
        Ok((file, info))
    });
    let (file, info) = match opened {
        Ok(opened) => opened,
        Err(error) => return vec![rules::access(&error.to_string())],
    };
    let user = check_unused(&real.path, &file, &info).err().map(|user| user.to_string());
    let path = real.path.display().to_string();
    let model = info.model.as_deref();
    let state = profile_state(disk, base_dir, model);
    let mut findings =
        vec![rules::in_use(user), rules::profile(&state, &path, disk.drive.model.rotational())];
    if let Some(device) = below(&info, devices) {
        let scheduler = device.scheduler.as_deref();
        findings.push(rules::scheduler(&device.name, scheduler));
        findings.push(rules::write_cache(device.write_cache, disk.write_buffer.is_some()));
        findings.push(rules::queue_depth(disk.depth, device.queue_depth));
    }
    findings
}

/// The whole device that a device or a partition of it is.
fn below<'a>(info: &DeviceInfo, devices: &'a [BlockDevice]) -> Option<&'a BlockDevice> {
    let sysfs: PathBuf = info.sysfs.as_ref()?.canonicalize().ok()?;
    let mut names = sysfs.ancestors().filter_map(|path| path.file_name()?.to_str());
    names.find_map(|name| devices.iter().find(|device| device.name == name))
}

/// Whether the disk's profile was measured on a drive of this model.
fn profile_state(disk: &Disk, base_dir: &Path, model: Option<&str>) -> ProfileState {
    let Some(profile) = &disk.profile else { return ProfileState::Missing };
    let file = ProfileFile::read(&base_dir.join(&profile.name));
    let measured = file.ok().and_then(|file| file.device.model);
    match (measured, model) {
        (Some(measured), Some(device)) if measured != device => {
            ProfileState::OtherModel { measured, device: device.to_owned() }
        }
        _ => ProfileState::Current,
    }
}
