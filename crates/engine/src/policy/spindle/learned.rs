//! What is learned of a volume: service times, switching costs, and its client's think time.
//!
//! All means are exponentially weighted and signed, in integers: one sequence of completions gives
//! one state on every machine.

use units::{DiskTime, Duration, Sectors, Share};

/// The EWMA divisor of service times and switching costs.
pub(super) const SERVICE_DIVISOR: i64 = 16;
/// The EWMA divisor of think times.
const THINK_DIVISOR: i64 = 8;
/// The EWMA divisor of what a quantum spends.
pub(super) const QUANTUM_DIVISOR: i64 = 4;
/// The longest think time that is learned. A longer one is the end of a phase.
const THINK_MAX: Duration = Duration::from_secs(1);
/// The EWMA divisor of the requests that a client keeps.
const KEPT_DIVISOR: i64 = 128;
/// The EWMA divisor of the lengths of requests, and a sector, as a mean of lengths.
const LENGTH_DIVISOR: i64 = 16;
const FRACTION: i64 = 1 << 8;
/// One, as a probability.
const CERTAIN: i64 = 1 << 16;

/// A mean. A volume has many of them, and is cold when it is served: each is one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mean(i64);

impl Default for Mean {
    /// The value before the first sample, which no sample has.
    fn default() -> Self {
        Self(i64::MIN)
    }
}

/// `value / divisor`, by a shift if the divisor is a power of two.
fn part(value: i64, divisor: i64) -> i64 {
    debug_assert!(divisor > 0, "nothing is divided by zero");
    if !divisor.unsigned_abs().is_power_of_two() {
        return value / divisor;
    }
    // Rounded towards zero, as a division is.
    let up = (value >> 63) & (divisor - 1);
    (value + up) >> divisor.trailing_zeros()
}

impl Mean {
    /// A time as a sample, of which a part counts. The divisor is a constant: each command has
    /// several means, and a division takes ten times as long as a shift.
    pub(super) fn learn<const DIVISOR: i64>(&mut self, sample: DiskTime) {
        debug_assert!(DIVISOR > 0, "a mean has a memory");
        self.learn_value::<DIVISOR>(sample.as_nanos());
    }

    fn learn_value<const DIVISOR: i64>(&mut self, sample: i64) {
        debug_assert!(sample != i64::MIN, "a sample is a value");
        let mean = self.value().unwrap_or(sample);
        self.0 = mean + (sample - mean) / DIVISOR;
    }

    /// The same with a divisor that is known here alone.
    pub(super) fn learn_part(&mut self, sample: DiskTime, divisor: i64) {
        debug_assert!(divisor > 0, "a mean has a memory");
        let mean = self.time().unwrap_or(sample);
        self.0 = mean.as_nanos() + part((sample - mean).as_nanos(), divisor);
    }

    fn value(self) -> Option<i64> {
        (self != Self::default()).then_some(self.0)
    }

    /// The mean of times; `None` before the first sample.
    pub(super) fn time(self) -> Option<DiskTime> {
        self.value().map(DiskTime::from_nanos)
    }
}

/// The service times of a volume's commands, and the cost of serving it between others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceTimes {
    service: Mean,
    /// The excess of the first command after a switch to the volume.
    arrival: Mean,
    /// The excess of the next volume's first command after a switch away from it.
    departure: Mean,
    /// What it cost to end the writes of another volume early for it.
    early_end: Mean,
    /// What a quantum spends that its client ends.
    quantum: Mean,
}

impl ServiceTimes {
    /// The mean service time of a command within a quantum; `None` if it is unknown.
    pub(super) fn service(&self) -> Option<DiskTime> {
        self.service.time()
    }

    /// The excess of the first command of a quantum, at least zero.
    pub(super) fn arrival(&self) -> DiskTime {
        self.arrival.time().unwrap_or_default().max(DiskTime::ZERO)
    }

    /// The excess of the first command of the volume that is served next, at least zero.
    pub(super) fn departure(&self) -> DiskTime {
        self.departure.time().unwrap_or_default().max(DiskTime::ZERO)
    }

    /// What ending the writes of another volume early costs in the mean of its quanta.
    pub(super) fn early_end(&self) -> DiskTime {
        let cost = self.early_end.time().unwrap_or_default();
        debug_assert!(cost >= DiskTime::ZERO, "an early end gives no disk time: {cost}");
        cost
    }

    /// The cost of a quantum between two commands of another volume.
    pub(super) fn switch(&self) -> DiskTime {
        let cost = self.arrival() + self.departure() + self.early_end();
        debug_assert!(self.arrival() >= DiskTime::ZERO, "a positioning gives no disk time");
        debug_assert!(cost >= DiskTime::ZERO, "a switch gives no disk time");
        cost
    }

    /// The disk time of a quantum that the client ends; `None` if it is unknown.
    pub(super) fn quantum(&self) -> Option<DiskTime> {
        self.quantum.time()
    }

    pub(super) fn learn_service(&mut self, took: DiskTime) {
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        self.service.learn::<SERVICE_DIVISOR>(took);
    }

    pub(super) fn learn_arrival(&mut self, excess: DiskTime) {
        self.arrival.learn::<SERVICE_DIVISOR>(excess);
    }

    pub(super) fn learn_departure(&mut self, excess: DiskTime) {
        self.departure.learn::<SERVICE_DIVISOR>(excess);
    }

    pub(super) fn learn_early_end(&mut self, cost: DiskTime) {
        assert!(cost >= DiskTime::ZERO, "an early end gives no disk time: {cost}");
        self.early_end.learn::<SERVICE_DIVISOR>(cost);
    }

