//! The dynamic slack: that of the present state.
//!
//! Let the drive be idle at t. For d > t, let W(d) be the most work that may have to be done by d
//! from now on: the rest of the released requests that are due by d; and of each task, with period
//! T, deadline D and cost C, k·C if t + D ≤ d, where k is the number of requests that it may
//! release at t, and (1 + ⌊(d − r − D) ÷ T⌋)·C if r + D ≤ d, where r ≥ t is the first instant at
//! which it may release a further one. (For a stream k is 0 and D is T, which makes it ⌊(d − r) ÷
//! T⌋·C.) The slack is `S = min over d of (d − t) − W(d)`.
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
pub(in crate::policy) struct Releases {
    /// The number of requests that may be released at the present instant; none for a stream.
    pub(in crate::policy) at_once: u32,
    /// The earliest release after those.
    pub(in crate::policy) first: Instant,
    pub(in crate::policy) period: Duration,
    /// The time from a release to its deadline.
    pub(in crate::policy) deadline: Duration,
    pub(in crate::policy) cost: DiskTime,
    pub(in crate::policy) rate: Rate,
}

/// C ÷ T in units of 2⁻⁴⁰, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) struct Rate(u64);

const RATE_BITS: u32 = 40;

impl Rate {
    pub(in crate::policy) fn of(cost: DiskTime, period: Duration) -> Self {
        let cost = u128::from(cost.as_nanos().max(0).unsigned_abs());
        assert!(period > Duration::ZERO, "a task has a period");
        let rate = (cost << RATE_BITS).div_ceil(u128::from(period.as_nanos()));
        Self(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The demand from now on: filled for each computation, kept for its memory.
#[derive(Debug, Default)]
pub(in crate::policy) struct DemandForecast {
    pending: Vec<(Instant, i64)>,
    /// What may be released at once: the deadline and the demand.
    bursts: Vec<(Instant, i64)>,
    releases: Vec<Releases>,
    dues: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl DemandForecast {
    pub(in crate::policy) fn clear(&mut self) {
        self.pending.clear();
        self.bursts.clear();
        self.releases.clear();
        self.dues.clear();
    }

    /// Adds a released request: the rest `remaining` is due at `deadline`.
    pub(in crate::policy) fn add_pending(&mut self, deadline: Instant, remaining: DiskTime) {
        self.pending.push((deadline, remaining.as_nanos()));
    }

    /// Adds what a task may release from `now` on.
    pub(in crate::policy) fn add_releases(&mut self, releases: Releases, now: Instant) {
        debug_assert!(releases.period > Duration::ZERO, "releases are a period apart");
        if releases.cost <= DiskTime::ZERO {
            return;
        }
        if releases.at_once > 0 {
            let demand = releases.cost.as_nanos() * i64::from(releases.at_once);
            self.bursts.push((now + releases.deadline, demand));
        }
        let due = releases.first + releases.deadline;
        let index = u32::try_from(self.releases.len()).expect("tasks are bounded");
        self.releases.push(releases);
        self.dues.push(Reverse((due, index)));
        debug_assert_eq!(self.dues.len(), self.releases.len(), "each task has one next deadline");
    }

    /// The latest start of the first pending request, if nothing else is released; `None` if none
    /// is pending.
    pub(in crate::policy) fn latest_start(&mut self) -> Option<i64> {
        self.pending.sort_unstable();
        let mut sum = 0;
        let starts = self.pending.iter().map(|(deadline, remaining)| {
            sum += remaining;
            signed(*deadline) - sum
        });
        starts.min()
    }

    /// The slack at `now`, or a lower bound: no request is late if best effort takes it now.
    pub(in crate::policy) fn slack(&mut self, now: Instant) -> DiskTime {
        self.pending.sort_unstable();
        self.bursts.sort_unstable();
        debug_assert_eq!(self.dues.len(), self.releases.len(), "each task has one next deadline");
        let now_known = self.pending.iter().chain(&self.bursts);
        let all_pending: i64 = now_known.map(|(_, remaining)| remaining).sum();
        let (mut due, mut least, mut steps) = (0, i64::MAX, 0);
        let mut pending = self.pending.iter().copied().peekable();
        let mut bursts = self.bursts.iter().copied().peekable();
        // The bound by the mean load is computed as often as it costs no more than the rest.
        let every = u32::try_from(self.releases.len()).unwrap_or(u32::MAX).max(8);
        let mut next_look = every;
        loop {
            let first = pending.peek().into_iter().chain(bursts.peek());
            let first = first.map(|(deadline, _)| *deadline).min();
            let next = self.dues.peek().map(|Reverse((deadline, _))| *deadline);
            let Some(at) = first.into_iter().chain(next).min() else { break };
            while let Some((_, remaining)) = pending.next_if(|(deadline, _)| *deadline == at) {
                due += remaining;
            }
            while let Some((_, demand)) = bursts.next_if(|(deadline, _)| *deadline == at) {
                due += demand;
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
            // The mean runs from one period before the first deadline.
            let (at, first) = (at + releases.period, releases.first + releases.deadline);
            demand += u128::from(rate) * u128::from(at.saturating_since(first).as_nanos());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `SplitMix64`, from `low` to `high`.
    fn between(state: &mut u64, low: u64, high: u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        low + (bits ^ (bits >> 31)) % (high - low + 1)
    }

    fn ticks(n: u64) -> DiskTime {
        DiskTime::from_nanos(i64::try_from(n).expect("small"))
    }

    /// W(d), term by term.
    fn work(pending: &[(u64, u64)], tasks: &[Releases], now: u64, until: u64) -> u64 {
        let pending: u64 =
            pending.iter().filter(|(due, _)| *due <= until).map(|(_, work)| work).sum();
        let released = tasks.iter().map(|task| {
            let (period, deadline) = (task.period.as_nanos(), task.deadline.as_nanos());
            let at_once = if now + deadline <= until { u64::from(task.at_once) } else { 0 };
            let first = task.first.as_nanos() + deadline;
            let further = if first <= until { 1 + (until - first) / period } else { 0 };
            (at_once + further) * task.cost.as_nanos().unsigned_abs()
        });
        pending + released.sum::<u64>()
    }

    #[test]
    fn the_slack_equals_the_least_that_any_later_instant_leaves() {
        let (mut exact, cases) = (0, 4_000);
        for seed in 0..cases {
            let mut rng = seed;
            let now = between(&mut rng, 0, 30);
            let count = between(&mut rng, 1, 4);
            let tasks: Vec<Releases> = (0..count)
                .map(|_| {
                    let period = between(&mut rng, 8, 40);
                    let cost = ticks((period * between(&mut rng, 0, 90 / count) / 100).max(1));
                    let has_bursts = between(&mut rng, 0, 1) == 1;
                    let deadline = if has_bursts { between(&mut rng, 4, 80) } else { period };
                    let at_once = if has_bursts { between(&mut rng, 0, 3) } else { 0 };
                    let period = Duration::from_nanos(period);
                    Releases {
                        at_once: u32::try_from(at_once).expect("small"),
                        first: Instant::from_nanos(now + between(&mut rng, 0, 30)),
                        period,
                        deadline: Duration::from_nanos(deadline),
                        cost,
                        rate: Rate::of(cost, period),
                    }
                })
                .collect();
            let pending: Vec<(u64, u64)> = (0..between(&mut rng, 0, 3))
                .map(|_| (now + between(&mut rng, 0, 60), between(&mut rng, 1, 6)))
                .collect();
            let mut forecast = DemandForecast::default();
            for &(due, work) in &pending {
                forecast.add_pending(Instant::from_nanos(due), ticks(work));
            }
            for &task in &tasks {
                forecast.add_releases(task, Instant::from_nanos(now));
            }
            let slack = forecast.slack(Instant::from_nanos(now)).as_nanos().unsigned_abs();
            // Periods of up to 40 and a load of 0.9 at most: the least room is before 4,000.
            let room = (now..4_000)
                .filter(|&until| work(&pending, &tasks, now, until) > 0)
                .map(|until| (until - now).saturating_sub(work(&pending, &tasks, now, until)));
            let least = room.min().expect("something is due");
            assert!(slack <= least, "seed {seed}: {slack} of {least}: {pending:?} {tasks:?}");
            exact += u64::from(slack == least);
        }
        assert_eq!(exact, cases, "a search that is not broken off is exact");
    }
}
