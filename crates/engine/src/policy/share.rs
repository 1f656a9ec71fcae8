//! What the two share policies ([`super::utilization`], [`super::throughput`]) have in common:
//! buckets, eligibility, and the orders in which volumes are served (Zygaria, RTAS 2008 §2–3).
//!
//! Each volume has a reserve bucket and, if its limit is less than the whole, a limit bucket. Both
//! fill at their share of wall time and hold one period's worth. The deadline of a volume's head is
//! the instant at which the reserve bucket can pay for it. The limit caps what is taken from the
//! slack: a head that the reserve can pay for is never throttled.
//!
//! ```text
//!             queued           limit spent
//!   (empty) ─────────▶ ready ◀────────────▶ throttled      ready: in the order of usage, and in
//!                        ▲                                  the order of deadlines with a reserve
//!                        └────────────────▶ full            full: its places are taken
//!                          a command ends
//! ```
//!
//! Invariant: a volume is in exactly the orders that its state and its reserve call for.

use units::{DiskTime, Duration, Instant, Share};

use super::indexed_heap::IndexedHeap;
use crate::accounting::bucket::{Bucket, SignedInstant};
use crate::accounting::usage::{DecayClock, RecentUsage};
use crate::{Contract, VolumeId, Weight};

/// The smallest amount of disk time: a limit bucket that holds this much makes its volume eligible.
const ELIGIBLE_ABOVE: DiskTime = DiskTime::from_nanos(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Ready,
    Throttled,
    /// It has a request, and as many commands in the drive as it may.
    Full,
}

/// Whether, and from when on, a volume's head may be served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Eligibility {
    /// No request is queued.
    Empty,
    /// The volume is at its limit until then.
    Throttled(SignedInstant),
    /// The volume's places in the drive are taken, until one of its commands completes.
    Full,
    /// The reserve pays for the head at this deadline.
    Due(SignedInstant),
    /// The volume has no reserve and is served from the slack.
    BestEffort,
}

impl Eligibility {
    /// The same for a volume whose places in the drive are taken.
    pub(super) fn full(self) -> Self {
        match self {
            Self::Due(_) | Self::BestEffort => Self::Full,
            Self::Empty | Self::Throttled(_) | Self::Full => self,
        }
    }
}

/// The buckets and the recent usage of one volume.
#[derive(Debug)]
pub(super) struct ShareAccount {
    reserve: Bucket,
    limit: Option<Box<Bucket>>,
    usage: RecentUsage,
    weight: Weight,
    state: State,
}

