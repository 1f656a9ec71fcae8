//! `spindle attach --supervise`: attaches a volume, or takes its device over, and keeps it
//! connected. SIGKILL ends the supervisor as well as SIGTERM does, and the device stays.

use ::attach::{AttachError, Attached, Backend, Control, Device, Devices, supervise};
use console::{ExitStatus, eprintln};
use units::Duration;

use super::answer::{print_attached, reported};
use crate::notify;

pub(super) fn run(
    control: &mut Control,
    backend: &Backend,
    asked: Option<Device>,
    how: (usize, Duration),
    json: bool,
) -> anyhow::Result<ExitStatus> {
    let events = control.events().map_err(reported)?;
    let (attached, dead) = match control.attach(backend, asked, how) {
        Ok(attached) => (attached, 0),
        // Which of its connections ended before the events were listened to is not known.
        Err(error) => (taken_over(error, backend, asked)?, how.0),
    };
    print_attached(&attached, json)?;
    notify::tell("READY=1\nSTATUS=attached");
    let device = attached.device;
    supervise(control, &events, (backend, device), (how.0, dead), |happened| {
        eprintln!("{happened}");
    })
    .map_err(reported)?;
    eprintln!("{device} is detached");
    Ok(ExitStatus::Success)
}

/// The device of a volume that is attached already, if that is why it was not attached.
fn taken_over(
    error: AttachError,
    backend: &Backend,
    asked: Option<Device>,
) -> anyhow::Result<Attached> {
    let AttachError::Attached(device, _) = error else { return Err(reported(error)) };
    if asked.is_some_and(|asked| asked != device) {
        return Err(reported(error));
    }
    let attached = Devices::default().attached_to(device, backend);
    attached.ok_or_else(|| reported(AttachError::NotConnected(device)))
}
