//! The costs of switching between volumes, and the division of that cost.
//!
//! A quantum of a *shallow* volume between two commands of another costs positioning there and
//! back. It is paid at its start, at the learned mean: all volumes pay a part in proportion to
//! their disk time, as long as such costs stay below an eighth of the disk's time; the rest
//! is paid by the volume that is served. The commands that bear the positioning are charged without
//! it.
//!
//! A deep volume's return to the disk after a quantum of another deep volume is shared by all
//! (Zygaria, RTAS 2008 §2.2). Deep quanta are long: of a cost that is spread over less than a round
//! of them the returning volume would pay most, in its own quantum.
//!
//! Invariants: what is charged, and [`SwitchLedger::uncharged`], add up to what commands took; the
//! shared cost that is not charged yet is at most one period's worth, of either sign.

use units::{DiskTime, Duration, Instant, Share};

use super::learned::Mean;

/// All volumes pay for switches up to the disk's time divided by this.
const SHARED_DIVISOR: u32 = 8;
/// The same as a share.
pub(super) const SHARED: Share = Share::from_ppb(Share::ALL.ppb() / SHARED_DIVISOR);
/// The most that accrues of it.
const ALLOWANCE_MAX: DiskTime = DiskTime::from_millis(40);
/// The time constant with which shared costs are charged: 100 ms, in µs² a nanosecond.
const SPREAD: i64 = 100;
/// The same of the returns of deep volumes: a round of two of their longest quanta.
pub(super) const RETURNS_SPREAD: i64 = 666;

/// Of what it costs to end a write early all volumes pay at most this part, as one in a number: the
/// volume for which it is ended chooses how often. With nothing of it 30 % of hgst-7k8 with two
/// writes and a flush at a time and pauses of 3 ms has 0.76 of its worth beside sequential writes,
/// and these 0.89 of theirs; with all of it 0.88 and 0.78.
const EARLY_END_BY_ALL: i64 = 3;
/// The most that is paid for one positioning: with two of them, half of the shortest period.
const POSITIONING_MAX: DiskTime = DiskTime::from_millis(25);
/// The EWMA divisor of the cost of a switch.
const SWITCHES: i64 = 32;

/// A switch whose cost is paid and has not arisen yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prepaid(DiskTime);

/// The shared costs of a disk.
#[derive(Debug)]
pub(super) struct SwitchLedger {
    /// Costs that all volumes are to be charged; negative if they were charged too much.
    shared: DiskTime,
    /// The costs of deep volumes' returns that all volumes are to be charged; not negative.
    returns: DiskTime,
    /// The sum of all [`Prepaid`].
    prepaid: DiskTime,
    /// What volumes have paid and were not reported to have been charged.
    unreported: DiskTime,
    allowance: DiskTime,
    /// What a volume pays itself of a switch.
    own_part: Mean,
    at: Instant,
    shared_max: DiskTime,
}

impl SwitchLedger {
    pub(super) fn new(period: Duration, now: Instant) -> Self {
        assert!(period > Duration::ZERO, "costs are spread over a period");
        Self {
            shared: DiskTime::ZERO,
            returns: DiskTime::ZERO,
            prepaid: DiskTime::ZERO,
            unreported: DiskTime::ZERO,
            allowance: ALLOWANCE_MAX,
            own_part: Mean::default(),
            at: now,
            shared_max: period.into(),
        }
    }

    pub(super) fn change_period(&mut self, period: Duration) {
        assert!(period > Duration::ZERO, "costs are spread over a period");
        self.shared_max = self.shared.max(-self.shared).max(self.returns).max(period.into());
        assert!(self.shared_max >= period.into(), "at least a period's worth is shared");
    }

    /// What commands took and no volume has been reported to be charged yet; negative if more was
    /// reported.
    pub(super) fn uncharged(&self) -> DiskTime {
        self.shared + self.returns - self.prepaid + self.unreported
    }

    /// What all volumes pay of the next switch.
    pub(super) fn allowance(&mut self, now: Instant) -> DiskTime {
        if now != self.at {
            let earned = now.since(self.at).as_nanos() / u64::from(SHARED_DIVISOR);
            let earned = DiskTime::from_nanos(i64::try_from(earned).unwrap_or(i64::MAX / 2));
            self.at = now;
            self.allowance = (self.allowance + earned).min(ALLOWANCE_MAX);
        }
        debug_assert!(self.allowance >= DiskTime::ZERO, "an allowance is not negative");
        self.allowance
    }

    /// Pays a switch there and back. Returns the two parts, and what the volume pays itself.
    pub(super) fn pay(
        &mut self,
        (arrival, departure, early_end): (DiskTime, DiskTime, DiskTime),
        now: Instant,
    ) -> (Prepaid, Prepaid, DiskTime) {
        let overpaid = self.shared.as_nanos() <= -self.shared_max.as_nanos() / 2;
        let most = if overpaid { DiskTime::ZERO } else { POSITIONING_MAX };
        let (arrival, departure) = (arrival.min(most), departure.min(most));
        let cost = arrival + departure;
        assert!(cost >= DiskTime::ZERO, "a switch gives no disk time");
        let early_end = early_end.min(most);
        let whole = cost + early_end;
        let by_all = self.allowance(now).min(cost + part_by_all(early_end));
        self.allowance -= by_all;
        // Each switch costs the volume the mean: where a volume lies is not its choice.
        self.own_part.learn::<SWITCHES>(whole - by_all);
        let least = cost - (self.shared_max - self.shared).max(DiskTime::ZERO);
        let most = cost + self.shared_max + self.shared;
        let own = self.own_part().min(most).max(least).max(DiskTime::ZERO);
        self.shared += cost - own;
        self.prepaid += cost;
        self.unreported += own;
        (Prepaid(arrival), Prepaid(departure), own)
    }

