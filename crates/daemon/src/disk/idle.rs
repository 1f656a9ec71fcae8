//! The wait of a disk's thread that has nothing to do.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use host::{Clock, WakeupMargin};
use units::{Duration, Instant};

use super::inbox::Inbox;
use super::message::Message;

/// A wait for messages, for completions and for an instant.
pub(crate) struct IdleWait {
    pub(crate) clock: Clock,
    pub(crate) until: Instant,
    /// A file that becomes readable on completions, if this thread handles them.
    pub(crate) completion_fd: Option<Arc<OwnedFd>>,
    /// Whether the wait is to end to the microsecond: the thread wakes early and polls the clock.
    pub(crate) is_precise: bool,
}

impl IdleWait {
    /// Waits, and takes the messages that there are.
    pub(crate) fn run(self, inbox: &Inbox, margin: &mut WakeupMargin, messages: &mut Vec<Message>) {
        let Self { clock, until, completion_fd, is_precise } = self;
        let now = clock.now();
        let left = until.saturating_since(now);
        let sleep = if is_precise { margin.sleep_time(left) } else { left };
        let planned = now + sleep;
        inbox.wait(sleep, completion_fd.as_ref().map(|fd| fd.as_fd()), messages);
        let mut now = clock.now();
        if !is_precise || !messages.is_empty() || now < planned {
            return;
        }
        margin.record_wakeup(planned, now);
        while now < until && inbox.is_idle() {
            core::hint::spin_loop();
            now = clock.now();
        }
        inbox.wait(Duration::ZERO, None, messages);
    }
}
