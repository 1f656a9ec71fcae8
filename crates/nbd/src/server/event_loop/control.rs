//! Control messages to a running loop, from the daemon and from the other loops.

use super::slot::Slot;
use super::state::EventLoop;
use crate::proto::export::ExportId;
use crate::server::handle::{ControlMessage, InUse};
use crate::server::handler::RequestHandler;
use crate::server::loop_id::LoopId;

impl EventLoop<'_> {
    /// Handles a control message and passes it on to the next loop where needed. Called after
    /// reading, so that all requests that were read have been submitted.
    pub(super) fn handle_control(
        &mut self,
        message: ControlMessage,
        handler: &mut dyn RequestHandler,
    ) {
        let next = self.loop_id.next(self.handle.members());
        // The sender may have stopped waiting for the answer: a failed send is ignored.
        match message {
            // The iteration that was woken does all the work.
            ControlMessage::Wake => {}
            ControlMessage::TrackChanges(export) => self.report_changes(export, handler),
            ControlMessage::Connections { so_far: mut connections, answer } => {
                for (export, transport) in self.slots.iter().filter_map(Slot::opened) {
                    connections.entry(export).or_default().add(transport);
                }
                let Some(next) = next else {
                    let _ = answer.try_send(connections);
                    return;
                };
                self.handle.send_control(
                    next,
                    ControlMessage::Connections { so_far: connections, answer },
                );
            }
            ControlMessage::Attach(client) => self.attach_queue_client(client),
            ControlMessage::Detach(connection) => self.detach_queue_client(connection),
            ControlMessage::Withdraw { export, force, answer } => {
                if self.loop_id == LoopId::FIRST
                    && let Err(in_use) = self.withdraw_export(export, force)
                {
                    let _ = answer.try_send(Err(in_use));
                    return;
                }
                self.disconnect_export(export);
                let Some(next) = next else {
                    let _ = answer.try_send(Ok(()));
                    return;
                };
                self.handle.send_control(next, ControlMessage::Withdraw { export, force, answer });
            }
        }
    }

    /// Removes the export if no connection has it open, or with `force`.
    fn withdraw_export(&mut self, export: ExportId, force: bool) -> Result<(), InUse> {
        let opened = self.group.opened();
        match opened.get(&export) {
            Some(&connections) if !force => Err(InUse { connections }),
            _ => {
                self.exports.withdraw(export);
                drop(opened);
                self.withdraw_read_modify_writes(export);
                Ok(())
            }
        }
    }

    /// Shuts down the connections that have this export open.
    fn disconnect_export(&mut self, export: ExportId) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].opened().is_none_or(|(opened, _)| opened != export) {
                continue;
            }
            match &mut self.slots[slot] {
                Slot::Live(connection) => {
                    connection.shut_down(self.now);
                    self.to_write.push(slot);
                    self.make_ready(slot);
                }
                Slot::Queue(_) => self.finish_queue_client(slot),
                Slot::Free | Slot::Orphaned(..) => {}
            }
        }
    }
}
