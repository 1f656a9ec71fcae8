//! What `attach` answers, in words and as JSON, and its errors.

use ::attach::{AttachError, Attached, Devices, uses, uses_of};
use ::ublk::{DeviceId, UblkError};
use console::{bad_input, println};
use serde::Serialize;
use stats::SCHEMA;

/// One device of the list, and the answer of `attach`.
#[derive(Debug, Serialize)]
pub(crate) struct ShownDevice {
    pub(super) device: String,
    /// The kernel's driver: `nbd` or `ublk`.
    pub(super) driver: &'static str,
    /// Null if another program connected the device.
    pub(super) volume: Option<String>,
    /// Null if the daemon serves the device without a socket, by ublk.
    pub(super) server: Option<String>,
    pub(super) size_bytes: u64,
    pub(super) read_only: bool,
    /// What uses the device, in words.
    pub(super) uses: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceAnswer {
    schema: u32,
    attached: ShownDevice,
}

pub(super) fn shown(devices: &Devices, attached: &Attached) -> ShownDevice {
    ShownDevice {
        device: attached.device.to_string(),
        driver: "nbd",
        volume: attached.backend.as_ref().map(|backend| backend.volume.clone()),
        server: attached.backend.as_ref().map(|backend| backend.server.to_string()),
        size_bytes: attached.size.0,
        read_only: attached.read_only,
        uses: uses(devices, attached.device).iter().map(ToString::to_string).collect(),
    }
}

/// A device that a daemon serves by ublk, of this size.
pub(crate) fn shown_ublk(device: DeviceId, volume: &str, size_bytes: u64) -> ShownDevice {
    let (devices, name) = (Devices::default(), device.name());
    ShownDevice {
        device: device.to_string(),
        driver: "ublk",
        volume: Some(volume.to_owned()),
        server: None,
        size_bytes,
        read_only: devices.read_of(&name, "ro").is_ok_and(|text| text == "1"),
        uses: uses_of(&devices, &name).iter().map(ToString::to_string).collect(),
    }
}

/// Prints the device that the volume has.
pub(crate) fn print_attached(attached: &Attached, json: bool) -> anyhow::Result<()> {
    print_device(shown(&Devices::default(), attached), json)
}

/// Prints a device.
pub(crate) fn print_device(attached: ShownDevice, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(&DeviceAnswer { schema: SCHEMA, attached })?);
    } else {
        println!("{}", attached.device);
    }
    Ok(())
}

/// The error of the ublk driver with its exit code.
pub(crate) fn reported_ublk(error: UblkError) -> anyhow::Error {
    if error.is_correctable() { bad_input(error) } else { error.into() }
}

/// The error with its exit code: 2 if the caller can correct it, else 1.
pub(crate) fn reported(error: AttachError) -> anyhow::Error {
    if error.is_correctable() { bad_input(error) } else { error.into() }
}
