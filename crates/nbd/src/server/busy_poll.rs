//! How long the loop polls busily before it sleeps.
//!
//! Falling asleep and waking takes some microseconds, of the loop and of the client that wakes it.
//! A loop that gets messages every few microseconds is faster if it polls for that long; another
//! loop had better sleep at once. The recent idle times decide, as KVM's do for idle virtual
//! processors (`halt_poll_ns`).
//!
//! A short write of which the head has arrived is a case of its own. Clients send head and payload
//! by two system calls, a few microseconds apart: a loop that slept in between would sleep and
//! wake twice for each write. A long payload comes in pieces, and for that the loop sleeps: it
//! then finds longer ones.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use units::{Duration, Instant};

/// About the cost of a sleep: a loop that polls for this long before it sleeps spends at most twice
/// the optimum.
const BUSY_POLL_MAX: Duration = Duration::from_micros(5);
/// A busy poll without an event halves the next one, down to this; below it there is none.
const BUSY_POLL_MIN: Duration = Duration::from_micros(1);
/// The token of all completion descriptors: every iteration polls the disks. It is no slot's
/// number.
const COMPLETION: Token = Token(usize::MAX);
/// The most polls in one busy poll, whatever the clock says; each is a system call.
const POLLS_MAX: u32 = 32;

/// The duration of the busy poll, adapted to the idle times.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    length: Duration,
    is_rest_due: bool,
}

impl BusyPoll {
    /// Whether the rest of a message that has begun is due, for the next wait.
    pub(crate) fn rest_is_due(&mut self, is_due: bool) {
        self.is_rest_due = is_due;
    }

    /// Polls busily for a while, then sleeps for at most `tick`. Returns whether there are events.
    pub(crate) fn wait(
        &mut self,
        (poll, events): (&mut Poll, &mut Events),
        clock: &dyn Fn() -> Instant,
        tick: std::time::Duration,
    ) -> io::Result<bool> {
        let began = clock();
        let seen = self
            .poll_until(clock, || poll_events(poll, events, std::time::Duration::ZERO))?
            || poll_events(poll, events, tick)?;
        self.idle_for(clock().saturating_since(began));
        Ok(seen)
    }

    /// Polls until an event is ready or the time is over. Returns whether there was an event.
    fn poll_until<E>(
        &self,
        now: &dyn Fn() -> Instant,
        mut poll: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let length = if self.is_rest_due { BUSY_POLL_MAX } else { self.length };
        if length == Duration::ZERO {
            return Ok(false);
        }
        let until = now() + length;
        for _ in 0..POLLS_MAX {
            if poll()? {
                return Ok(true);
            }
            if now() >= until {
                break;
            }
        }
        Ok(false)
    }

    /// The loop was idle for `time`. How soon a payload followed its head says nothing of how soon
    /// the next request comes.
    fn idle_for(&mut self, time: Duration) {
        if core::mem::take(&mut self.is_rest_due) {
            return;
        }
        self.length = if time <= BUSY_POLL_MAX {
            BUSY_POLL_MAX
        } else {
            Some(self.length / 2).filter(|half| *half >= BUSY_POLL_MIN).unwrap_or(Duration::ZERO)
        };
    }
}

/// Registers the completion descriptors and returns them.
pub(crate) fn register_completion_fds(poll: &Poll, fds: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    for fd in &fds {
        let fd = fd.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), COMPLETION, Interest::READABLE)?;
    }
    Ok(fds)
}

/// Polls for events. Returns whether there are any.
pub(crate) fn poll_events(
    poll: &mut Poll,
    events: &mut Events,
    within: std::time::Duration,
) -> io::Result<bool> {
    match poll.poll(events, Some(within)) {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
        outcome => outcome.map(|()| !events.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// The number of polls in one busy poll without an event, with a clock that advances by `step`
    /// per reading.
    fn polls(busy_poll: &BusyPoll, step: Duration) -> u32 {
        let (time, polls) = (Cell::new(Instant::ZERO), Cell::new(0));
        let now = || {
            time.set(time.get() + step);
            time.get()
        };
        let seen: Result<bool, ()> = busy_poll.poll_until(&now, || {
            polls.set(polls.get() + 1);
            Ok(false)
        });
        assert_eq!(seen, Ok(false));
        polls.get()
    }

    #[test]
    fn a_busy_loop_polls_and_an_idle_one_sleeps_at_once() {
        let mut busy_poll = BusyPoll::default();
        let step = Duration::from_micros(1);
        assert_eq!(polls(&busy_poll, step), 0, "nothing is known yet");
        busy_poll.idle_for(Duration::from_micros(4));
        assert_eq!(polls(&busy_poll, step), 5);
        for left in [2, 1, 0] {
            busy_poll.idle_for(Duration::from_micros(50));
            assert!(polls(&busy_poll, step) <= left + 1, "half as long each time");
        }
        assert_eq!(polls(&busy_poll, step), 0);
    }

    #[test]
    fn the_rest_of_a_message_is_polled_for_once_and_teaches_nothing() {
        let mut busy_poll = BusyPoll::default();
        let step = Duration::from_micros(1);
        busy_poll.rest_is_due(true);
        assert_eq!(polls(&busy_poll, step), 5);
        busy_poll.idle_for(Duration::from_micros(2));
        assert_eq!(polls(&busy_poll, step), 0, "the next request is another matter");
    }

    #[test]
    fn a_busy_poll_ends_on_an_event_and_if_the_clock_stands_still() {
        let mut busy_poll = BusyPoll::default();
        busy_poll.idle_for(Duration::ZERO);
        assert_eq!(polls(&busy_poll, Duration::ZERO), POLLS_MAX);
        let mut left = 3;
        let seen: Result<bool, ()> = busy_poll.poll_until(&|| Instant::ZERO, || {
            left -= 1;
            Ok(left == 0)
        });
        assert_eq!((seen, left), (Ok(true), 0));
    }
}
