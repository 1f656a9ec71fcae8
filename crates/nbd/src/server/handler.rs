//! The interface between the server and the disks behind it.

use std::io;
use std::os::fd::OwnedFd;

use crate::proto::request::{BlockStatusRequest, ConnectionId, Reply, Request};

/// Who does the work. Called from the server's thread that it belongs to: it must not block.
pub trait RequestHandler {
    /// Takes a request; its answer goes to the server's [`crate::Handle`], from any thread, or from
    /// within this call.
    fn submit(&mut self, request: Request);

    /// Takes a question about sectors, whose answer goes to [`crate::Handle::reply_block_status`];
    /// or gives it back when nothing is known: the client is then told that all of it is data.
    fn block_status(&mut self, query: BlockStatusRequest) -> Option<BlockStatusRequest> {
        Some(query)
    }

    /// All requests of this turn of the loop have been submitted: a good moment to wake the disks,
    /// once. What can be answered at once may go to `answered`, which takes no lock.
    fn flush_batch(&mut self, answered: &mut Vec<Reply>) {
        let _ = answered;
    }

    /// Files that are readable when there is something to [`RequestHandler::poll_completions`] at.
    /// RequestTag for once, before the first request.
    ///
    /// # Errors
    /// The system has no more descriptors; the server ends.
    fn completion_fds(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    /// Once in every turn of the loop, and so soon after a bell: what can be answered by now goes
    /// to `answered`.
    fn poll_completions(&mut self, answered: &mut Vec<Reply>) {
        let _ = answered;
    }

    /// The connection is gone. Its requests that are not answered yet may be cancelled or carried
    /// out, and must be answered all the same; what they held counts as held until then.
    fn connection_closed(&mut self, connection: ConnectionId) {
        let _ = connection;
    }
}