    /// All volumes pay what it `cost` to end a write early for another volume, which pays its part
    /// of that with its switch. Returns the rest.
    pub(super) fn share_early_end(&mut self, cost: DiskTime) -> DiskTime {
        assert!(cost >= DiskTime::ZERO, "an early end gives no disk time");
        let room = self.shared_max - self.shared - self.returns;
        let by_all = cost.min(room.max(DiskTime::ZERO));
        self.shared += by_all;
        debug_assert!(by_all <= cost, "no more than the cost is shared");
        cost - by_all
    }

    /// The mean of what volumes pay themselves of a switch.
    pub(super) fn own_part(&self) -> DiskTime {
        self.own_part.time().unwrap_or_default()
    }

    /// Notes that a volume was reported to be charged what it paid.
    pub(super) fn reported(&mut self, paid: DiskTime) {
        self.unreported -= paid;
        assert!(self.unreported >= DiskTime::ZERO, "only what was paid is reported");
    }

    /// A command that took `took` bears the switch: what its volume is charged for it. What was
    /// paid too much goes back to all.
    pub(super) fn arises(&mut self, prepaid: Prepaid, took: DiskTime) -> DiskTime {
        let Prepaid(paid) = prepaid;
        let used = paid.min(took);
        debug_assert!(paid >= DiskTime::ZERO, "what was paid is not negative: {paid}");
        debug_assert!(took >= DiskTime::ZERO, "nor is a service time: {took}");
        self.prepaid -= paid;
        self.shared -= paid - used;
        assert!(self.prepaid >= DiskTime::ZERO, "a switch arises once");
        took - used
    }

    /// The switch did not cost anything.
    pub(super) fn refund(&mut self, prepaid: Prepaid) {
        let rest = self.arises(prepaid, DiskTime::ZERO);
        debug_assert_eq!(rest, DiskTime::ZERO, "nothing is charged for nothing");
    }

    /// All volumes pay the `cost` of a deep volume's return, up to what one period holds beside
    /// other shared costs. Returns the rest.
    pub(super) fn share_return(&mut self, cost: DiskTime) -> DiskTime {
        assert!(cost >= DiskTime::ZERO, "a switch gives no disk time");
        let room = self.shared_max - self.returns - self.shared.max(DiskTime::ZERO);
        let by_all = cost.min(room.max(DiskTime::ZERO));
        self.returns += by_all;
        debug_assert!(by_all <= cost, "no more than the cost is shared");
        cost - by_all
    }

    /// The charge of a command or of idle time that is worth `own` by itself: with its part of the
    /// shared costs, in proportion.
    pub(super) fn charge(&mut self, own: DiskTime) -> DiskTime {
        assert!(own >= DiskTime::ZERO, "a service time is not negative: {own}");
        if self.shared == DiskTime::ZERO && self.returns == DiskTime::ZERO {
            return own;
        }
        let part = part_of(own, self.shared, SPREAD);
        // At most all of it, and at most what the command is worth.
        let part = if self.shared >= DiskTime::ZERO {
            part.min(self.shared)
        } else {
            part.max(self.shared).max(-own)
        };
        self.shared -= part;
        let returns = self.returns_of(own);
        self.returns -= returns;
        let part = part + returns;
        assert!(own + part >= DiskTime::ZERO, "a charge is not negative");
        own + part
    }

    /// What commands that are worth `own` are charged together, as far as returns are concerned.
    pub(super) fn with_returns(&self, own: DiskTime) -> DiskTime {
        debug_assert!(own >= DiskTime::ZERO, "a service time is not negative: {own}");
        own + self.returns_of(own)
    }

    /// What a command that is worth `own` is charged of the returns; most disks have none.
    fn returns_of(&self, own: DiskTime) -> DiskTime {
        debug_assert!(self.returns >= DiskTime::ZERO, "a return costs no less than nothing");
        if self.returns == DiskTime::ZERO {
            return DiskTime::ZERO;
        }
        part_of(own, self.returns, RETURNS_SPREAD).min(self.returns)
    }

    pub(super) fn invariants(&self) {
        assert!(self.returns >= DiskTime::ZERO, "a return costs no less than nothing");
        assert!(self.returns <= self.shared_max, "returns are at most a period's worth");
        assert!(self.prepaid >= DiskTime::ZERO, "a prepaid cost is not negative");
        assert!(self.unreported >= DiskTime::ZERO, "nor is what was paid");
        assert!(self.shared <= self.shared_max, "shared costs are at most a period's worth");
        assert!(self.shared >= -self.shared_max, "of either sign");
    }
}

/// What all volumes pay at most of an early end that costs this much.
fn part_by_all(early_end: DiskTime) -> DiskTime {
    debug_assert!(early_end >= DiskTime::ZERO, "an early end gives no disk time: {early_end}");
    DiskTime::from_nanos(early_end.as_nanos() / EARLY_END_BY_ALL)
}

/// The part of a shared cost that a command of `own` is charged: in microseconds their product
/// fits, as both are at most some seconds.
fn part_of(own: DiskTime, shared: DiskTime, spread: i64) -> DiskTime {
    debug_assert!(spread > 0, "a cost is spread over a time");
    DiskTime::from_nanos(own.as_nanos() / 1_000 * (shared.as_nanos() / 1_000) / spread)
}
