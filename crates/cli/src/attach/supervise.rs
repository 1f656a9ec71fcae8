//! Keeps a device connected, without state of its own: SIGKILL ends the supervisor as well as
//! SIGTERM does, the device stays, and another supervisor takes it over.
//!
//! ```text
//!  a connection ended ──▶ connect to the daemon, again until it answers ──▶ give the kernel the
//!  every LOOK_PERIOD  ──▶ ask the daemon for the size ──▶ grow the device       new connection
//! ```

use ::attach::{AttachError, Attached, Backend, Control, Device, Devices, Event};
use console::{ExitStatus, eprintln};
use units::Duration;

use super::answer::{print_attached, reported};
use crate::notify;

/// How often the volume's size is looked at, and whether the device is attached.
const LOOK_PERIOD: Duration = Duration::from_millis(2_000);
/// The time between two attempts to reach the daemon.
const RETRY: Duration = Duration::from_millis(100);

/// A device that is kept connected.
struct Supervisor<'a> {
    control: &'a mut Control,
    backend: &'a Backend,
    device: Device,
    connections: usize,
    /// The connections that may have ended.
    dead: usize,
    /// Whether one more connection is offered at the next look. The driver drops an offer that
    /// arrives before it has marked the old connection as dead, and does not say so.
    offers_again: bool,
}

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
    let (device, connections) = (attached.device, how.0);
    let offers_again = false;
    let mut supervisor = Supervisor { control, backend, device, connections, dead, offers_again };
    loop {
        if supervisor.reconnect().is_none() || supervisor.look().is_none() {
            eprintln!("{device} is detached");
            return Ok(ExitStatus::Success);
        }
        for event in events.wait(LOOK_PERIOD).map_err(reported)? {
            supervisor.note(event);
        }
    }
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

impl Supervisor<'_> {
    /// Notes that connections may have ended.
    fn note(&mut self, event: Event) {
        match event {
            Event::DeadLink(device) if device == self.device => {
                self.dead = self.connections.min(self.dead + 1);
            }
            Event::DeadLink(_) => {}
            Event::Lost => self.dead = self.connections,
        }
    }

    /// The device, while it is attached to the volume.
    fn attached(&self) -> Option<Attached> {
        Devices::default().attached_to(self.device, self.backend)
    }

    /// Replaces the connections that ended, as soon as the daemon answers. `None` if the device is
    /// detached.
    fn reconnect(&mut self) -> Option<()> {
        let mut is_told = false;
        while self.dead > 0 {
            let attached = self.attached()?;
            match ::attach::connect(self.backend) {
                Ok(new) => {
                    match self.control.reconnect(&attached, self.backend, &new) {
                        Ok(()) => eprintln!("{} is connected", self.device),
                        Err(error) => self.report(&error, &mut is_told)?,
                    }
                    self.dead -= 1;
                    self.offers_again = true;
                }
                Err(error) => {
                    self.report(&error, &mut is_told)?;
                    pause(RETRY);
                }
            }
        }
        Some(())
    }

    /// Looks whether the volume has grown. A daemon that does not answer is no error here: the end
    /// of a connection is an event. `None` if the device is detached.
    fn look(&mut self) -> Option<()> {
        let attached = self.attached()?;
        if core::mem::take(&mut self.offers_again)
            && let Ok(new) = ::attach::connect(self.backend)
            && let Err(error) = self.control.reconnect(&attached, self.backend, &new)
        {
            self.report(&error, &mut false)?;
        }
        let Ok(export) = ::attach::describe(self.backend) else { return Some(()) };
        match self.control.grow(&attached, self.backend, export.size) {
            Ok(true) => eprintln!("{} has {} now", self.device, export.size),
            Ok(false) => {}
            Err(error) => self.report(&error, &mut false)?,
        }
        Some(())
    }

    /// Reports an error once. `None` if the device was detached meanwhile, which is its cause.
    fn report(&self, error: &AttachError, is_told: &mut bool) -> Option<()> {
        self.attached()?;
        if !core::mem::replace(is_told, true) {
            eprintln!("{} waits: {error}", self.device);
        }
        Some(())
    }
}

#[expect(clippy::disallowed_methods, reason = "no event says that a daemon listens again")]
fn pause(length: Duration) {
    std::thread::sleep(core::time::Duration::from_nanos(length.as_nanos()));
}