impl ShareAccount {
    /// The account of a volume that was idle for long: it holds one period's worth, never more.
    pub(super) fn new(contract: Contract, period: Duration, now: Instant) -> Self {
        debug_assert!(contract.reserve <= contract.limit, "a limit is at least the reserve");
        Self {
            reserve: Bucket::full(contract.reserve, period, now),
            limit: limit_bucket(contract, period, now),
            usage: RecentUsage::default(),
            weight: contract.weight,
            state: State::Empty,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Notes that the volume has a head.
    pub(super) fn set_ready(&mut self) {
        debug_assert_eq!(self.state, State::Empty, "a head is queued once");
        self.state = State::Ready;
    }

    /// Notes that the volume has no head any more.
    pub(super) fn set_empty(&mut self) {
        assert_ne!(self.state, State::Empty, "only a volume with a head is served");
        self.state = State::Empty;
    }

    pub(super) fn has_reserve(&self) -> bool {
        !self.reserve.is_none()
    }

    /// What the reserve accrues in a period.
    pub(super) fn reserve_cap(&self) -> DiskTime {
        self.reserve.cap()
    }

    /// What the reserve accrues in `time`.
    pub(super) fn reserved_of(&self, time: DiskTime) -> DiskTime {
        self.reserve.part_of(time)
    }

    /// What the reserve accrues while others have the disk for `time`, and while it is spent; at
    /// most what the reserve accrues in a period.
    pub(super) fn earned_beside(&self, time: DiskTime) -> DiskTime {
        debug_assert!(time >= DiskTime::ZERO, "others have the disk for a time");
        if time == DiskTime::ZERO {
            return DiskTime::ZERO;
        }
        let share = self.reserve.share().ppb();
        let others = (Share::ALL.ppb() - share).max(1);
        let earned = i128::from(time.as_nanos()) * i128::from(share) / i128::from(others);
        debug_assert!(earned >= 0, "a reserve earns no less than nothing");
        let earned = DiskTime::from_nanos(i64::try_from(earned).unwrap_or(i64::MAX));
        earned.min(self.reserve_cap())
    }

    /// The share that pays for the volume's requests; half of the disk without a reserve.
    pub(super) fn paying_share(&self) -> Share {
        if self.has_reserve() { self.reserve.share() } else { Share::from_percent(50) }
    }

    /// When the reserve holds `amount`, if `other` of wall time accrues besides.
    pub(super) fn holds_with(&self, amount: DiskTime, other: Share) -> Option<SignedInstant> {
        debug_assert!(amount >= DiskTime::ZERO, "a bucket holds no less than nothing");
        self.reserve.holds_with(amount, other)
    }

    /// Lowers the level of the reserve to `most`, if it is higher.
    pub(super) fn forfeit_above(&mut self, most: DiskTime, now: Instant) {
        self.reserve.forfeit_above(most, now);
    }

    pub(super) fn reserve_level(&mut self, now: Instant) -> DiskTime {
        self.reserve.level(now)
    }

    pub(super) fn change_period(&mut self, period: Duration, now: Instant) {
        self.reserve.change_period(period, now);
        if let Some(limit) = &mut self.limit {
            limit.change_period(period, now);
        }
        let caps = (self.limit.as_ref().map(|limit| limit.cap()), self.reserve.cap());
        debug_assert!(
            caps.0.is_none_or(|limit| limit >= caps.1),
            "a limit is at least the reserve"
        );
    }

    pub(super) fn change_contract(&mut self, contract: Contract, period: Duration, now: Instant) {
        debug_assert!(contract.reserve <= contract.limit, "a limit is at least the reserve");
        self.usage = self.usage.reweighed(self.weight, contract.weight);
        self.weight = contract.weight;
        self.reserve.change(contract.reserve, period, now);
        match (&mut self.limit, limit_bucket(contract, period, now)) {
            (Some(limit), Some(_)) => limit.change(contract.limit, period, now),
            (limit, new) => *limit = new,
        }
        assert_eq!(self.limit.is_some(), contract.limit < Share::ALL, "a limit caps something");
    }

    /// Whether a head that costs `cost` may be served, on the reserve from its `turn` on;
    /// `in_service`: whether commands are in flight.
    #[expect(clippy::inline_always, reason = "a call costs 3 % of a request")]
    #[inline(always)]
    pub(super) fn eligibility(
        &mut self,
        (cost, turn): (DiskTime, Instant),
        in_service: bool,
        now: Instant,
    ) -> Eligibility {
        debug_assert!(cost >= DiskTime::ZERO, "a command gives no disk time back");
        self.reserve.set_has_work(self.state != State::Empty || in_service, now);
        if self.state == State::Empty {
            return Eligibility::Empty;
        }
        let deadline = self.reserve.holds_at(cost);
        debug_assert_eq!(deadline.is_some(), self.has_reserve(), "a reserve gives a deadline");
        // A turn that has come leaves the order of deadlines, which may lie before the epoch.
        let turn_at = SignedInstant::at(turn);
        let deadline = deadline.map(|at| if turn > now { at.max(turn_at) } else { at });
        let is_paid = deadline.is_some() && turn <= now && self.reserve.level(now) >= cost;
        // The limit caps what a volume takes from the slack (RTAS 2008 §3); its reserve is exempt.
        if let Some(limit) = &mut self.limit
            && !is_paid
            && limit.level(now) < ELIGIBLE_ABOVE
        {
            let until = limit.holds_at(ELIGIBLE_ABOVE).expect("a limit is above zero");
            let at = deadline.map_or(until, |deadline| deadline.min(until));
            debug_assert!(at > SignedInstant::at(now), "a throttled volume is not eligible yet");
            return Eligibility::Throttled(at);
        }
        deadline.map_or(Eligibility::BestEffort, Eligibility::Due)
    }

    /// Debits what a guarantee by deadlines took from the reserve alone: it is no slack.
    pub(super) fn debit_reserve(&mut self, took: DiskTime, now: Instant) {
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        self.reserve.take(took, now);
    }

    /// Debits what a volume without a reserve took in the rotational waits of others.
    pub(super) fn take_of_limit(&mut self, took: DiskTime, now: Instant) {
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        if let Some(limit) = &mut self.limit {
            limit.take(took, now);
        }
    }

    /// Debits an estimate from both buckets.
    pub(super) fn debit(&mut self, estimate: DiskTime, now: Instant) {
        debug_assert!(estimate >= DiskTime::ZERO, "an estimate is not negative: {estimate}");
        self.reserve.take(estimate, now);
        if let Some(limit) = &mut self.limit {
            limit.take(estimate, now);
        }
    }

    /// Replaces a debited estimate by the actual service time; `slack_debt`: the deepest debt that
    /// it leaves the reserve, if it was slack.
    pub(super) fn settle(
        &mut self,
        slack_debt: Option<DiskTime>,
        (estimate, actual): (DiskTime, DiskTime),
        now: Instant,
    ) {
        debug_assert!(actual >= DiskTime::ZERO, "a service time is not negative: {actual}");
        if let Some(debt_max) = slack_debt {
            self.reserve.settle_slack(debt_max, (estimate, actual), now);
        } else {
            self.reserve.take(actual - estimate, now);
        }
        if let Some(limit) = &mut self.limit {
            limit.take(actual - estimate, now);
        }
    }

    /// Gives a debited estimate back to the reserve, which does not pay for slack; the limit pays.
    pub(super) fn settle_unpaid(&mut self, (estimate, actual): (DiskTime, DiskTime), now: Instant) {
        debug_assert!(actual >= DiskTime::ZERO, "a service time is not negative: {actual}");
        self.reserve.take(-estimate, now);
        if let Some(limit) = &mut self.limit {
            limit.take(actual - estimate, now);
        }
    }

    /// Counts disk time towards the recent usage.
    pub(super) fn spend(&mut self, amount: DiskTime, now: Instant, clock: &DecayClock) {
        self.usage.spend((amount, self.weight), now, clock);
    }

    pub(super) fn scale_back(&mut self, halvings: u32) {
        self.usage = self.usage.scaled_back(halvings);
    }
}

/// The limit bucket of a contract. A limit of the whole limits nothing. Any other bucket begins
/// empty: a reserve is guaranteed from the start, exceeding it is not.
fn limit_bucket(contract: Contract, period: Duration, now: Instant) -> Option<Box<Bucket>> {
    debug_assert!(!contract.limit.is_none(), "a limit lets some requests through");
    (contract.limit < Share::ALL)
        .then(|| Box::new(Bucket::new(contract.limit, period, DiskTime::ZERO, now)))
}

/// The orders in which volumes are served.
#[derive(Debug)]
pub(super) struct ShareOrders {
    /// Ready volumes with a reserve, by the deadline of their head.
    pub(super) deadlines: IndexedHeap<SignedInstant>,
    /// Ready volumes, by recent usage: the order in which slack is given.
    by_usage: IndexedHeap<RecentUsage>,
    /// Throttled volumes, by the instant at which their limit or their reserve makes them eligible.
    throttled: IndexedHeap<SignedInstant>,
    pub(super) clock: DecayClock,
}

impl ShareOrders {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            deadlines: IndexedHeap::new(),
            by_usage: IndexedHeap::new(),
            throttled: IndexedHeap::new(),
            clock: DecayClock::new(now),
        }
    }

