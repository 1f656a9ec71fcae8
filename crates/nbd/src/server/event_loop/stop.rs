//! The end of an event loop: which clients are still served, and for how long.

use super::slot::Slot;
use super::state::EventLoop;
use crate::limits::NEWCOMERS_TIME;
use crate::server::listener::Listener;

impl EventLoop<'_> {
    /// Connections with an open export are read no further: a client can resend to the next server
    /// what was not read, while an `NBD_ESHUTDOWN` is an error that a guest sees. Connections in
    /// their handshake are refused; but a client of a socket that outlives this server has reason
    /// to think that there is always one, and is served until [`EventLoop::end_newcomers`].
    pub(super) fn begin_stop(&mut self) {
        self.stopping = Some(self.now);
        // Clients in the backlog of a socket of ours get an end of file and no error. At a socket
        // of the service manager they wait for the next server.
        self.listeners.retain_mut(Listener::drain_backlog);
        self.accept();
        self.listeners.clear();
        for slot in 0..self.slots.len() {
            if matches!(self.slots[slot], Slot::Queue(_)) {
                self.finish_queue_client(slot);
            }
            let Slot::Live(connection) = &self.slots[slot] else { continue };
            if !(connection.session.is_in_handshake() && self.group.sockets_outlive()) {
                self.end_client(slot);
            }
        }
    }

    /// Ends the clients that were in their handshake when the loop began to stop, or were handed to
    /// it later, once [`NEWCOMERS_TIME`] has passed: those that have opened an export since as any
    /// other, the rest with a refusal.
    pub(super) fn end_newcomers(&mut self) {
        let since = self.stopping.map(|stopping| self.now.saturating_since(stopping));
        if since.is_none_or(|since| since < NEWCOMERS_TIME) {
            return;
        }
        for slot in 0..self.slots.len() {
            let Slot::Live(connection) = &self.slots[slot] else { continue };
            if !connection.session.is_finished() {
                self.end_client(slot);
            }
        }
    }

    /// Ends a client: a connection in its handshake is refused, and any other is read no further.
    fn end_client(&mut self, slot: usize) {
        let Slot::Live(connection) = &mut self.slots[slot] else { return };
        if connection.session.is_in_handshake() {
            connection.shut_down(self.now);
        } else {
            connection.session.finish(&mut self.budget);
        }
        self.to_write.push(slot);
        self.make_ready(slot);
    }
}
