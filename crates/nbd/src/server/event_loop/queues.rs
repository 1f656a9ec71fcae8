//! The event loop's side of queue clients.

use mio::Token;

use super::slot::Slot;
use super::state::{CONNECTION_FIRST, EventLoop};
use crate::proto::export::Export;
use crate::proto::request::{ConnectionId, Errno};
use crate::proto::session::Blocked;
use crate::server::handler::RequestHandler;
use crate::server::loop_id::slot as slot_of;
use crate::server::queue_client::{QueueClient, QueueConnection, Refused, Registration};

impl EventLoop<'_> {
    /// Assigns a queue client to a loop. Called in the first loop.
    pub(super) fn attach_queue_client(&mut self, mut client: Box<dyn QueueClient>) {
        if self.stopping.is_some() {
            return client.refused(Refused::Stopping);
        }
        let Some(loop_id) = self.group.reserve_slot() else {
            return client.refused(Refused::Full);
        };
        if loop_id == self.loop_id {
            return self.register_queue_client(client);
        }
        if let Err(client) = self.handle.send_queue_client(loop_id, client) {
            self.group.reassign_slot_to_first(loop_id);
            self.register_queue_client(client);
        }
    }

    /// Registers a queue client for which a slot was reserved.
    pub(super) fn register_queue_client(&mut self, mut client: Box<dyn QueueClient>) {
        let slot = self.take_slot();
        let registry = self.poll.registry().try_clone();
        let opened = match registry {
            Err(_) => Err(Refused::NoDescriptor),
            Ok(registry) => self.open_export(&*client).map(|export| (export, registry)),
        };
        let (export, registry) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                client.refused(why);
                return self.free_slot(slot);
            }
        };
        self.connections_made += 1;
        let id = self.loop_id.number(self.connections_made, slot, client.transport());
        client.attached(id, Registration::new(registry, Token(CONNECTION_FIRST + slot)));
        self.slots[slot] = Slot::Queue(Box::new(QueueConnection::new(id, client, export)));
        self.make_ready(slot);
    }

    /// Counts a connection to a queue client's export.
    fn open_export(&self, client: &dyn QueueClient) -> Result<Export, Refused> {
        if self.stopping.is_some() {
            return Err(Refused::Stopping);
        }
        let wanted = client.export();
        // An export is withdrawn under this lock.
        let mut opened = self.group.opened();
        let export = self.exports.open(&wanted.name).filter(|export| export.id == wanted.id);
        let export = export.ok_or(Refused::Withdrawn)?;
        let connections = opened.get(&export.id).copied().unwrap_or(0);
        if connections >= self.settings.export_connections_max {
            return Err(Refused::Full);
        }
        opened.insert(export.id, connections + 1);
        Ok(export)
    }

    /// Takes requests from a client's queues, and submits them. Returns whether there were any.
    pub(super) fn receive_from_queues(
        &mut self,
        slot: usize,
        handler: &mut dyn RequestHandler,
    ) -> bool {
        let Some(Slot::Queue(connection)) = self.slots.get_mut(slot) else { return false };
        connection.queued = false;
        if connection.finishing {
            return false;
        }
        let mut requests = core::mem::take(&mut self.queue_requests);
        let size = self.exports.size_now(connection.export.id).unwrap_or(connection.export.size);
        connection.receive(size, (&mut self.budget, self.settings), &mut requests);
        if connection.blocked == Some(Blocked::PayloadMemory) && !connection.memory_blocked {
            connection.memory_blocked = true;
            self.memory_blocked.push_back(slot);
        }
        let submitted = !requests.is_empty();
        for request in requests.drain(..) {
            if let Some(request) = self.submit_or_queue(request) {
                handler.submit(request);
            }
        }
        self.queue_requests = requests;
        // What the client completed by itself is to be notified.
        self.to_write.push(slot);
        submitted
    }

    /// Completes a request of a queue client.
    pub(super) fn complete_in_queue(
        &mut self,
        slot: usize,
        sequence: u64,
        result: Result<Vec<u8>, Errno>,
    ) {
        let Some(Slot::Queue(connection)) = self.slots.get_mut(slot) else { return };
        connection.complete(sequence, result, &mut self.budget);
        let waits = connection.blocked == Some(Blocked::ConnectionLimit);
        if self.to_write.last() != Some(&slot) {
            self.to_write.push(slot);
        }
        if waits {
            self.make_ready(slot);
        }
    }

    /// Notifies the other side of completions, and closes a client that is finished.
    pub(super) fn flush_queues(&mut self, slot: usize, handler: &mut dyn RequestHandler) {
        let Some(Slot::Queue(connection)) = self.slots.get_mut(slot) else { return };
        connection.client.flush();
        if !connection.finishing || connection.in_flight.count() > 0 {
            return;
        }
        let (id, export) = (connection.id, connection.export.id);
        connection.client.closed();
        self.slots[slot] = Slot::Free;
        self.group.closed(export);
        self.free_slot(slot);
        handler.connection_closed(id);
    }

    /// Takes no further request from a queue client.
    pub(super) fn detach_queue_client(&mut self, connection: ConnectionId) {
        let slot = slot_of(connection);
        if let Some(Slot::Queue(found)) = self.slots.get(slot)
            && found.id == connection
        {
            self.finish_queue_client(slot);
        }
    }

    /// Takes no further request from the queue client in this slot.
    pub(super) fn finish_queue_client(&mut self, slot: usize) {
        if let Some(Slot::Queue(connection)) = self.slots.get_mut(slot) {
            connection.finishing = true;
            self.to_write.push(slot);
        }
    }
}