    /// Enters `volume` into the orders that `eligibility` calls for, and notes its state.
    pub(super) fn place(
        &mut self,
        volume: VolumeId,
        eligibility: Eligibility,
        account: &mut ShareAccount,
    ) {
        let (due, throttled, state) = match eligibility {
            Eligibility::Empty => (None, None, State::Empty),
            Eligibility::BestEffort => (None, None, State::Ready),
            Eligibility::Due(deadline) => (Some(deadline), None, State::Ready),
            Eligibility::Throttled(until) => (None, Some(until), State::Throttled),
            Eligibility::Full => (None, None, State::Full),
        };
        let put = |heap: &mut IndexedHeap<SignedInstant>, at: Option<SignedInstant>| match at {
            Some(at) => heap.set(volume, at),
            None => heap.remove(volume),
        };
        put(&mut self.deadlines, due);
        put(&mut self.throttled, throttled);
        account.state = state;
        if state == State::Ready {
            self.by_usage.set(volume, account.usage);
        } else {
            self.by_usage.remove(volume);
        }
        if cfg!(debug_assertions) {
            self.invariants_of(volume, account);
        }
    }

    /// A throttled volume that is eligible by `now`; the caller places it.
    pub(super) fn next_released(&self, now: Instant) -> Option<VolumeId> {
        let (at, volume) = self.throttled.first()?;
        debug_assert!(!self.by_usage.contains(volume), "a throttled volume is not ready");
        (at <= SignedInstant::at(now)).then_some(volume)
    }

