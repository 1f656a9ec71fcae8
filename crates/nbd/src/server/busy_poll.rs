//! How long the loop polls busily before it sleeps.
//!
//! Falling asleep and waking takes some microseconds, of the loop and of the client that wakes it.
//! A loop that gets messages every few microseconds is faster if it polls for that long; another
//! loop had better sleep at once. The recent idle times decide, as KVM's do for idle virtual
//! processors (`halt_poll_ns`).

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use units::{Duration, Instant};

/// About the cost of a sleep: a loop that polls for this long before it sleeps spends at most twice
/// the optimum.
const WATCH_MAX: Duration = Duration::from_micros(5);
/// A busy poll without an event halves the next one, down to this; below it there is none.
const WATCH_MIN: Duration = Duration::from_micros(1);
/// The token of all completion descriptors: every iteration polls the disks. It is no slot's
/// number.
const BELL: Token = Token(usize::MAX);
/// The most polls in one busy poll, whatever the clock says; each is a system call.
const LOOKS_MAX: u32 = 32;

/// The duration of the busy poll, adapted to the idle times.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    length: Duration,
}

impl BusyPoll {
    /// Polls until an event is ready or the time is over. Returns whether there was an event.
    pub(crate) fn keep<E>(
        &self,
        now: &dyn Fn() -> Instant,
        mut look: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.length == Duration::ZERO {
            return Ok(false);
        }
        let until = now() + self.length;
        for _ in 0..LOOKS_MAX {
            if look()? {
                return Ok(true);
            }
            if now() >= until {
                break;
            }
        }
        Ok(false)
    }

    /// The loop was idle for `time`.
    pub(crate) fn idle_for(&mut self, time: Duration) {
        self.length = if time <= WATCH_MAX {
            WATCH_MAX
        } else {
            Some(self.length / 2).filter(|half| *half >= WATCH_MIN).unwrap_or(Duration::ZERO)
        };
    }
}

/// Registers the completion descriptors and returns them.
pub(crate) fn listen_to(poll: &Poll, bells: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    for bell in &bells {
        let bell = bell.as_raw_fd();
        poll.registry().register(&mut SourceFd(&bell), BELL, Interest::READABLE)?;
    }
    Ok(bells)
}

/// Polls for events. Returns whether there are any.
pub(crate) fn look(
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
    fn looks(busy_poll: &BusyPoll, step: Duration) -> u32 {
        let (time, looks) = (Cell::new(Instant::ZERO), Cell::new(0));
        let now = || {
            time.set(time.get() + step);
            time.get()
        };
        let seen: Result<bool, ()> = busy_poll.keep(&now, || {
            looks.set(looks.get() + 1);
            Ok(false)
        });
        assert_eq!(seen, Ok(false));
        looks.get()
    }

    #[test]
    fn who_is_asked_often_watches_and_who_is_not_sleeps_at_once() {
        let mut busy_poll = BusyPoll::default();
        let step = Duration::from_micros(1);
        assert_eq!(looks(&busy_poll, step), 0, "nothing is known yet");
        busy_poll.idle_for(Duration::from_micros(4));
        assert_eq!(looks(&busy_poll, step), 5);
        for left in [2, 1, 0] {
            busy_poll.idle_for(Duration::from_micros(50));
            assert!(looks(&busy_poll, step) <= left + 1, "half as long each time");
        }
        assert_eq!(looks(&busy_poll, step), 0);
    }

    #[test]
    fn a_watch_ends_though_time_stands_still_and_when_there_is_something() {
        let mut busy_poll = BusyPoll::default();
        busy_poll.idle_for(Duration::ZERO);
        assert_eq!(looks(&busy_poll, Duration::ZERO), LOOKS_MAX);
        let mut left = 3;
        let seen: Result<bool, ()> = busy_poll.keep(&|| Instant::ZERO, || {
            left -= 1;
            Ok(left == 0)
        });
        assert_eq!((seen, left), (Ok(true), 0));
    }
}
