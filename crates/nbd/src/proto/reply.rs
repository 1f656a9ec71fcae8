//! The heads of replies, in each of the three styles that a client can negotiate (sections "Simple
//! reply message", "Structured reply chunk message" and, of the extension, "Extended reply chunk
//! message").

use core::ops::Deref;

use crate::proto::request::Errno;

/// Before every simple reply.
pub(crate) const SIMPLE_MAGIC: u32 = 0x6744_6698;
/// Before every structured reply chunk.
pub(crate) const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
/// Before every extended reply chunk.
pub(crate) const EXTENDED_MAGIC: u32 = 0x6e8a_278c;

pub(crate) const SIMPLE_BYTES: usize = 16;
/// The longest head: that of an extended chunk, with the offset and length of a hole.
const HEAD_BYTES_MAX: usize = 48;

/// Set in the last chunk of a reply.
const DONE: u16 = 1;

/// Types of chunks (section "Structured reply types").
pub(crate) mod kind {
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const BLOCK_STATUS_EXT: u16 = 6;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
    pub(crate) const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// The style of replies on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Style {
    /// Neither of the two options was negotiated.
    #[default]
    Simple,
    /// After `NBD_OPT_STRUCTURED_REPLY`.
    Structured,
    /// After `NBD_OPT_EXTENDED_HEADERS`.
    Extended,
}

/// The request that a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTag {
    pub(crate) cookie: u64,
    /// An extended reply contains it, and a read's chunk says where its bytes belong.
    pub(crate) offset: u64,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    /// A message for people, or empty.
    pub(crate) why: &'static str,
    /// The first byte for which it cannot be done, if known.
    pub(crate) at: Option<u64>,
}

impl Refusal {
    pub(crate) const fn new(errno: Errno, why: &'static str) -> Self {
        Self { errno, why, at: None }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::new(errno, "")
    }
}

/// A head in a fixed array: a reply needs no allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Head {
    const fn new() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], len: 0 }
    }

    fn push<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&field);
        self.len += N;
    }
}

impl Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A simple reply; without structured replies the data of a successful read follows it.
pub(crate) fn simple(cookie: u64, error: u32) -> Head {
    let mut head = Head::new();
    head.push(SIMPLE_MAGIC.to_be_bytes());
    head.push(error.to_be_bytes());
    head.push(cookie.to_be_bytes());
    head
}

/// The head of the one chunk of a reply, `length` bytes of payload following.
fn chunk(style: Style, kind: u16, tag: RequestTag, length: usize) -> Head {
    let mut head = Head::new();
    let magic = if style == Style::Extended { EXTENDED_MAGIC } else { STRUCTURED_MAGIC };
    head.push(magic.to_be_bytes());
    head.push(DONE.to_be_bytes());
    head.push(kind.to_be_bytes());
    head.push(tag.cookie.to_be_bytes());
    if style == Style::Extended {
        head.push(tag.offset.to_be_bytes());
        head.push((length as u64).to_be_bytes());
    } else {
        head.push(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
    head
}

/// Success, without data. A simple reply where allowed, because it is the shortest ("a simple reply
/// MAY be used as a reply to any request other than `NBD_CMD_READ`").
pub(crate) fn done(style: Style, tag: RequestTag) -> Head {
    match style {
        Style::Simple | Style::Structured => simple(tag.cookie, 0),
        Style::Extended => chunk(style, kind::NONE, tag, 0),
    }
}

/// The reply to an empty read, which a simple reply is not with structured replies.
pub(crate) fn nothing_read(style: Style, tag: RequestTag) -> Head {
    match style {
        Style::Simple => simple(tag.cookie, 0),
        Style::Structured | Style::Extended => chunk(style, kind::NONE, tag, 0),
    }
}

/// The head before all bytes of a read.
pub(crate) fn data(style: Style, tag: RequestTag, length: usize) -> Head {
    if style == Style::Simple {
        return simple(tag.cookie, 0);
    }
    let mut head = chunk(style, kind::OFFSET_DATA, tag, 8 + length);
    head.push(tag.offset.to_be_bytes());
    head
}

/// The reply to a read of zeroes only. Not for simple replies.
pub(crate) fn hole(style: Style, tag: RequestTag, length: u32) -> Head {
    let mut head = chunk(style, kind::OFFSET_HOLE, tag, 8 + 4);
    head.push(tag.offset.to_be_bytes());
    head.push(length.to_be_bytes());
    head
}

/// The head before `descriptors` descriptors of a block status.
pub(crate) fn status(style: Style, tag: RequestTag, context: u32, descriptors: usize) -> Head {
    let mut head;
    if style == Style::Extended {
        head = chunk(style, kind::BLOCK_STATUS_EXT, tag, 8 + 16 * descriptors);
        head.push(context.to_be_bytes());
        head.push(u32::try_from(descriptors).unwrap_or(u32::MAX).to_be_bytes());
    } else {
        head = chunk(style, kind::BLOCK_STATUS, tag, 4 + 8 * descriptors);
        head.push(context.to_be_bytes());
    }
    head
}

/// An error's head, and the bytes after it.
pub(crate) fn error(style: Style, tag: RequestTag, refusal: Refusal) -> (Head, Vec<u8>) {
    let code = refusal.errno.code();
    if style == Style::Simple {
        return (simple(tag.cookie, code), Vec::new());
    }
    let mut rest = refusal.why.as_bytes().to_vec();
    let message_len = u16::try_from(rest.len()).unwrap_or(0).to_be_bytes();
    let kind = if let Some(at) = refusal.at {
        rest.extend_from_slice(&at.to_be_bytes());
        kind::ERROR_OFFSET
    } else {
        kind::ERROR
    };
    let mut head = chunk(style, kind, tag, 6 + rest.len());
    head.push(code.to_be_bytes());
    head.push(message_len);
    (head, rest)
}
