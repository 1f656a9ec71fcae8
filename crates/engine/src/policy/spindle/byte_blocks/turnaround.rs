//! Whether a stream's client waits for its answers, and how long its bytes wait for more.
//!
//! A client that sends at its own pace sends more while its bytes are held back, and one command
//! transfers all of them. A client that *waits for its answers* sends nothing more, however long
//! its requests are held back, and whatever it does between an answer and its next request. So the
//! two are told apart by what happens while requests are held back.
//!
//! ```text
//!              nothing arrived in time, or a request
//!              followed an answer at once
//!  ┌─────────┐ ─────────────────────────────────────▶ ┌───────────────┐ ─┐ after 4 answers, and
//!  │ unknown │                                         │ k outstanding │  │ then 8 … 64: held back
//!  └─────────┘ ◀───────────────────────────────────── └───────────────┘ ◀┘ for a trial
//!              more than k are outstanding
//! ```

use units::{Duration, Instant, Sectors};

/// A request that follows an answer within this time is sent because of it.
const AT_ONCE_MAX: Duration = Duration::from_millis(5);
/// ... or within the time in which its bytes arrive at the bandwidth, divided by this.
const AT_ONCE_DIVISOR: u64 = 4;
/// The most requests that a client is taken to have outstanding while it waits for answers.
const OUTSTANDING_MAX: usize = 64;
/// More bytes are expected within this many times the time in which as many as the last request has
/// arrive at the bandwidth, ...
const EXPECTED_TIMES: u64 = 2;
/// ... and in a trial within this many times the longest of the client's intervals.
const TRIAL_INTERVALS: u64 = 2;
/// The answers between two trials: the fewest, and the most.
const TRIAL_AFTER: core::ops::RangeInclusive<u32> = 4..=64;
/// The longest interval is forgotten by one part in this many at each new one.
const FORGET_DIVISOR: u64 = 8;

#[derive(Debug)]
pub(super) struct Turnaround {
    /// When the last request arrived, and its length.
    last_arrival: (Instant, Sectors),
    /// When a request was last answered, and how many were outstanding then, that one included.
    last_answer: (Instant, usize),
    /// The requests that the client has outstanding while it waits for answers; `usize::MAX` if it
    /// is not known to wait.
    outstanding: usize,
    /// The answers until the next trial, and between the next two.
    trial_in: u32,
    trial_after: u32,
    /// When the first request after an answer arrived, and whether it was held back.
    first: Option<Instant>,
    is_held: bool,
    /// About the longest interval between two such requests, of those that were not held back.
    interval: Option<Duration>,
}

impl Turnaround {
    pub(super) fn new() -> Self {
        let after = *TRIAL_AFTER.start();
        debug_assert!(after > 0, "a trial is not at each request");
        Self {
            last_arrival: (Instant::ZERO, Sectors::ZERO),
            last_answer: (Instant::ZERO, 0),
            outstanding: usize::MAX,
            trial_in: after,
            trial_after: after,
            first: None,
            is_held: false,
            interval: None,
        }
    }

    /// When the last request arrived.
    pub(super) fn last_arrival(&self) -> Instant {
        self.last_arrival.0
    }

    /// The length of the last request.
    pub(super) fn last_len(&self) -> Sectors {
        self.last_arrival.1
    }

    /// Whether the client is known to wait for its answers.
    pub(super) fn is_known(&self) -> bool {
        debug_assert!(self.outstanding > 0, "a client that waits has requested something");
        self.outstanding < usize::MAX
    }

    /// Whether the client is known to wait for the answers of the `queued` requests, so that
    /// holding them back gathers nothing. Not in a trial.
    pub(super) fn is_waiting(&self, queued: usize) -> bool {
        debug_assert!(self.outstanding > 0, "a client that waits has requested something");
        queued >= self.outstanding && self.trial_in > 0
    }

    /// A request of `len` arrives behind `queued` others. As much arrives at the bandwidth in
    /// `time`.
    pub(super) fn on_arrival(
        &mut self,
        len: Sectors,
        (queued, time): (usize, Duration),
        now: Instant,
    ) {
        let (at, outstanding) = self.last_answer;
        let soon = Duration::from_nanos(time.as_nanos() / AT_ONCE_DIVISOR).min(AT_ONCE_MAX);
        let is_answered = outstanding > queued && outstanding <= OUTSTANDING_MAX;
        if is_answered && now <= at + soon {
            self.set_outstanding(outstanding);
        } else if queued >= self.outstanding {
            self.set_outstanding(usize::MAX);
        }
        if self.first.is_none_or(|first| first <= at) {
            let is_held = core::mem::take(&mut self.is_held);
            if let Some(first) = self.first.filter(|_| !is_held) {
                self.learn_interval(now.since(first));
            }
            self.first = Some(now);
        }
        self.last_arrival = (now, len);
        debug_assert!(self.outstanding > 0, "a client that waits has requested something");
    }

    fn learn_interval(&mut self, interval: Duration) {
        let before = self.interval.map_or(0, Duration::as_nanos);
        let kept = Duration::from_nanos(before - before / FORGET_DIVISOR);
        self.interval = Some(interval.max(kept));
        debug_assert!(self.interval >= Some(interval), "the longest is not exceeded");
    }

    fn set_outstanding(&mut self, outstanding: usize) {
        assert!(outstanding > 0, "a client that waits has requested something");
        if outstanding != self.outstanding {
            self.outstanding = outstanding;
            (self.trial_in, self.trial_after) = (*TRIAL_AFTER.start(), *TRIAL_AFTER.start());
            self.interval = None;
        }
    }

    /// How long `queued` requests are held back from the last arrival on, `time` being that in
    /// which as much arrives at the bandwidth.
    pub(super) fn hold(&self, queued: usize, time: Duration) -> Duration {
        if self.is_waiting(queued) {
            return Duration::ZERO;
        }
        let expected = time * EXPECTED_TIMES;
        debug_assert!(expected >= time, "more is expected for a while");
        let interval = self.interval.filter(|_| queued >= self.outstanding);
        interval.map_or(expected, |interval| expected.min(interval * TRIAL_INTERVALS))
    }

    /// A command transfers all of the `queued` requests, and could transfer more. If they were held
    /// back for about as long as more was expected, nothing more will come.
    pub(super) fn on_dispatch(&mut self, (queued, time): (usize, Duration), now: Instant) {
        assert!(queued > 0, "nothing is not held back");
        let hold = self.hold(queued, time);
        // A block may be due before twice the time of its bytes.
        let enough = hold.min(time + time / 2);
        if hold == Duration::ZERO || now < self.last_arrival.0 + enough {
            return;
        }
        self.is_held = true;
        if queued == self.outstanding {
            self.trial_after = (self.trial_after * 2).min(*TRIAL_AFTER.end());
            self.trial_in = self.trial_after;
        } else {
            self.set_outstanding(queued);
        }
        debug_assert!(self.is_known(), "a client that sends nothing more waits");
    }

    /// A request is answered, with `outstanding` until then.
    pub(super) fn on_answer(&mut self, outstanding: usize, now: Instant) {
        debug_assert!(outstanding > 0, "what is answered was outstanding");
        self.last_answer = (now, outstanding);
        self.trial_in = self.trial_in.saturating_sub(1);
    }
}