    /// When the next throttled volume becomes eligible.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.throttled.first().map(|(at, _)| at.instant())
    }

    /// The volume with the earliest deadline, if that has passed.
    pub(super) fn due(&self, now: Instant) -> Option<VolumeId> {
        let (deadline, volume) = self.deadlines.first()?;
        debug_assert!(self.by_usage.contains(volume), "a volume with a deadline is ready");
        (deadline <= SignedInstant::at(now)).then_some(volume)
    }

    /// The ready volume with the lowest recent usage: the next one to receive slack.
    pub(super) fn least_used(&self) -> Option<VolumeId> {
        let volume = self.by_usage.first().map(|(_, volume)| volume);
        let is_throttled = |volume| self.throttled.contains(volume);
        debug_assert!(!volume.is_some_and(is_throttled), "a ready volume is not throttled");
        volume
    }

    /// Up to `count` of the ready volumes, the one with the lowest recent usage among them.
    pub(super) fn early_used(&self, count: usize) -> impl Iterator<Item = VolumeId> + '_ {
        debug_assert!(count > 0, "the first is early");
        self.by_usage.early(count).map(|(_, volume)| volume)
    }

    /// Whether the recent usage of an account, and this much more, is less than that of `other`.
    pub(super) fn is_behind(
        &self,
        (account, more): (&ShareAccount, DiskTime),
        other: &ShareAccount,
        now: Instant,
    ) -> bool {
        let mut usage = account.usage;
        usage.spend((more, account.weight), now, &self.clock);
        debug_assert!(usage >= account.usage, "usage grows");
        usage < other.usage
    }

    /// The number of ready volumes.
    pub(super) fn ready(&self) -> usize {
        self.by_usage.len()
    }

    pub(super) fn has_ready(&self) -> bool {
        debug_assert!(
            self.deadlines.len() <= self.by_usage.len(),
            "a deadline is a ready volume's"
        );
        self.by_usage.len() > 0
    }

    /// Scales the usage of all volumes back, if that is due. The caller scales the accounts by the
    /// returned number of halvings.
    pub(super) fn rescale_due(&mut self, now: Instant) -> Option<u32> {
        let halvings = self.clock.rescale_due(now)?;
        debug_assert!(halvings > 0, "usage is scaled back by some half-lives");
        self.scale_back(halvings);
        Some(halvings)
    }

    /// Kept apart from what is asked with each command.
    #[cold]
    #[inline(never)]
    fn scale_back(&mut self, halvings: u32) {
        self.by_usage.rescale(|usage| usage.scaled_back(halvings));
    }

    /// Panics if `volume` is not in the orders that its state calls for.
    pub(super) fn invariants_of(&self, volume: VolumeId, account: &ShareAccount) {
        let is_ready = account.state == State::Ready;
        let is_throttled = account.state == State::Throttled;
        assert_eq!(self.by_usage.contains(volume), is_ready, "ready volumes are in usage order");
        assert_eq!(self.throttled.contains(volume), is_throttled, "throttled volumes wait");
        let has_deadline = is_ready && account.has_reserve();
        assert_eq!(self.deadlines.contains(volume), has_deadline, "a reserve gives a deadline");
    }
}
