//! The receiving half of a client: simple replies, and structured ones where those were negotiated
//! (sections "Simple reply message" and "Structured reply chunk message").
//!
//! A structured reply may come in several chunks, interleaved with those of other replies: the data
//! received so far is kept with the outstanding request. Bytes without a chunk are zeroes.

use std::io::Read;

use super::connection::{Completion, Receiver};
use super::error::ClientError;
use super::outstanding::{ExpectedReply, lock};
use crate::proto::reply::{SIMPLE_BYTES, SIMPLE_MAGIC, STRUCTURED_MAGIC, kind};
use crate::proto::request::Errno;
use crate::proto::wire::{Fields, length};

/// The flag of a reply's last chunk.
const DONE: u16 = 1;
/// The bit in the type of every error chunk.
const ERRORS: u16 = 1 << 15;
/// The longest chunk without data.
const SAID_BYTES_MAX: usize = 1 << 16;
/// The bytes of the offset before a chunk's data.
const OFFSET_BYTES: usize = 8;

impl Receiver {
    /// Waits for the next reply.
    ///
    /// # Errors
    /// If the connection fails or the server's reply matches no request. A failed request is no
    /// error here; it is in the completion.
    pub fn receive(&mut self) -> Result<Completion, ClientError> {
        let mut data = Vec::new();
        let (cookie, outcome) = self.receive_into(&mut data)?;
        Ok(Completion { cookie, result: outcome.map(|()| data) })
    }

