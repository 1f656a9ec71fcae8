//! Block status (`NBD_CMD_BLOCK_STATUS`): the only request that a server answers without its disk.
//!
//! "Clients MUST NOT use this request unless metadata contexts have been negotiated, which in turn
//! requires the client to first negotiate structured replies."

use units::{Extent, SECTOR_BYTES};

use super::connection::{Client, Sender};
use super::error::ClientError;
use super::outstanding::ExpectedReply;
use crate::proto::wire::{Fields, RequestHeader, command, name_length, option, rep};

/// The context that every server with contexts has.
const ALLOCATION: &str = "base:allocation";
/// The most replies to one option.
const REPLIES_MAX: u32 = 64;

impl Client {
    /// Negotiates block status for an export, before it is opened. Returns whether
    /// [`Sender::send_block_status`] may be used then. A server that does not support it refuses,
    /// without further effect.
    ///
    /// # Errors
    /// If the connection fails, or the server breaks the protocol.
    pub fn negotiate_block_status(&mut self, name: &str) -> Result<bool, ClientError> {
        self.send_option(option::STRUCTURED_REPLY, &[])?;
        if self.read_option_reply(option::STRUCTURED_REPLY)?.kind != rep::ACK {
            return Ok(false);
        }
        let one = 1_u32.to_be_bytes();
        let query = [&name_length(ALLOCATION), ALLOCATION.as_bytes()];
        let parts = [&name_length(name), name.as_bytes(), &one, query[0], query[1]];
        self.send_option(option::SET_META_CONTEXT, &parts)?;
        let mut agreed = false;
        for _ in 0..REPLIES_MAX {
            let reply = self.read_option_reply(option::SET_META_CONTEXT)?;
            match reply.kind {
                rep::ACK => return Ok(agreed),
                rep::META_CONTEXT => {
                    let mut fields = Fields(&reply.data);
                    agreed |= fields.u32().is_some() && fields.0 == ALLOCATION.as_bytes();
                }
                kind if kind & rep::ERROR != 0 => return Ok(false),
                _ => return Err(ClientError::Protocol("an unexpected reply to an option")),
            }
        }
        Err(ClientError::Protocol("an endless reply to an option"))
    }
}

impl Sender {
    /// Requests the status of the first of these sectors. The reply has no data.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn send_block_status(&mut self, cookie: u64, extent: Extent) -> Result<(), ClientError> {
        let offset = extent.start.0.checked_mul(SECTOR_BYTES).ok_or(ClientError::Unsendable)?;
        let length = extent.len.bytes().0;
        u32::try_from(length).map_err(|_| ClientError::Unsendable)?;
        let (flags, command) = (command::FLAG_REQ_ONE, command::BLOCK_STATUS);
        let header = RequestHeader { flags, command, cookie, offset, length };
        self.queue_header(header, ExpectedReply::new(offset, 0))?;
        self.flush()
    }
}
