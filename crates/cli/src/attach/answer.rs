//! What `attach` answers, in words and as JSON, and its errors.

use ::attach::{AttachError, Attached, Devices, uses};
use console::{bad_input, println};
use serde::Serialize;
use stats::SCHEMA;

/// One device of the list, and the answer of `attach`.
#[derive(Debug, Serialize)]
pub(super) struct ShownDevice {
    pub(super) device: String,
    /// Null if another program connected the device.
    pub(super) volume: Option<String>,
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
        volume: attached.backend.as_ref().map(|backend| backend.volume.clone()),
        server: attached.backend.as_ref().map(|backend| backend.server.to_string()),
        size_bytes: attached.size.0,
        read_only: attached.read_only,
        uses: uses(devices, attached.device).iter().map(ToString::to_string).collect(),
    }
}

/// Prints the device that the volume has.
pub(crate) fn print_attached(attached: &Attached, json: bool) -> anyhow::Result<()> {
    if json {
        let attached = shown(&Devices::default(), attached);
        println!("{}", serde_json::to_string(&DeviceAnswer { schema: SCHEMA, attached })?);
    } else {
        println!("{}", attached.device);
    }
    Ok(())
}

/// The error with its exit code: 2 if the caller can correct it, else 1.
pub(crate) fn reported(error: AttachError) -> anyhow::Error {
    if error.is_correctable() { bad_input(error) } else { error.into() }
}