    pub(super) fn learn_quantum(&mut self, spent: DiskTime) {
        assert!(spent >= DiskTime::ZERO, "a quantum spends no less than nothing: {spent}");
        self.quantum.learn::<QUANTUM_DIVISOR>(spent);
    }
}

/// The requests that a client keeps: those of its volume that are outstanding with each that it
/// sends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeptRequests(Mean);

impl KeptRequests {
    /// A request is sent, and with it this many are outstanding.
    pub(super) fn learn(&mut self, outstanding: u32) {
        debug_assert!(outstanding > 0, "the request that is sent is outstanding");
        self.0.learn_value::<KEPT_DIVISOR>(i64::from(outstanding) * CERTAIN);
    }

    /// Whether they are more than two, in the mean.
    pub(super) fn are_several(self) -> bool {
        self.0.value().is_some_and(|mean| mean > 2 * CERTAIN)
    }
}

/// The length of a client's requests, in the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths(Mean);

impl Lengths {
    /// A request of this length is sent.
    pub(super) fn learn(&mut self, length: Sectors) {
        let length = i64::try_from(length.0).expect("a request is bounded");
        debug_assert!(length >= 0, "a length is not negative");
        self.0.learn_value::<LENGTH_DIVISOR>(length * FRACTION);
    }

    /// Their mean; zero before the first.
    pub(super) fn mean(self) -> Sectors {
        let mean = self.0.value().unwrap_or_default();
        debug_assert!(mean >= 0, "nor is the mean of lengths");
        Sectors(u64::try_from(mean / FRACTION).unwrap_or_default())
    }
}

/// The number of waiting times among which the best is chosen.
const WAITS: usize = 4;

/// The think time of a volume's client: from the completion that leaves no request to the next
/// arrival.
///
/// The mean comes last: a volume has it in one cache line with what follows.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct ThinkTime {
    /// For each waiting time: the probability, of [`CERTAIN`], that the next request arrives within
    /// it, and the mean of the time waited.
    arrives: [Mean; WAITS],
    waited: [Mean; WAITS],
    mean: Mean,
}

/// What the decision to wait depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitTerms {
    /// The share by which waiting is paid.
    pub(super) share: Share,
    pub(super) times: ServiceTimes,
    /// What a switch to the volume and back counts for.
    pub(super) switch: DiskTime,
    /// The mean service time of all commands of the disk.
    pub(super) other_service: DiskTime,
    /// The longest waiting time.
    pub(super) linger: Duration,
}

impl ThinkTime {
    /// The waiting times: the longest, and fractions of it.
    fn wait(index: usize, linger: Duration) -> Duration {
        const DIVISORS: [u64; WAITS] = [16, 4, 2, 1];
        Duration::from_nanos(linger.as_nanos() / DIVISORS[index])
    }

    /// The mean think time; `None` if it is unknown.
    pub(super) fn mean(&self) -> Option<Duration> {
        let nanos = self.mean.value()?;
        Some(Duration::from_nanos(u64::try_from(nanos).expect("a think time is not negative")))
    }

    pub(super) fn learn(&mut self, think: Duration, linger: Duration) {
        let think = think.min(THINK_MAX);
        debug_assert!(linger <= crate::limits::LINGER_MAX, "waiting is bounded: {linger}");
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).expect("at most a second");
        self.mean.learn_value::<THINK_DIVISOR>(nanos(think));
        for index in 0..WAITS {
            let wait = Self::wait(index, linger);
            let arrives = if think <= wait { CERTAIN } else { 0 };
            self.arrives[index].learn_value::<THINK_DIVISOR>(arrives);
            self.waited[index].learn_value::<THINK_DIVISOR>(nanos(think.min(wait)));
        }
    }

    /// How long the disk idles for the volume's next request: the waiting time that gives the
    /// volume the highest rate, if that rate is higher by a twentieth than without waiting. `None`
    /// if it is not, or if nothing is known.
    ///
    /// A volume's rate is bounded by what its share pays for and by the time a request takes; the
    /// larger of the two times per request counts. Without waiting each request pays a switch, and
    /// waits for the rest of another volume's command.
    pub(super) fn best_wait(&self, terms: WaitTerms) -> Option<Duration> {
        let think = self.mean.value()?;
        debug_assert!(think >= 0, "a think time is not negative");
        debug_assert!(terms.other_service >= DiskTime::ZERO, "nor is a service time");
        let service = terms.times.service()?.as_nanos();
        let switch = terms.switch.as_nanos();
        let other = terms.other_service.as_nanos();
        let blocked = (other / 2).max(other - think);
        let paid = |cost: i64| {
            let ppb = i128::from(terms.share.ppb().max(1));
            i64::try_from(i128::from(cost) * i128::from(Share::ALL.ppb()) / ppb).unwrap_or(i64::MAX)
        };
        let arrival = terms.times.arrival().as_nanos();
        let leave = paid(service + switch).max(think + service + arrival + blocked);
        let stay = |index: usize| {
            let (arrives, waited) = (self.arrives[index].value()?, self.waited[index].value()?);
            let absent = CERTAIN - arrives;
            let part = |cost: i64| cost / CERTAIN * absent + cost % CERTAIN * absent / CERTAIN;
            let charged = paid(service + waited + part(switch));
            Some(charged.max(think + service + part(blocked)))
        };
        let best = (0..WAITS).filter_map(|index| Some((stay(index)?, index))).min()?;
        let (time, index) = best;
        debug_assert!(time >= 0, "a time per request is not negative");
        (time + time / 20 < leave).then(|| Self::wait(index, terms.linger))
    }
}
