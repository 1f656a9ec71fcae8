//! The driver, over netlink sockets.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use units::{Bytes, Duration};

use crate::backend::Backend;
use crate::device::Device;
use crate::devices::{Attached, Devices};
use crate::error::AttachError;
use crate::limits::{
    ANSWER_MAX, BLOCK_MAX, BLOCK_MIN, CONNECTIONS_MAX, MESSAGES_MAX, REQUEST_BYTES_MAX, RESEND,
    RESEND_WITH_SEVERAL,
};
use crate::mounts::claim;
use crate::netlink::{Content, Messages, Request};
use crate::protocol::{Connect, Family, Reconfigure};
use crate::{Connected, connection};

/// What becomes of data that was written to a device that is detached, and not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unflushed {
    /// It is flushed before.
    Kept,
    /// It may be lost: for a device whose server is gone for good.
    Lost,
}

/// Connects, changes and disconnects devices.
#[derive(Debug)]
pub struct Control {
    socket: Socket,
    family: Family,
    sequence: u32,
    devices: Devices,
}

impl Control {
    /// Finds the driver.
    ///
    /// # Errors
    /// [`AttachError::NoDriver`], [`AttachError::KernelTooOld`], and if there is no netlink.
    pub fn open() -> Result<Self, AttachError> {
        let unasked = Family { id: 0, attributes_max: 0, events: None };
        let socket = open_socket().map_err(|error| refused("open a netlink socket", error))?;
        let devices = Devices::default();
        let mut control = Self { socket, family: unasked, sequence: 0, devices };
        let answer = control.ask("find its NBD driver", &Family::request());
        let answer = answer.map_err(|error| match error {
            AttachError::Refused(_, error) if error.kind() == ErrorKind::NotFound => {
                AttachError::NoDriver
            }
            error => error,
        })?;
        control.family = Family::decode(&answer.ok_or(AttachError::NoAnswer)?)?;
        if !control.family.keeps_backend() {
            return Err(AttachError::KernelTooOld);
        }
        Ok(control)
    }

    /// Listens for the driver's events. Those after this call are not missed.
    ///
    /// # Errors
    /// If the driver has none, or there is no netlink.
    pub fn events(&self) -> Result<Events, AttachError> {
        let group = self.family.events.ok_or(AttachError::KernelTooOld)?;
        let joined = open_socket().and_then(|socket| {
            socket.add_membership(group)?;
            Ok(socket)
        });
        let socket = joined.map_err(|error| refused("send its events", error))?;
        Ok(Events { socket, family: self.family })
    }

    /// Attaches a volume to `device`, or to a free one.
    ///
    /// # Errors
    /// See [`AttachError`]. Nothing is attached then.
    pub fn attach(
        &mut self,
        backend: &Backend,
        device: Option<Device>,
        (connections, dead_timeout): (usize, Duration),
    ) -> Result<Attached, AttachError> {
        assert!((1..=CONNECTIONS_MAX).contains(&connections), "a bounded number of connections");
        self.require_free(backend, device)?;
        let first = connection::connect(backend)?;
        let export = first.export;
        if connections > 1 && !export.allows_several_connections() {
            return Err(AttachError::OneConnection(backend.clone()));
        }
        let mut sockets = vec![first.socket];
        while sockets.len() < connections {
            sockets.push(connection::connect(backend)?.socket);
        }
        let descriptors: Vec<_> = sockets.iter().map(descriptor).collect();
        let name = backend.to_string();
        let request = self.family.connect(&Connect {
            index: device.map(|device| device.0),
            size: export.size,
            block: Bytes(export.block_min.0.clamp(BLOCK_MIN.0, BLOCK_MAX.0)),
            server_flags: export.flags,
            dead_timeout,
            backend: &name,
            sockets: &descriptors,
        });
        let answer =
            self.ask("connect a device", &request).map_err(|error| match (error, device) {
                (AttachError::Refused(_, error), Some(device)) if is(&error, Errno::BUSY) => {
                    AttachError::Connected(device, None)
                }
                (AttachError::Refused(_, error), Some(device)) if is(&error, Errno::INVAL) => {
                    AttachError::NumberTooLarge(device)
                }
                (error, _) => error,
            })?;
        let device = Device(Family::index(&answer.ok_or(AttachError::NoAnswer)?)?);
        let Some(attached) = self.devices.attached_to(device, backend) else {
            self.disconnect(device)?;
            return Err(AttachError::KernelTooOld);
        };
        self.set_limits(device, connections, &export);
        Ok(attached)
    }

