//! A command whose electronics are done, and how it comes to its end.

use units::{Extent, Instant};

use crate::completion::Parts;
use crate::mechanism::Access;

/// A command whose electronics are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InProgressCommand {
    pub(crate) extent: Extent,
    /// When they were done.
    pub(crate) ready: Instant,
    pub(crate) parts: Parts,
}

impl InProgressCommand {
    /// Done at `at`, all the rest of it being transfer.
    pub(crate) fn transferred(&self, at: Instant) -> (Instant, Parts) {
        (at, Parts { transfer: at.since(self.ready), ..self.parts })
    }

    /// Done at `at`, after `access`.
    pub(crate) fn accessed(&self, access: &Access, at: Instant) -> (Instant, Parts) {
        let mut parts = self.parts;
        parts.queue += access.begin.since(self.ready);
        parts.seek = access.seek();
        parts.rotation = access.rotation();
        parts.transfer = at.since(access.first);
        (at, parts)
    }
}
