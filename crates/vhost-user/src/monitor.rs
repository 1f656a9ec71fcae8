//! The conversation with one virtual machine monitor.

use std::fmt;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use nbd::{Handle, Refused};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use vhost::vhost_user::{BackendReqHandler, Error};

use crate::control::Control;
use crate::device::{Device, Link, Served};

/// The bytes of a message's header: its request, flags and length.
const HEADER_BYTES: usize = 12;
/// The request that hands over the descriptor for the device's own messages.
const SET_BACKEND_REQUEST_FD: u32 = 21;

/// Why a conversation ended, other than by the monitor.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The server does not serve the device.
    Refused(Refused),
    /// A message is malformed, or asks for what cannot be done.
    Message(Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "a virtual machine was refused: {why}"),
            Self::Message(error) => write!(f, "hung up on a virtual machine: {error}"),
        }
    }
}

/// Answers a monitor until it or the server hangs up. When this returns, no request of it is in
/// progress.
pub(crate) fn serve(
    stream: UnixStream,
    device: &Arc<Device>,
    handle: &Handle,
) -> Result<(), Ended> {
    handle.attach(Box::new(Served::new(device)));
    let state = device.wait(device.state(), |state| !matches!(state.link, Link::Waiting));
    let connection = match state.link {
        Link::Refused(why) => return Err(Ended::Refused(why)),
        Link::Attached(connection, _) => connection,
        Link::Waiting | Link::Closed => return Ok(()),
    };
    drop(state);
    let ended = converse(stream, device);
    device.stop_rings();
    handle.detach(connection);
    drop(device.wait(device.state(), |state| !state.is_attached()));
    ended
}

fn converse(stream: UnixStream, device: &Arc<Device>) -> Result<(), Ended> {
    let failed = |error| Ended::Message(Error::SocketError(error));
    let peeked = stream.try_clone().map_err(failed)?;
    let control = Arc::new(Mutex::new(Control::new(Arc::clone(device))));
    let mut handler = BackendReqHandler::from_stream(stream, control);
    loop {
        match peek(&peeked) {
            Peeked::End => return Ok(()),
            Peeked::Events(events) => device.state().events = Some(events),
            Peeked::Other => {}
        }
        match handler.handle_request() {
            // What was not offered is refused, and no reason to hang up.
            Ok(()) | Err(Error::InvalidOperation(_)) => {}
            Err(Error::Disconnected | Error::SocketBroken(_) | Error::PartialMessage) => {
                return Ok(());
            }
            Err(error) => return Err(Ended::Message(error)),
        }
    }
}

/// What the next message is.
enum Peeked {
    /// There is none.
    End,
    /// It hands over the socket for the device's own messages.
    Events(OwnedFd),
    Other,
}

/// Looks at the next message without taking it: the library that answers it keeps the socket for
/// the device's own messages to itself, and sends no changes of the configuration space.
fn peek(socket: &UnixStream) -> Peeked {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut header)], &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => break outcome,
        }
    };
    let bytes = received.map_or(0, |received| received.bytes);
    if bytes == 0 {
        return Peeked::End;
    }
    let [a, b, c, d, ..] = header;
    let is_events = bytes >= 4 && u32::from_ne_bytes([a, b, c, d]) == SET_BACKEND_REQUEST_FD;
    let mut descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
        _ => Vec::new(),
    });
    match descriptors.next() {
        Some(events) if is_events => Peeked::Events(events),
        _ => Peeked::Other,
    }
}