    /// Refuses a volume that is attached already, and a device that is.
    fn require_free(&self, backend: &Backend, device: Option<Device>) -> Result<(), AttachError> {
        let connected = self.devices.list()?;
        if let Some(found) = connected.iter().find(|one| one.backend.as_ref() == Some(backend)) {
            return Err(AttachError::Attached(found.device, backend.clone()));
        }
        let Some(device) = device else { return Ok(()) };
        match connected.into_iter().find(|one| one.device == device) {
            Some(found) => Err(AttachError::Connected(device, found.backend)),
            None => Ok(()),
        }
    }

    /// Sets the limits of the device's queue from those of the export. A kernel without a setting
    /// has a slower device.
    fn set_limits(&self, device: Device, connections: usize, export: &nbd::client::ClientExport) {
        let resend = if connections > 1 { RESEND_WITH_SEVERAL } else { RESEND };
        let longest = export.block_max.0.min(REQUEST_BYTES_MAX.0) >> 10;
        for (setting, value) in [
            ("queue/io_timeout", resend.as_nanos() / 1_000_000),
            ("queue/max_sectors_kb", longest),
            ("queue/rotational", u64::from(export.is_rotational())),
        ] {
            let _ = self.devices.set(device, setting, value);
        }
    }

    /// Gives the device a connection in place of one that ended, and the size of the export if that
    /// is larger. Without a dead connection the driver drops the new one.
    ///
    /// # Errors
    /// If the kernel refuses, as it does when the device was detached meanwhile.
    pub fn reconnect(
        &mut self,
        attached: &Attached,
        backend: &Backend,
        new: &Connected,
    ) -> Result<(), AttachError> {
        let request = self.family.reconfigure(&Reconfigure {
            index: attached.device.0,
            size: grown(attached, new.export.size),
            backend: &backend.to_string(),
            sockets: &[descriptor(&new.socket)],
        });
        self.ask("reconnect the device", &request).map(drop)
    }

