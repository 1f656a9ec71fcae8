//! The client: its handshake, and its two halves.

use std::collections::btree_map::Entry;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use units::{Bytes, Extent, Op, Operation, SECTOR_BYTES};

use super::error::ClientError;
use super::outstanding::{ExpectedReply, Outstanding, lock};
use crate::address::Address;
use crate::limits::{DESCRIPTION_BYTES_MAX, EXPORTS_MAX, NAME_BYTES_MAX, OPTION_BYTES_MAX};
use crate::proto::byte_range::ByteRange;
use crate::proto::request::Errno;
use crate::proto::wire::{
    FIXED_NEWSTYLE, Fields, GREETING_BYTES, INIT_MAGIC, NO_ZEROES, OPTION_MAGIC,
    OPTION_REPLY_HEADER_BYTES, OPTION_REPLY_MAGIC, RequestHeader, command, flag, info, length,
    name_length, option, option_request, rep,
};

const RECEIVE_BUFFER_BYTES: usize = 256 << 10;

/// An export as the server describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientExport {
    /// Its size.
    pub size: Bytes,
    /// The transmission flags, as they came.
    pub flags: u16,
    /// The smallest unit of access.
    pub block_min: Bytes,
    /// The unit in which access is efficient.
    pub block_preferred: Bytes,
    /// The most that one read or write may move.
    pub block_max: Bytes,
}

impl ClientExport {
    /// Whether writing is refused.
    pub const fn is_read_only(&self) -> bool {
        self.flags & flag::READ_ONLY != 0
    }

    /// Whether several connections see each other's writes, as one connection sees its own.
    pub const fn allows_several_connections(&self) -> bool {
        self.flags & flag::CAN_MULTI_CONN != 0
    }

    /// Whether sectors close to each other are read faster than others.
    pub const fn is_rotational(&self) -> bool {
        self.flags & flag::ROTATIONAL != 0
    }
}

/// A name on the server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    /// The name for [`Client::go`].
    pub name: String,
    /// A description for people, or empty.
    pub description: String,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The cookie of the request.
    pub cookie: u64,
    /// The bytes of a read; otherwise empty.
    pub result: Result<Vec<u8>, Errno>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    sender: Sender,
    receiver: Receiver,
    cookies: u64,
}

/// The half that sends requests.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    /// Heads and small payloads, until [`Sender::flush`].
    buffer: Vec<u8>,
    outstanding: Outstanding,
}

/// The half that receives replies.
#[derive(Debug)]
pub struct Receiver {
    pub(super) socket: BufReader<Socket>,
    pub(super) outstanding: Outstanding,
}

/// One reply to an option.
pub(super) struct OptionReply {
    pub(super) kind: u32,
    pub(super) data: Vec<u8>,
}

impl Client {
    /// Connects and agrees on the fixed newstyle handshake (section "Fixed newstyle negotiation").
    ///
    /// # Errors
    /// If no server listens there, or it is no NBD server.
    pub fn connect(address: &Address) -> Result<Self, ClientError> {
        let mut socket = Socket::connect(address)?;
        let mut greeting = [0; GREETING_BYTES];
        socket.read_exact(&mut greeting)?;
        let mut fields = Fields(&greeting);
        let magics = fields.u64() == Some(INIT_MAGIC) && fields.u64() == Some(OPTION_MAGIC);
        let flags = fields.u16().unwrap_or(0);
        if !magics || flags & FIXED_NEWSTYLE == 0 {
            return Err(ClientError::Protocol("no fixed newstyle greeting"));
        }
        socket.write_all(&u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes())?;
        let outstanding = Outstanding::default();
        let receiver = Receiver {
            socket: BufReader::with_capacity(RECEIVE_BUFFER_BYTES, socket.try_clone()?),
            outstanding: Arc::clone(&outstanding),
        };
        let sender = Sender { socket, buffer: Vec::new(), outstanding };
        Ok(Self { sender, receiver, cookies: 0 })
    }