    /// Waits for the next reply and replaces the contents of `data` with the bytes of a read.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub fn receive_into(
        &mut self,
        data: &mut Vec<u8>,
    ) -> Result<(u64, Result<(), Errno>), ClientError> {
        loop {
            // The length of a chunk's head up to its cookie, which is that of a simple reply.
            let mut head = [0; SIMPLE_BYTES];
            self.socket.read_exact(&mut head)?;
            let mut fields = Fields(&head);
            let (magic, second) = (fields.u32(), fields.u32().unwrap_or(0));
            let cookie = fields.u64().unwrap_or(0);
            let awaited = lock(&self.outstanding).remove(&cookie);
            let known = || awaited.ok_or(ClientError::Protocol("a reply to nothing"));
            match magic {
                Some(SIMPLE_MAGIC) => return self.simple(cookie, second, &known()?, data),
                Some(STRUCTURED_MAGIC) => {
                    let [flags, kind] = [(second >> 16) as u16, (second & 0xffff) as u16];
                    let mut awaited = self.chunk(kind, known()?, data)?;
                    if flags & DONE != 0 {
                        core::mem::swap(data, &mut awaited.data);
                        return Ok((cookie, awaited.error.map_or(Ok(()), Err)));
                    }
                    lock(&self.outstanding).insert(cookie, awaited);
                }
                _ => return Err(ClientError::Protocol("no reply where one was expected")),
            }
        }
    }

    fn simple(
        &mut self,
        cookie: u64,
        error: u32,
        awaited: &ExpectedReply,
        data: &mut Vec<u8>,
    ) -> Result<(u64, Result<(), Errno>), ClientError> {
        if error != 0 {
            data.clear();
            return Ok((cookie, Err(Errno::from_code(error))));
        }
        data.resize(awaited.bytes, 0);
        self.socket.read_exact(data)?;
        Ok((cookie, Ok(())))
    }

    /// Reads the contents of a chunk. `spare` is memory to read into.
    fn chunk(
        &mut self,
        kind: u16,
        mut awaited: ExpectedReply,
        spare: &mut Vec<u8>,
    ) -> Result<ExpectedReply, ClientError> {
        let mut raw = [0; 4];
        self.socket.read_exact(&mut raw)?;
        let payload = length(u32::from_be_bytes(raw));
        if awaited.data.len() != awaited.bytes {
            awaited.data = core::mem::take(spare);
            awaited.data.clear();
            awaited.data.resize(awaited.bytes, 0);
        }
        if kind == kind::OFFSET_DATA {
            let mut offset = [0; OFFSET_BYTES];
            self.socket.read_exact(&mut offset)?;
            let count = payload.checked_sub(OFFSET_BYTES);
            let count = count.ok_or(ClientError::Protocol("a chunk without its offset"))?;
            let place = awaited.place(u64::from_be_bytes(offset), count)?;
            self.socket.read_exact(&mut awaited.data[place])?;
            return Ok(awaited);
        }
        if payload > SAID_BYTES_MAX {
            return Err(ClientError::Protocol("an endless chunk"));
        }
        let mut said = vec![0; payload];
        self.socket.read_exact(&mut said)?;
        let mut fields = Fields(&said);
        match kind {
            kind::NONE | kind::BLOCK_STATUS => {}
            kind::OFFSET_HOLE => {
                let (offset, count) = (fields.u64(), fields.u32());
                let (Some(offset), Some(count)) = (offset, count) else {
                    return Err(ClientError::Protocol("a hole without its place"));
                };
                let place = awaited.place(offset, length(count))?;
                awaited.data[place].fill(0);
            }
            kind if kind & ERRORS != 0 => {
                let code =
                    fields.u32().ok_or(ClientError::Protocol("an error without its code"))?;
                awaited.error.get_or_insert(Errno::from_code(code));
            }
            _ => return Err(ClientError::Protocol("a chunk of no known kind")),
        }
        Ok(awaited)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};
    use std::os::unix::net::UnixStream;

    use super::super::connection::Socket;
    use super::super::outstanding::Outstanding;
    use super::*;

    /// A receiver with these outstanding requests, and the server's end of its socket.
    fn waiting(all: &[(u64, ExpectedReply)]) -> (Receiver, UnixStream) {
        let (server, client) = UnixStream::pair().expect("sockets");
        let outstanding = Outstanding::default();
        for (cookie, ExpectedReply { offset, bytes, .. }) in all {
            lock(&outstanding).insert(*cookie, ExpectedReply::new(*offset, *bytes));
        }
        (Receiver { socket: BufReader::new(Socket::Unix(client)), outstanding }, server)
    }

    fn chunk(last: bool, kind: u16, cookie: u64, payload: &[&[u8]]) -> Vec<u8> {
        let payload = payload.concat();
        let len = u32::try_from(payload.len()).expect("small").to_be_bytes();
        let head = [&STRUCTURED_MAGIC.to_be_bytes()[..], &u16::from(last).to_be_bytes()];
        let rest = [&kind.to_be_bytes()[..], &cookie.to_be_bytes(), &len, &payload];
        [head.concat(), rest.concat()].concat()
    }

    #[test]
    fn a_reply_may_come_in_pieces_with_others_between_them() {
        let asked = [
            (1, ExpectedReply::new(1_024, 8)),
            (2, ExpectedReply::new(0, 4)),
            (3, ExpectedReply::new(0, 0)),
        ];
        let (mut receiver, mut server) = waiting(&asked);
        let at = |offset: u64| offset.to_be_bytes();
        let status = [&1_u32.to_be_bytes()[..], &512_u32.to_be_bytes(), &0_u32.to_be_bytes()];
        let said = [
            chunk(false, kind::OFFSET_DATA, 1, &[&at(1_028), b"efgh"]),
            chunk(true, kind::BLOCK_STATUS, 3, &status),
            chunk(true, kind::OFFSET_HOLE, 2, &[&at(0), &4_u32.to_be_bytes()]),
            chunk(true, kind::OFFSET_DATA, 1, &[&at(1_024), b"abcd"]),
        ];
        server.write_all(&said.concat()).expect("sent");
        let mut next = || receiver.receive().expect("an answer");
        assert_eq!(next(), Completion { cookie: 3, result: Ok(Vec::new()) });
        assert_eq!(next(), Completion { cookie: 2, result: Ok(vec![0; 4]) });
        assert_eq!(next(), Completion { cookie: 1, result: Ok(b"abcdefgh".to_vec()) });
    }

    #[test]
    fn an_error_anywhere_in_a_reply_is_its_end_s() {
        let (mut receiver, mut server) = waiting(&[(7, ExpectedReply::new(0, 8))]);
        let io = [&5_u32.to_be_bytes()[..], &0_u16.to_be_bytes()];
        let said = [chunk(false, kind::ERROR, 7, &io), chunk(true, kind::NONE, 7, &[])].concat();
        server.write_all(&said).expect("sent");
        assert_eq!(receiver.receive().expect("an answer").result, Err(Errno::Io));
    }

    #[test]
    fn data_that_was_not_asked_for_is_not_believed() {
        for (offset, data) in [(4_u64, &b"abcdefgh"[..]), (u64::MAX, b"a"), (1_000, b"a")] {
            let (mut receiver, mut server) = waiting(&[(7, ExpectedReply::new(2, 8))]);
            let said = chunk(true, kind::OFFSET_DATA, 7, &[&offset.to_be_bytes(), data]);
            server.write_all(&said).expect("sent");
            assert!(matches!(receiver.receive(), Err(ClientError::Protocol(_))), "{offset}");
        }
    }
}
