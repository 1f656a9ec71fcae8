//! State that the event loops of one server share.
//!
//! Each loop has its own thread and its own connections. The first loop accepts all clients and
//! hands each to the loop with the fewest connections, to itself in case of a tie. A connection
//! never moves.
//!
//! Invariants:
//! - the reserved slots of all loops count together, so that the limit is that of the server;
//! - the check of an export's connection count and the count of a new connection happen under one
//!   lock on [`LoopGroup::opened`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::proto::export::ExportId;
use crate::server::loop_id::LoopId;
use crate::server::read_modify_write::ReadModifyWriteQueue;

/// State that the loops share.
#[derive(Debug)]
pub(crate) struct LoopGroup {
    /// The number of live connections of each export; disconnected clients with requests at the
    /// disks do not count.
    opened: Mutex<BTreeMap<ExportId, usize>>,
    /// The reserved slots of each loop: its clients, and disconnected clients with requests at the
    /// disks.
    taken: Vec<AtomicUsize>,
    connections_max: usize,
    /// Whether the sockets stay open for the next server.
    sockets_outlive: bool,
    /// The read-modify-writes of all loops.
    read_modify_writes: Mutex<ReadModifyWriteQueue>,
}

impl LoopGroup {
    pub(crate) fn new(loops: usize, connections_max: usize, sockets_outlive: bool) -> Self {
        let taken = (0..loops).map(|_| AtomicUsize::new(0)).collect();
        let read_modify_writes = Mutex::new(ReadModifyWriteQueue::new(loops));
        Self {
            opened: Mutex::default(),
            taken,
            connections_max,
            sockets_outlive,
            read_modify_writes,
        }
    }

    /// Whether the sockets stay open for the next server.
    pub(crate) const fn sockets_outlive(&self) -> bool {
        self.sockets_outlive
    }

    /// A poisoned lock is used on: the counts are whole between statements.
    pub(crate) fn opened(&self) -> MutexGuard<'_, BTreeMap<ExportId, usize>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A poisoned lock is used on: a panic in it ends the process's service of that loop anyway.
    pub(crate) fn read_modify_writes(&self) -> MutexGuard<'_, ReadModifyWriteQueue> {
        self.read_modify_writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to an export has closed.
    pub(crate) fn closed(&self, export: ExportId) {
        let mut opened = self.opened();
        if let Some(connections) = opened.get_mut(&export) {
            *connections -= 1;
            if *connections == 0 {
                opened.remove(&export);
            }
        }
    }

    /// Reserves a slot for a new client in the loop with the fewest; `None` at the limit of
    /// connections. Only the first loop calls this: the others only release slots.
    pub(crate) fn reserve_slot(&self) -> Option<LoopId> {
        let counts = || self.taken.iter().map(|taken| taken.load(Ordering::Relaxed));
        if counts().sum::<usize>() >= self.connections_max {
            return None;
        }
        let (loop_id, _) = counts().enumerate().min_by_key(|(_, count)| *count)?;
        self.taken[loop_id].fetch_add(1, Ordering::Relaxed);
        Some(LoopId::new(loop_id))
    }

    /// Whether no slot is reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.iter().all(|taken| taken.load(Ordering::Relaxed) == 0)
    }

    /// Releases a slot.
    pub(crate) fn release_slot(&self, loop_id: LoopId) {
        let before = self.taken[loop_id.index()].fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a slot is released once");
    }

    /// Moves the reservation of a client that was meant for another loop to the first loop.
    pub(crate) fn reassign_slot_to_first(&self, meant: LoopId) {
        self.release_slot(meant);
        self.taken[0].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_where_the_fewest_are_and_no_more_come_than_may() {
        let group = LoopGroup::new(3, 7, false);
        let loop_ids: Vec<_> = (0..8).map(|_| group.reserve_slot().map(LoopId::index)).collect();
        let expected = [0, 1, 2, 0, 1, 2, 0].map(Some);
        assert_eq!((&loop_ids[..7], loop_ids[7]), (&expected[..], None));
        group.release_slot(LoopId::new(2));
        assert_eq!(group.reserve_slot(), Some(LoopId::new(2)), "one left");
        group.release_slot(LoopId::new(1));
        group.reassign_slot_to_first(LoopId::new(2));
        assert_eq!(
            group.reserve_slot(),
            Some(LoopId::new(1)),
            "the first has four, the others one each"
        );
        assert_eq!(group.reserve_slot(), None);
    }
}