    /// Lists the exports (`NBD_OPT_LIST`).
    ///
    /// # Errors
    /// If the connection fails, or the server refuses to list.
    pub fn list(&mut self) -> Result<Vec<ListedExport>, ClientError> {
        self.send_option(option::LIST, &[])?;
        let mut found = Vec::new();
        loop {
            let reply = self.read_option_reply(option::LIST)?;
            match reply.kind {
                rep::ACK => return Ok(found),
                rep::SERVER if found.len() < EXPORTS_MAX => {
                    let listed = listed(&reply.data);
                    found.push(listed.ok_or(ClientError::Protocol("a broken list"))?);
                }
                kind => return Err(refusal(kind)),
            }
        }
    }

    /// The server's description of an export, without opening it (`NBD_OPT_INFO`).
    ///
    /// # Errors
    /// If the connection fails or there is no such export.
    pub fn info(&mut self, name: &str) -> Result<ClientExport, ClientError> {
        self.describe(option::INFO, name)
    }

    /// Opens an export and ends the handshake (`NBD_OPT_GO`). The empty name means the server's
    /// only export.
    ///
    /// # Errors
    /// If the connection fails or there is no such export; another may be tried.
    pub fn go(&mut self, name: &str) -> Result<ClientExport, ClientError> {
        self.describe(option::GO, name)
    }

