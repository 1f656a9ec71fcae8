//! What is asked of a loop that runs: by the daemon, and by the other loops.

use super::{Loop, Slot};
use crate::crew::Place;
use crate::export::ExportId;
use crate::handle::{InUse, Question};
use crate::request::Sink;

impl Loop<'_> {
    /// Answers a question of the daemon, or passes it on to the next loop. Behind the reading, so that what was read has
    /// gone to the disks.
    pub(super) fn respond(&mut self, question: Question, sink: &mut dyn Sink) {
        let next = self.place.next(self.handle.members());
        // Who asked may have gone: then nobody wants to know.
        match question {
            // A turn of the loop is made of looking.
            Question::Look => {}
            Question::Watched(export) => self.know_of(export, sink),
            Question::Connections { so_far: mut connections, answer } => {
                for export in self.slots.iter().filter_map(Slot::export) {
                    *connections.entry(export).or_default() += 1;
                }
                let Some(next) = next else {
                    let _ = answer.try_send(connections);
                    return;
                };
                self.handle.pass(next, Question::Connections { so_far: connections, answer });
            }
            Question::Withdraw { export, force, answer } => {
                if self.place == Place::FIRST
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
                self.handle.pass(next, Question::Withdraw { export, force, answer });
            }
        }
    }

    /// Nobody opens this export any more, if nobody has or with `force`.
    fn give_up(&mut self, export: ExportId, force: bool) -> Result<(), InUse> {
        let opened = self.crew.opened();
        match opened.get(&export) {
            Some(&connections) if !force => Err(InUse { connections }),
            _ => {
                self.exports.withdraw(export);
                drop(opened);
                self.withdraw_splices(export);
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
