//! What is asked of a loop that runs: by the daemon, and by the other loops.

use super::state::{EventLoop, Slot};
use crate::proto::export::ExportId;
use crate::server::handle::{ControlMessage, InUse};
use crate::server::handler::RequestHandler;
use crate::server::loop_id::LoopId;

impl EventLoop<'_> {
    /// Answers a question of the daemon, or passes it on to the next loop. Behind the reading, so that what was read has
    /// gone to the disks.
    pub(super) fn handle_control(
        &mut self,
        message: ControlMessage,
        handler: &mut dyn RequestHandler,
    ) {
        let next = self.loop_id.next(self.handle.members());
        // Who asked may have gone: then nobody wants to know.
        match message {
            // A turn of the loop is made of looking.
            ControlMessage::Wake => {}
            ControlMessage::TrackChanges(export) => self.report_changes(export, handler),
            ControlMessage::Connections { so_far: mut connections, answer } => {
                for export in self.slots.iter().filter_map(Slot::export) {
                    *connections.entry(export).or_default() += 1;
                }
                let Some(next) = next else {
                    let _ = answer.try_send(connections);
                    return;
                };
                self.handle.pass(next, ControlMessage::Connections { so_far: connections, answer });
            }
            ControlMessage::Withdraw { export, force, answer } => {
                if self.loop_id == LoopId::FIRST
                    && let Err(in_use) = self.give_up(export, force)
                {
                    let _ = answer.try_send(Err(in_use));
                    return;
                }
                self.send_away(export);
                let Some(next) = next else {
                    let _ = answer.try_send(Ok(()));
                    return;
                };
                self.handle.pass(next, ControlMessage::Withdraw { export, force, answer });
            }
        }
    }

    /// Nobody opens this export any more, if nobody has or with `force`.
    fn give_up(&mut self, export: ExportId, force: bool) -> Result<(), InUse> {
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

    /// Has those leave that have this export open.
    fn send_away(&mut self, export: ExportId) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].export() == Some(export)
                && let Slot::Live(connection) = &mut self.slots[slot]
            {
                connection.leave(self.now);
                self.written.push(slot);
                self.make_ready(slot);
            }
        }
    }
}