    /// Says that the connection will be handed to the kernel's client, so that a server that
    /// knows the word shows it as such. Another server goes on without.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn announce_kernel(&mut self) -> Result<(), ClientError> {
        self.send_option(option::KERNEL_CLIENT, &[])?;
        self.read_option_reply(option::KERNEL_CLIENT).map(drop)
    }

    /// Ends the handshake without opening anything (`NBD_OPT_ABORT`).
    ///
    /// # Errors
    /// If the connection fails.
    pub fn abort(mut self) -> Result<(), ClientError> {
        self.send_option(option::ABORT, &[])?;
        match self.read_option_reply(option::ABORT)?.kind {
            rep::ACK => Ok(()),
            kind => Err(refusal(kind)),
        }
    }

    fn describe(&mut self, option: u32, name: &str) -> Result<ClientExport, ClientError> {
        let wanted = [0, 1, 0, 3]; // one request: NBD_INFO_BLOCK_SIZE
        self.send_option(option, &[&name_length(name), name.as_bytes(), &wanted])?;
        let mut export = None;
        let mut blocks = (Bytes(SECTOR_BYTES), Bytes(4096), Bytes(1 << 25));
        loop {
            let reply = self.read_option_reply(option)?;
            let mut fields = Fields(&reply.data);
            match (reply.kind, fields.u16()) {
                (rep::ACK, _) => break,
                (rep::INFO, Some(info::EXPORT)) => export = fields.u64().zip(fields.u16()),
                (rep::INFO, Some(info::BLOCK_SIZE)) => {
                    let mut size = || fields.u32().map(|bytes| Bytes(u64::from(bytes)));
                    if let (Some(min), Some(preferred), Some(max)) = (size(), size(), size()) {
                        blocks = (min, preferred, max);
                    }
                }
                (rep::INFO, _) => {}
                (kind, _) => return Err(refusal(kind)),
            }
        }
        let (size, flags) = export.ok_or(ClientError::Protocol("no size of the export"))?;
        let (block_min, block_preferred, block_max) = blocks;
        Ok(ClientExport { size: Bytes(size), flags, block_min, block_preferred, block_max })
    }

    pub(super) fn send_option(&mut self, option: u32, data: &[&[u8]]) -> Result<(), ClientError> {
        let mut out = Vec::new();
        option_request(&mut out, option, data);
        self.sender.socket.write_all(&out).map_err(ClientError::Io)
    }

    pub(super) fn read_option_reply(&mut self, option: u32) -> Result<OptionReply, ClientError> {
        const DATA_BYTES_MAX: usize = OPTION_BYTES_MAX + NAME_BYTES_MAX + DESCRIPTION_BYTES_MAX;
        let mut head = [0; OPTION_REPLY_HEADER_BYTES];
        self.receiver.socket.read_exact(&mut head)?;
        let mut fields = Fields(&head);
        if fields.u64() != Some(OPTION_REPLY_MAGIC) || fields.u32() != Some(option) {
            return Err(ClientError::Protocol("no reply to the option"));
        }
        let kind = fields.u32().unwrap_or(0);
        let data_len = length(fields.u32().unwrap_or(0));
        if data_len > DATA_BYTES_MAX {
            return Err(ClientError::Protocol("an endless reply to an option"));
        }
        let mut data = vec![0; data_len];
        self.receiver.socket.read_exact(&mut data)?;
        Ok(OptionReply { kind, data })
    }

    /// Sends one request; many may be outstanding. See [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn send(
        &mut self,
        cookie: u64,
        operation: Operation,
        data: &[u8],
    ) -> Result<(), ClientError> {
        self.sender.send(cookie, operation, data)
    }

    /// Waits for the next reply. See [`Receiver::receive`].
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub fn receive(&mut self) -> Result<Completion, ClientError> {
        self.receiver.receive()
    }

    /// Sends one request and waits for its reply. Not to be mixed with outstanding requests.
    ///
    /// # Errors
    /// If the connection fails or the request does.
    pub fn perform(&mut self, operation: Operation, data: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.cookies += 1;
        let cookie = self.cookies;
        self.send(cookie, operation, data)?;
        let completion = self.receive()?;
        if completion.cookie != cookie {
            return Err(ClientError::Protocol("an answer to another request"));
        }
        completion.result.map_err(ClientError::Failed)
    }

    /// Reads sectors.
    ///
    /// # Errors
    /// As [`Client::perform`].
    pub fn read(&mut self, extent: Extent) -> Result<Vec<u8>, ClientError> {
        self.perform(Operation::read(extent), &[])
    }

    /// Writes sectors; durable after the next flush.
    ///
    /// # Errors
    /// As [`Client::perform`].
    pub fn write(&mut self, extent: Extent, data: &[u8]) -> Result<(), ClientError> {
        self.perform(Operation::write(extent), data).map(drop)
    }

    /// Makes all answered writes durable.
    ///
    /// # Errors
    /// As [`Client::perform`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.perform(Operation::flush(), &[]).map(drop)
    }

    /// The two halves, for two threads.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// The socket, in the state after the last reply: for another implementation of the
    /// transmission phase, such as the kernel's.
    ///
    /// # Errors
    /// If the server has sent bytes that were read and belong to no reply.
    pub fn into_socket(self) -> Result<OwnedFd, ClientError> {
        if !self.receiver.socket.buffer().is_empty() {
            return Err(ClientError::Protocol("bytes that were not asked for"));
        }
        Ok(match self.sender.socket {
            Socket::Unix(stream) => stream.into(),
            Socket::Tcp(stream) => stream.into(),
        })
    }

    /// Disconnects (`NBD_CMD_DISC`) and waits until the server has closed.
    ///
    /// # Errors
    /// If the connection fails before.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        self.sender.disconnect()?;
        loop {
            match self.receiver.receive() {
                Ok(_) => {}
                Err(ClientError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Sender {
    /// Adds a request to the buffer without sending it, so that many small ones share a system
    /// call.
    ///
    /// # Errors
    /// If the cookie is in use, the extent is 4 GiB or longer, or the data is not as long as what
    /// is written; also if the buffer had to be sent to make room, and that failed.
    pub fn queue(
        &mut self,
        cookie: u64,
        operation: Operation,
        data: &[u8],
    ) -> Result<(), ClientError> {
        let Operation { op, extent, fua } = operation;
        let start = extent.start.0.checked_mul(SECTOR_BYTES).ok_or(ClientError::Unsendable)?;
        let span = ByteRange { start: Bytes(start), len: extent.len.bytes() };
        self.queue_bytes(cookie, (op, fua), span, data)
    }

    /// As [`Sender::queue`], for any range of bytes.
    ///
    /// # Errors
    /// As [`Sender::queue`].
    pub fn queue_bytes(
        &mut self,
        cookie: u64,
        (op, fua): (Op, bool),
        span: ByteRange,
        data: &[u8],
    ) -> Result<(), ClientError> {
        let raw_length = u32::try_from(span.len.0).map_err(|_| ClientError::Unsendable)?;
        let offset = span.start.0;
        let (command, payload, answer) = match op {
            Op::Read => (command::READ, 0, length(raw_length)),
            Op::Write => (command::WRITE, length(raw_length), 0),
            Op::Flush => (command::FLUSH, 0, 0),
            Op::Trim => (command::TRIM, 0, 0),
            Op::WriteZeroes => (command::WRITE_ZEROES, 0, 0),
            Op::Seek => return Err(ClientError::Unsendable),
        };
        if data.len() != payload {
            return Err(ClientError::Unsendable);
        }
        let flags = if fua { command::FLAG_FUA } else { 0 };
        let length = u64::from(raw_length);
        let header = RequestHeader { flags, command, cookie, offset, length };
        self.queue_header(header, ExpectedReply::new(offset, answer))?;
        if data.len() < RECEIVE_BUFFER_BYTES - self.buffer.len().min(RECEIVE_BUFFER_BYTES) {
            self.buffer.extend_from_slice(data);
        } else {
            self.flush()?;
            self.socket.write_all(data)?;
        }
        Ok(())
    }

    pub(super) fn queue_header(
        &mut self,
        header: RequestHeader,
        awaited: ExpectedReply,
    ) -> Result<(), ClientError> {
        match lock(&self.outstanding).entry(header.cookie) {
            Entry::Occupied(_) => return Err(ClientError::Unsendable),
            Entry::Vacant(vacant) => vacant.insert(awaited),
        };
        header.encode(&mut self.buffer);
        Ok(())
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.socket.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Sends a request; `data` is the payload of a write, and empty otherwise. Blocks while the
    /// server takes no more: a client that sends much without receiving can deadlock.
    ///
    /// # Errors
    /// As [`Sender::queue`], and if the connection fails.
    pub fn send(
        &mut self,
        cookie: u64,
        operation: Operation,
        data: &[u8],
    ) -> Result<(), ClientError> {
        self.queue(cookie, operation, data)?;
        self.flush()
    }

    /// Disconnects: nothing may be sent afterwards, and outstanding replies still come.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn disconnect(&mut self) -> Result<(), ClientError> {
        let disc = command::DISC;
        let header = RequestHeader { flags: 0, command: disc, cookie: 0, offset: 0, length: 0 };
        header.encode(&mut self.buffer);
        self.flush()
    }

    /// Closes the connection without `NBD_CMD_DISC`, for both halves.
    ///
    /// # Errors
    /// If it is closed already.
    pub fn hang_up(&mut self) -> Result<(), ClientError> {
        self.socket.shutdown(Shutdown::Both).map_err(ClientError::Io)
    }
}

fn refusal(kind: u32) -> ClientError {
    match kind {
        rep::ERR_UNKNOWN => ClientError::UnknownExport,
        rep::ERR_TLS_REQD => ClientError::TlsRequired,
        kind if kind & rep::ERROR != 0 => ClientError::Refused(kind),
        _ => ClientError::Protocol("an unexpected reply to an option"),
    }
}

fn listed(data: &[u8]) -> Option<ListedExport> {
    let mut fields = Fields(data);
    let name_len = length(fields.u32()?);
    let name = String::from_utf8(fields.bytes(name_len)?.to_vec()).ok()?;
    Some(ListedExport { name, description: String::from_utf8_lossy(fields.0).into_owned() })
}
