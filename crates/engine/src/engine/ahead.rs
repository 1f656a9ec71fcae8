//! Requests that go ahead of others in their volume's queue.
//!
//! A request that a guarantee of its own covers ([`Policy::goes_ahead`](crate::policy::Policy))
//! does not wait for those of its volume that none covers: it is queued before them, and behind
//! those that went ahead earlier. A head that has begun goes on after it.
//!
//! ```text
//! queue    │ ahead │ ahead │ other, begun │ other │
//!                          ▲ a further one
//! ```
//!
//! Requests that are outstanding together have no order among each other, so that none is broken.

use units::Instant;

use super::pending::Slot;
use super::{Engine, NO_SLOT};

impl Engine {
    /// Queues the request in `slot`, which was submitted just now, ahead of others.
    pub(super) fn queue_ahead(&mut self, slot: Slot, now: Instant) {
        let request = self.pending(slot).request;
        let volume = request.volume;
        let before = core::mem::replace(&mut self.ahead[volume.0 as usize], slot);
        let entry = &mut self.volumes[volume.0 as usize];
        assert_ne!(before, slot, "a request is queued once");
        let was_empty = entry.first == NO_SLOT;
        if before != NO_SLOT {
            let link = Some((slot, request.operation));
            let next = core::mem::replace(&mut self.pending_mut(before).next_in_queue, link);
            self.pending_mut(slot).next_in_queue = next;
            let entry = &mut self.volumes[volume.0 as usize];
            if entry.last == before {
                entry.last = slot;
            }
            self.policy.queued(volume, &request.operation, None, now);
            return;
        }
        let first = core::mem::replace(&mut entry.first, slot);
        if was_empty {
            entry.last = slot;
        } else {
            let operation = self.pending(first).request.operation;
            self.pending_mut(slot).next_in_queue = Some((first, operation));
        }
        let head = self.next_piece(slot);
        self.policy.queued(volume, &request.operation, Some(&head).filter(|_| was_empty), now);
        if !was_empty {
            self.policy.head_changed(volume, &head, now);
        }
        debug_assert_eq!(self.volumes[volume.0 as usize].first, slot, "it is the head");
    }
}
