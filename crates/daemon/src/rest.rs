//! What a disk's thread does when it has nothing to do: it sleeps, and is awake again in time.
//!
//! A thread that sleeps until a moment wakes after it: 20 us on a processor that dozes, 50 on one that slept for
//! milliseconds. An emulated disk answers that much too late, and an arm that is to be sent just in time leaves that much
//! too late. So the thread asks to be woken earlier, by as much as it lately was woken late, and watches the clock for
//! the rest.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use host::{Clock, WakeupMargin};
use units::{Duration, Instant};

use crate::inbox::{Inbox, Message};

/// What a disk's thread does when it has nothing to do.
pub(crate) struct Rest {
    pub(crate) clock: Clock,
    pub(crate) until: Instant,
    pub(crate) bell: Option<Arc<OwnedFd>>,
    /// Whether it is to end to the microsecond.
    pub(crate) is_watched: bool,
}

impl Rest {
    /// Rests until there is something to do, and takes the messages that there are.
    pub(crate) fn keep(
        self,
        inbox: &Inbox,
        margin: &mut WakeupMargin,
        messages: &mut Vec<Message>,
    ) {
        let Self { clock, until, bell, is_watched } = self;
        let now = clock.now();
        let left = until.saturating_since(now);
        let sleep = if is_watched { margin.sleep_time(left) } else { left };
        let planned = now + sleep;
        inbox.wait(sleep, bell.as_ref().map(|bell| bell.as_fd()), messages);
        let mut now = clock.now();
        if !is_watched || !messages.is_empty() || now < planned {
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
