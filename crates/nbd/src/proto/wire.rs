//! The constants of the NBD protocol, and the encoding of messages.
//!
//! Everything is big-endian (section "Conventions"). Decoding never indexes past the input:
//! [`Fields`] returns fields or `None`.

/// `NBDMAGIC`, the first eight bytes of a server (section "Newstyle negotiation").
pub(crate) const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, before every option and as the second magic of the server.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option (section "Fixed newstyle negotiation").
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request (section "Request message").
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before every request once extended headers are agreed on (section "Extended request").
pub(crate) const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;

/// Handshake flags of the server; the client answers with the same bits (section "Handshake
/// flags").
pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
pub(crate) const NO_ZEROES: u16 = 1 << 1;

/// Transmission flags (section "Transmission flags").
pub(crate) mod flag {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
    pub(crate) const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Options (section "Option types").
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
    pub(crate) const EXTENDED_HEADERS: u32 = 11;
    /// No option of the protocol: the connection will be handed to the kernel's client.
    /// A server that does not know an option says so and goes on.
    pub(crate) const KERNEL_CLIENT: u32 = 0x5350_4b43;
}

/// Replies to options (section "Option reply types").
pub(crate) mod rep {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    /// The bit that is set in every error.
    pub(crate) const ERROR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERROR + 1;
    pub(crate) const ERR_POLICY: u32 = ERROR + 2;
    pub(crate) const ERR_INVALID: u32 = ERROR + 3;
    pub(crate) const ERR_TLS_REQD: u32 = ERROR + 5;
    pub(crate) const ERR_UNKNOWN: u32 = ERROR + 6;
    pub(crate) const ERR_SHUTDOWN: u32 = ERROR + 7;
    pub(crate) const ERR_TOO_BIG: u32 = ERROR + 9;
    pub(crate) const ERR_EXT_HEADER_REQD: u32 = ERROR + 10;
}

/// Kinds of information about an export (section "Option reply types", `NBD_REP_INFO`).
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Commands (section "Request types").
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
    /// Command flags (section "Command flags").
    pub(crate) const FLAG_FUA: u16 = 1 << 0;
    pub(crate) const FLAG_NO_HOLE: u16 = 1 << 1;
    pub(crate) const FLAG_DF: u16 = 1 << 2;
    pub(crate) const FLAG_REQ_ONE: u16 = 1 << 3;
    pub(crate) const FLAG_FAST_ZERO: u16 = 1 << 4;
    pub(crate) const FLAG_PAYLOAD_LEN: u16 = 1 << 5;
}

pub(crate) const GREETING_BYTES: usize = 18;
pub(crate) const CLIENT_FLAGS_BYTES: usize = 4;
pub(crate) const OPTION_HEADER_BYTES: usize = 16;
pub(crate) const OPTION_REPLY_HEADER_BYTES: usize = 20;
pub(crate) const REQUEST_BYTES: usize = 28;
pub(crate) const EXTENDED_REQUEST_BYTES: usize = 32;
/// The zeroes behind the answer to `NBD_OPT_EXPORT_NAME`, unless both sides waived them.
pub(crate) const EXPORT_NAME_ZEROES: usize = 124;

/// Fields of a message, taken from the front.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*head))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*head))
    }
}

/// A length from the wire as a length in memory. A machine on which it does not fit could not hold
/// the bytes either, and every limit is far below.
pub(crate) fn length(raw: impl Into<u64>) -> usize {
    let raw: u64 = raw.into();
    usize::try_from(raw).unwrap_or(usize::MAX)
}

/// The server's greeting.
pub(crate) fn greeting() -> Vec<u8> {
    let mut out = Vec::with_capacity(GREETING_BYTES);
    out.extend_from_slice(&INIT_MAGIC.to_be_bytes());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    out
}

/// An option as a client sends it, `data` being its parts one behind the other.
pub(crate) fn option_request(out: &mut Vec<u8>, option: u32, data: &[&[u8]]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&total(data).to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

/// A reply to an option, `data` being its parts one behind the other.
pub(crate) fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&total(data).to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

/// The total length of the parts. They are names and fixed fields, at most some kilobytes.
fn total(data: &[&[u8]]) -> u32 {
    u32::try_from(data.iter().map(|part| part.len()).sum::<usize>()).unwrap_or(u32::MAX)
}

/// The length of a name as its length field, saturating: longer names are refused before.
pub(crate) fn name_length(name: &str) -> [u8; 4] {
    u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// A request as it is on the wire (section "Request message").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    /// The length of the payload, or of the range without one.
    pub(crate) length: u64,
}

/// The result of decoding the head of a request.
pub(crate) enum Decoded {
    /// The head is incomplete.
    Short,
    /// A wrong magic number: client and server are out of step, and nothing after it can be parsed.
    BadMagic,
    /// A request, and the length of its head.
    Header(RequestHeader, usize),
}

impl RequestHeader {
    /// Decodes a request from the front of `bytes`.
    pub(crate) fn decode(bytes: &[u8], extended: bool) -> Decoded {
        let (size, magic) = if extended {
            (EXTENDED_REQUEST_BYTES, EXTENDED_REQUEST_MAGIC)
        } else {
            (REQUEST_BYTES, REQUEST_MAGIC)
        };
        let Some(head) = bytes.get(..size) else { return Decoded::Short };
        let mut fields = Fields(head);
        if fields.u32() != Some(magic) {
            return Decoded::BadMagic;
        }
        let mut header = || {
            let (flags, command) = (fields.u16()?, fields.u16()?);
            let (cookie, offset) = (fields.u64()?, fields.u64()?);
            let length = if extended { fields.u64()? } else { u64::from(fields.u32()?) };
            Some(Self { flags, command, cookie, offset, length })
        };
        header().map_or(Decoded::Short, |header| Decoded::Header(header, size))
    }

    /// Encodes it without extended headers. Its length is below 4 GiB.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_head(REQUEST_MAGIC, out);
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_be_bytes());
    }

    /// Encodes it with extended headers, as tests and fuzzers send it.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn encode_extended(&self, out: &mut Vec<u8>) {
        self.encode_head(EXTENDED_REQUEST_MAGIC, out);
        out.extend_from_slice(&self.length.to_be_bytes());
    }

    fn encode_head(&self, magic: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&magic.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.command.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
    }
}
