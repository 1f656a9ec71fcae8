//! The interface between the server and the disks behind it.

use std::io;
use std::os::fd::OwnedFd;

use crate::proto::request::{BlockStatusRequest, ConnectionId, Reply, Request};

/// Carries out requests. Called from the server's thread that owns it: must not block.
pub trait RequestHandler {
    /// Takes a request. Its reply goes to the server's [`crate::Handle`], from any thread, or from
    /// within this call.
    fn submit(&mut self, request: Request);

    /// Takes a block status request, whose reply goes to [`crate::Handle::reply_block_status`]; or
    /// returns it if the allocation is not known: then the client is told that all of it is data.
    fn block_status(&mut self, query: BlockStatusRequest) -> Option<BlockStatusRequest> {
        Some(query)
    }

    /// All requests of this iteration have been submitted: the moment to wake the disks, once.
    /// Replies that are ready may be added to `answered`, without a lock.
    fn flush_batch(&mut self, answered: &mut Vec<Reply>) {
        let _ = answered;
    }

    /// Descriptors that are readable when [`RequestHandler::poll_completions`] has completions to
    /// return. Called once, before the first request.
    ///
    /// # Errors
    /// No descriptor can be made; the server ends.
    fn completion_fds(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    /// Called once in every iteration of the loop, and so soon after a completion descriptor became
    /// readable. Replies that are ready are added to `answered`.
    fn poll_completions(&mut self, answered: &mut Vec<Reply>) {
        let _ = answered;
    }

    /// The connection has closed. Its outstanding requests may be cancelled or carried out, and
    /// must be answered in any case; their memory stays accounted until then.
    fn connection_closed(&mut self, connection: ConnectionId) {
        let _ = connection;
    }
}
