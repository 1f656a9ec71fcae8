//! Keeps a device connected, without state of its own: a supervisor that ends leaves the device,
//! and another supervisor takes it over.
//!
//! ```text
//!  a connection ended ──▶ connect to the daemon, again until it answers ──▶ give the kernel the
//!  every LOOK_PERIOD  ──▶ ask the daemon for the size ──▶ grow the device       new connection
//! ```

use std::fmt;

use units::{Bytes, Duration};

use crate::backend::Backend;
use crate::connection::{connect, describe};
use crate::control::{Control, Event, Events};
use crate::device::Device;
use crate::devices::{Attached, Devices};
use crate::error::AttachError;
use crate::limits::{LOOK_PERIOD, RECONNECT_RETRY};

/// What happens to a device that is kept connected.
#[derive(Debug)]
pub enum Supervised<'a> {
    /// It has a new connection.
    Connected(Device),
    /// It waits for a connection, for this reason.
    Waits(Device, &'a AttachError),
    /// It was grown to this size.
    Grown(Device, Bytes),
}

impl fmt::Display for Supervised<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(device) => write!(f, "{device} is connected"),
            Self::Waits(device, error) => write!(f, "{device} waits: {error}"),
            Self::Grown(device, size) => write!(f, "{device} has {size} now"),
        }
    }
}

/// A device that is kept connected.
struct Supervisor<'a, T> {
    control: &'a mut Control,
    backend: &'a Backend,
    device: Device,
    connections: usize,
    tell: T,
    /// The number of connections that may have ended.
    dead: usize,
    /// Whether one more connection is offered at the next look. The driver drops an offer that
    /// arrives before it has marked the old connection as dead, and does not say so.
    offers_again: bool,
}

/// Keeps a device connected until it is detached, on `connections` connections, of which `dead` may
/// have ended already. `events` were listened to since that was known.
///
/// # Errors
/// If the kernel's events cannot be read.
pub fn supervise(
    control: &mut Control,
    events: &Events,
    (backend, device): (&Backend, Device),
    (connections, dead): (usize, usize),
    tell: impl FnMut(Supervised<'_>),
) -> Result<(), AttachError> {
    let offers_again = false;
    let mut supervisor =
        Supervisor { control, backend, device, connections, tell, dead, offers_again };
    while supervisor.reconnect().is_some() && supervisor.look().is_some() {
        for event in events.wait(LOOK_PERIOD)? {
            supervisor.note(event);
        }
    }
    Ok(())
}

impl<T: FnMut(Supervised<'_>)> Supervisor<'_, T> {
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
            match connect(self.backend) {
                Ok(new) => {
                    match self.control.reconnect(&attached, self.backend, &new) {
                        Ok(()) => (self.tell)(Supervised::Connected(self.device)),
                        Err(error) => self.report(&error, &mut is_told)?,
                    }
                    self.dead -= 1;
                    self.offers_again = true;
                }
                Err(error) => {
                    self.report(&error, &mut is_told)?;
                    pause(RECONNECT_RETRY);
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
            && let Ok(new) = connect(self.backend)
            && let Err(error) = self.control.reconnect(&attached, self.backend, &new)
        {
            self.report(&error, &mut false)?;
        }
        let Ok(export) = describe(self.backend) else { return Some(()) };
        match self.control.grow(&attached, self.backend, export.size) {
            Ok(true) => (self.tell)(Supervised::Grown(self.device, export.size)),
            Ok(false) => {}
            Err(error) => self.report(&error, &mut false)?,
        }
        Some(())
    }

    /// Reports an error once. `None` if the device was detached meanwhile, which is its cause.
    fn report(&mut self, error: &AttachError, is_told: &mut bool) -> Option<()> {
        self.attached()?;
        if !core::mem::replace(is_told, true) {
            (self.tell)(Supervised::Waits(self.device, error));
        }
        Some(())
    }
}

#[expect(clippy::disallowed_methods, reason = "no event says that a daemon listens again")]
fn pause(length: Duration) {
    std::thread::sleep(core::time::Duration::from_nanos(length.as_nanos()));
}
