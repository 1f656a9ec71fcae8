//! Devices that a daemon serves by the kernel's ublk driver. The daemon's API makes and removes
//! them; a device whose daemon is gone is removed here.

use ::ublk::{Control, DeviceId, DeviceState, Mark, UblkError, remove};
use api::{Answer, ClientError, Volume, VolumeAnswer, VolumeChange, VolumesAnswer};
use console::{ExitStatus, bad_input};

use super::answer::{ShownDevice, print_device, reported_ublk, shown_ublk};
use crate::daemon_api::{ApiSocket, accepted, parse};

/// Has the daemon serve a volume as a block device.
pub(super) fn attach(volume: &str, api: &ApiSocket, json: bool) -> anyhow::Result<ExitStatus> {
    let answer = changed(set(api, volume, true))?;
    let volume = parse::<VolumeAnswer>(&answer)?.volume;
    let shown = device_of(&volume);
    print_device(shown.ok_or_else(|| anyhow::anyhow!("the daemon names no device"))?, json)?;
    Ok(ExitStatus::Success)
}

/// Detaches a device, or a volume's, if it is one of ublk's. Returns the device.
pub(super) fn detach(target: &str, api: &ApiSocket) -> anyhow::Result<Option<DeviceId>> {
    let device = target.starts_with("/dev/").then(|| target.parse().ok()).flatten();
    let mut served = served(api).into_iter();
    let found = served.find(|(volume, found)| match device {
        Some(device) => *found == device,
        None => volume.name == target,
    });
    match (found, device) {
        (Some((volume, device)), _) => {
            changed(set(api, &volume.name, false))?;
            Ok(Some(device))
        }
        (None, Some(device)) => {
            remove_left(device).map_err(reported_ublk)?;
            Ok(Some(device))
        }
        (None, None) => Ok(None),
    }
}

/// Removes a device whose daemon is gone, or that of an emulated drive.
fn remove_left(device: DeviceId) -> Result<(), UblkError> {
    let mut control = Control::open()?;
    let info = control.info(device)?;
    if !info.mark.is_of_spindle() {
        return Err(UblkError::Foreign(device));
    }
    if info.state == DeviceState::Live && info.mark != Mark::EMULATED {
        return Err(UblkError::Served(device, info.pid));
    }
    remove(&mut control, device, false)
}

/// The devices that the daemon serves; none without a daemon.
pub(super) fn list(api: &ApiSocket) -> Vec<ShownDevice> {
    served(api).iter().filter_map(|(volume, _)| device_of(volume)).collect()
}

fn served(api: &ApiSocket) -> Vec<(Volume, DeviceId)> {
    let answer = api.client().get("volumes", None).ok();
    let volumes = answer.and_then(|answer| parse::<VolumesAnswer>(&answer).ok());
    let volumes = volumes.into_iter().flat_map(|answer| answer.volumes);
    let served = volumes.filter_map(|volume| {
        let device = volume.block_device.as_ref()?.path.parse().ok()?;
        Some((volume, device))
    });
    served.collect()
}

fn device_of(volume: &Volume) -> Option<ShownDevice> {
    let there = volume.block_device.as_ref()?;
    Some(shown_ublk(there.path.parse().ok()?, &volume.name, there.size_bytes))
}

fn set(api: &ApiSocket, volume: &str, ublk: bool) -> Result<Answer, ClientError> {
    let change = VolumeChange { ublk: Some(ublk), ..VolumeChange::default() };
    api.client().patch("volumes", volume, &change)
}

/// The daemon's answer. What the caller can correct has exit code 2, a conflict too.
fn changed(answer: Result<Answer, ClientError>) -> anyhow::Result<Answer> {
    let is_correctable = answer.as_ref().is_ok_and(|answer| answer.status < 500);
    accepted(answer).map_err(|error| if is_correctable { bad_input(error) } else { error })
}
