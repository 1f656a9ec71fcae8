//! What the daemon asks of a server that runs.

use std::collections::BTreeMap;

use super::{Loop, Slot};
use crate::handle::{InUse, Question};

impl Loop {
    /// Answers a question of the daemon. Behind the reading, so that what was read has gone to the disks.
    pub(super) fn respond(&mut self, question: Question) {
        // Who asked may have gone: then nobody wants to know.
        match question {
            Question::Connections(answer) => {
                let mut connections = BTreeMap::new();
                for export in self.slots.iter().filter_map(Slot::export) {
                    *connections.entry(export).or_default() += 1;
                }
                let _ = answer.try_send(connections);
            }
            Question::Withdraw { export, force, answer } => {
                let opened = |slot: &&Slot| slot.export() == Some(export);
                let connections = self.slots.iter().filter(opened).count();
                if connections > 0 && !force {
                    let _ = answer.try_send(Err(InUse { connections }));
                    return;
                }
                self.exports.withdraw(export);
                self.withdraw_splices(export);
                for slot in 0..self.slots.len() {
                    if self.slots[slot].export() == Some(export)
                        && let Slot::Live(connection) = &mut self.slots[slot]
                    {
                        connection.leave(self.now);
                        self.written.push(slot);
                        self.make_ready(slot);
                    }
                }
                let _ = answer.try_send(Ok(()));
            }
        }
    }
}
