//! What a disk's thread does when it has nothing to do: it sleeps, and is awake again in time.
//!
//! A thread that sleeps until a moment wakes after it: 20 us on a processor that dozes, 50 on one that slept for
//! milliseconds. An emulated disk answers that much too late, and an arm that is to be sent just in time leaves that much
//! too late. So the thread asks to be woken earlier, by as much as it lately was woken late, and watches the clock for
//! the rest.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use units::{Duration, Instant};

use crate::Clock;
use crate::inbox::{Inbox, Message};

/// Most that is watched: a machine that wakes threads later than this has more to do than to watch a clock.
const MARGIN_MAX: Duration = Duration::from_micros(100);
/// What the margin grows by when it was too short, and shrinks by when it was long enough: it is so that one in nine sleeps
/// ends too late.
const LONGER: Duration = Duration::from_micros(8);
const SHORTER: Duration = Duration::from_micros(1);

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
    pub(crate) fn keep(self, inbox: &Inbox, eve: &mut Eve, messages: &mut Vec<Message>) {
        let Self { clock, until, bell, is_watched } = self;
        let now = clock.now();
        let left = until.saturating_since(now);
        let sleep = if is_watched { eve.sleep(left) } else { left };
        let planned = now + sleep;
        inbox.wait(sleep, bell.as_ref().map(|bell| bell.as_fd()), messages);
        let mut now = clock.now();
        if !is_watched || !messages.is_empty() || now < planned {
            return;
        }
        eve.woke(planned, now);
        while now < until && inbox.is_idle() {
            core::hint::spin_loop();
            now = clock.now();
        }
        inbox.wait(Duration::ZERO, None, messages);
    }
}

/// How long before a moment the thread is awake for it, as it is learnt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eve {
    margin: Duration,
}

impl Eve {
    /// For how long to sleep of the time that is left.
    pub(crate) fn sleep(self, left: Duration) -> Duration {
        left.saturating_sub(self.margin)
    }

    /// A sleep that was to end at `planned` ended of itself, `now`.
    pub(crate) fn woke(&mut self, planned: Instant, now: Instant) {
        let late = now.saturating_since(planned);
        self.margin = if late > self.margin {
            (self.margin + LONGER).min(MARGIN_MAX)
        } else {
            self.margin.saturating_sub(SHORTER)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_what_most_sleeps_end_late_by_and_bounded() {
        let mut eve = Eve::default();
        let late = |nth: u64| Duration::from_micros(20 + nth % 10);
        let (mut in_time, sleeps) = (0, 2_000);
        for nth in 0..sleeps {
            let left = Duration::from_millis(3);
            let planned = Instant::ZERO + eve.sleep(left);
            let woken = planned + late(nth);
            in_time += u64::from(woken <= Instant::ZERO + left);
            eve.woke(planned, woken);
        }
        assert!(in_time * 10 >= sleeps * 8, "{in_time} of {sleeps}");
        let margin = Duration::from_millis(3) - eve.sleep(Duration::from_millis(3));
        assert!(margin <= Duration::from_micros(40), "more than sleeps end late by: {margin}");
        for _ in 0..100 {
            eve.woke(Instant::ZERO, Instant::ZERO + Duration::from_secs(1));
        }
        assert_eq!(eve.sleep(Duration::from_millis(1)), Duration::from_micros(900));
        assert_eq!(eve.sleep(Duration::from_micros(30)), Duration::ZERO);
    }
}
