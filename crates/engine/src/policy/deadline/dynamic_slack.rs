//! The dynamic slack: that of the present state.
//!
//! Let the drive be idle at t. For d > t, let W(d) be the most work that may have to be done by d
//! from now on: the rest of the released requests that are due by d, and of each task that cannot
//! release another request before r ≥ t, with period T and cost C, ⌊(d − r) ÷ T⌋·C. The slack is `S
//! = min over d of (d − t) − W(d)`.
//!
//! **A best-effort command that takes at most S, begun now, makes no request late**, if every
//! best-effort command before it was begun likewise and the tasks were admitted. Suppose that a
//! request due at d is late, the first one, and let t be when the last best-effort command before d
//! was begun, and e its service time. Let o be the last moment before d before which no request
//! waits that is due by d.
//!
//! - o ≤ t + e: from t to d the disk does that command and then, by EDF, nothing but requests that
//!   are due by d (between t and t + e it has no choice; after it something due by d always waits).
//!   All of those are in W(d). So what is due by d is done by t + e + W(d) ≤ t + S + W(d) ≤ d.
//! - o > t + e: from o on there is no best effort, one command at most that was begun before o and
//!   is due after d, and what was released since o: admission's condition says that this is done by
//!   d.
//!
//! The proof does not depend on best effort before t, nor on blocking: the drive is idle at t, and
//! whatever was served before is in the remaining work.
//!
//! **S is never less than `ΔL_r`.** Let x be the disk time of best effort since the last moment
//! without a queued released request, and o the last moment before t before which no request waits
//! that is due by d. Of the demand(d − o) at most that was released since o and is due by d, or
//! will be, the disk has done t − o, less x, less b(d − o) at most for a command begun before o
//! that is due after d. So `(d − t) − W(d) ≥ (d − o) − demand(d − o) − b(d − o) − x ≥ ΔL − x`.
//!
//! A request that has begun and was preempted needs positioning again, which its cost does not
//! include: if best effort interrupts it, the positioning is added to e; until it is done, to W.
//!
//! The computation sums demand at the instants at which requests may be due, earliest first, until
//! the mean load of all tasks leaves more than the minimum so far. It runs only if the known bound
//! does not suffice: S falls by at most the time that passes, since W for a d never grows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{DiskTime, Duration, Instant};

use crate::limits::{SLACK_STEPS_MAX, STREAM_PERIOD_MAX};

/// Releases that recur.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    /// The earliest release.
    pub(super) first: Instant,
    pub(super) period: Duration,
    pub(super) cost: DiskTime,
    pub(super) rate: Rate,
}

/// C ÷ T in units of 2⁻⁴⁰, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate(u64);

const RATE_BITS: u32 = 40;

impl Rate {
    pub(super) fn of(cost: DiskTime, period: Duration) -> Self {
        let cost = u128::from(cost.as_nanos().max(0).unsigned_abs());
        assert!(period > Duration::ZERO, "a task has a period");
        let rate = (cost << RATE_BITS).div_ceil(u128::from(period.as_nanos()));
        Self(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The demand from now on: filled for each computation, kept for its memory.
#[derive(Debug, Default)]
pub(super) struct DemandForecast {
    pending: Vec<(Instant, i64)>,
    releases: Vec<Releases>,
    dues: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl DemandForecast {
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.releases.clear();
        self.dues.clear();
    }

    /// Adds a released request: the rest `remaining` is due at `deadline`.
    pub(super) fn add_pending(&mut self, deadline: Instant, remaining: DiskTime) {
        self.pending.push((deadline, remaining.as_nanos()));
    }

    pub(super) fn add_releases(&mut self, releases: Releases) {
        debug_assert!(releases.period > Duration::ZERO, "releases are a period apart");
        if releases.cost > DiskTime::ZERO {
            let due = releases.first + releases.period;
            let index = u32::try_from(self.releases.len()).expect("tasks are bounded");
            self.releases.push(releases);
            self.dues.push(Reverse((due, index)));
            debug_assert_eq!(
                self.dues.len(),
                self.releases.len(),
                "each task has one next deadline"
            );
        }
    }

    /// The latest start of the first pending request, if nothing else is released; `None` if none
    /// is pending.
    pub(super) fn latest_start(&mut self) -> Option<i64> {
        self.pending.sort_unstable();
        let mut sum = 0;
        let starts = self.pending.iter().map(|(deadline, remaining)| {
            sum += remaining;
            signed(*deadline) - sum
        });
        starts.min()
    }

    /// The slack at `now`, or a lower bound: no request is late if best effort takes it now.
    pub(super) fn slack(&mut self, now: Instant) -> DiskTime {
        self.pending.sort_unstable();
        debug_assert_eq!(self.dues.len(), self.releases.len(), "each task has one next deadline");
        let all_pending: i64 = self.pending.iter().map(|(_, remaining)| remaining).sum();
        let (mut due, mut least, mut steps) = (0, i64::MAX, 0);
        let mut pending = self.pending.iter().copied().peekable();
        // The bound by the mean load is computed as often as it costs no more than the rest.
        let every = u32::try_from(self.releases.len()).unwrap_or(u32::MAX).max(8);
        let mut next_look = every;
        loop {
            let first = pending.peek().map(|(deadline, _)| *deadline);
            let next = self.dues.peek().map(|Reverse((deadline, _))| *deadline);
            let Some(at) = first.into_iter().chain(next).min() else { break };
            while let Some((_, remaining)) = pending.next_if(|(deadline, _)| *deadline == at) {
                due += remaining;
            }
            while let Some(mut top) = self.dues.peek_mut() {
                let Reverse((deadline, index)) = *top;
                if deadline != at {
                    break;
                }
                let releases = &self.releases[index as usize];
                due += releases.cost.as_nanos();
                *top = Reverse((deadline + releases.period, index));
                steps += 1;
            }
            least = least.min(signed(at) - signed(now) - due);
            if steps >= next_look || self.releases.is_empty() {
                next_look = steps + every;
                let beyond = self.beyond(at, now, all_pending);
                if beyond >= least || steps >= SLACK_STEPS_MAX {
                    least = least.min(beyond);
                    break;
                }
            }
        }
        DiskTime::from_nanos(least).clamp(DiskTime::ZERO, STREAM_PERIOD_MAX.into())
    }

    /// A lower bound of the slack at `at` and at any later instant, by the mean load.
    fn beyond(&self, at: Instant, now: Instant, pending: i64) -> i64 {
        let (mut demand, mut load) = (0_u128, 0_u128);
        for releases in &self.releases {
            let Rate(rate) = releases.rate;
            load += u128::from(rate);
            demand += u128::from(rate) * u128::from(at.saturating_since(releases.first).as_nanos());
        }
        // Above the whole, the slack shrinks as time passes.
        if load > 1 << RATE_BITS {
            return i64::MIN;
        }
        let demand = i64::try_from((demand >> RATE_BITS) + 1).unwrap_or(i64::MAX);
        (signed(at) - signed(now) - pending).saturating_sub(demand)
    }
}

fn signed(at: Instant) -> i64 {
    i64::try_from(at.as_nanos()).expect("under 292 years")
}