    /// Grows the device to `size`, if it is smaller. Returns whether it was.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn grow(
        &mut self,
        attached: &Attached,
        backend: &Backend,
        size: Bytes,
    ) -> Result<bool, AttachError> {
        let Some(size) = grown(attached, size) else { return Ok(false) };
        let request = self.family.reconfigure(&Reconfigure {
            index: attached.device.0,
            size: Some(size),
            backend: &backend.to_string(),
            sockets: &[],
        });
        self.ask("grow the device", &request).map(|_| true)
    }

    /// Detaches a device that nothing uses. What was written to it is on the server then, unless
    /// `unflushed` is [`Unflushed::Lost`].
    ///
    /// # Errors
    /// [`AttachError::NotConnected`], [`AttachError::Foreign`], [`AttachError::InUse`],
    /// [`AttachError::Unflushed`], and if the kernel refuses.
    pub fn detach(&mut self, device: Device, unflushed: Unflushed) -> Result<(), AttachError> {
        let attached = self.devices.attached(device).ok_or(AttachError::NotConnected(device))?;
        let backend = attached.backend.ok_or(AttachError::Foreign(device))?;
        // Held until the device is disconnected: nothing can mount it in between.
        let claimed = claim(&self.devices, device)?;
        if unflushed == Unflushed::Kept {
            // Without a server a flush waits as long as the device's requests may.
            connection::describe(&backend)
                .map_err(|error| AttachError::Unflushed(device, backend, error))?;
            rustix::fs::fsync(&claimed)
                .map_err(|error| AttachError::File(device.to_string(), error.into()))?;
        }
        self.disconnect(device)?;
        drop(claimed);
        Ok(())
    }

    fn disconnect(&mut self, device: Device) -> Result<(), AttachError> {
        let request = self.family.disconnect(device.0);
        self.ask("disconnect the device", &request).map(drop)
    }

    /// Sends a request, and waits for its acknowledgement. Returns the attributes of the message
    /// before it, if there was one.
    fn ask(
        &mut self,
        what: &'static str,
        request: &Request,
    ) -> Result<Option<Vec<u8>>, AttachError> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let bytes = request.encode(self.sequence);
        let failed = |error| refused(what, error);
        let kernel = SocketAddr::new(0, 0);
        self.socket.send_to(&bytes, &kernel, 0).map_err(failed)?;
        let mut answer = None;
        for _ in 0..MESSAGES_MAX {
            let received = receive(&self.socket, ANSWER_MAX).map_err(failed)?;
            for message in Messages(&received.ok_or(AttachError::NoAnswer)?) {
                let message = message?;
                if message.sequence != self.sequence {
                    continue;
                }
                match message.content {
                    Content::Done => return Ok(answer),
                    Content::Failed(number) => {
                        return Err(refused(what, io::Error::from_raw_os_error(number)));
                    }
                    Content::Family { attributes, .. } => answer = Some(attributes.to_vec()),
                    Content::Other => {}
                }
            }
        }
        Err(AttachError::NoAnswer)
    }
}

/// An event of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection of this device ended.
    DeadLink(Device),
    /// Events were lost: any connection may have ended.
    Lost,
}

/// The driver's events.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
    family: Family,
}

impl Events {
    /// Waits for events, for `longest` at most.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn wait(&self, longest: Duration) -> Result<Vec<Event>, AttachError> {
        let received = match receive(&self.socket, longest) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(Vec::new()),
            Err(error) if is(&error, Errno::NOBUFS) => return Ok(vec![Event::Lost]),
            Err(error) => return Err(refused("send its events", error)),
        };
        let mut events = Vec::new();
        for message in Messages(&received) {
            let Ok(message) = message else { return Ok(vec![Event::Lost]) };
            let Content::Family { family, command, attributes } = message.content else { continue };
            match self.family.dead_link((family, command), attributes) {
                Ok(index) => events.extend(index.map(|index| Event::DeadLink(Device(index)))),
                Err(_) => events.push(Event::Lost),
            }
        }
        Ok(events)
    }
}

/// The size to which the device grows, if its export has become larger.
fn grown(attached: &Attached, size: Bytes) -> Option<Bytes> {
    // The device has whole blocks alone.
    let whole = Bytes(size.0 - size.0 % BLOCK_MIN.0);
    (whole > attached.size).then_some(whole)
}

fn descriptor(socket: &OwnedFd) -> u32 {
    u32::try_from(socket.as_raw_fd()).expect("an open descriptor")
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn refused(what: &'static str, error: io::Error) -> AttachError {
    if error.kind() == ErrorKind::PermissionDenied {
        return AttachError::NoPermission;
    }
    AttachError::Refused(what, error)
}

fn open_socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    Ok(socket)
}

/// The next datagram of the kernel; `None` after `longest` without one.
fn receive(socket: &Socket, longest: Duration) -> io::Result<Option<Vec<u8>>> {
    loop {
        let timeout = Timespec::try_from(core::time::Duration::from_nanos(longest.as_nanos()));
        let timeout = timeout.map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let (bytes, sender) = socket.recv_from_full()?;
        // Other processes may send to the socket as well.
        if sender.port_number() == 0 {
            return Ok(Some(bytes));
        }
    }
}
