//! A closed loop of commands: a constant number in flight, a new one for each completion.

use drive_profile::findings::AccessPattern;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, StopReason};
use crate::target::{Completion, Outcome, Tag};
use drive_profile::findings::OutlierReason;

/// A sequence of addresses.
#[derive(Debug)]
pub(crate) struct Addresses {
    access: AccessPattern,
    len: Sectors,
    /// The number of addresses, in units of the length.
    count: u64,
    next: u64,
}

impl Addresses {
    /// Addresses of `len` sectors on a device of `sectors` sectors. Random sequences differ by
    /// `stream`.
    pub(crate) fn new(access: AccessPattern, len: Sectors, sectors: Sectors, stream: u64) -> Self {
        let count = (sectors.0 / len.0).max(1);
        let next = match access {
            AccessPattern::Sequential => mixed(stream) % count,
            AccessPattern::Random => stream << 32,
        };
        Self { access, len, count, next }
    }

    /// The next address.
    pub(crate) fn take(&mut self) -> Extent {
        let nth = match self.access {
            AccessPattern::Sequential => self.next % self.count,
            AccessPattern::Random => mixed(self.next) % self.count,
        };
        self.next = self.next.wrapping_add(1);
        Extent::new(Lba(nth * self.len.0), self.len)
    }
}

/// A bit mixer (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014:
/// `SplitMix`'s output function).
const fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The end of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// After this time.
    pub(crate) time: Duration,
    /// Or after this number of commands.
    pub(crate) commands: usize,
}

/// The results of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) began: Instant,
    /// Completions in the order of their observation, without failed ones.
    pub(crate) done: Vec<Completion>,
    /// Their addresses.
    pub(crate) addresses: Vec<Lba>,
}

impl Loaded {
    /// Their latencies.
    pub(crate) fn latencies(&self) -> Vec<Duration> {
        self.done.iter().map(|done| done.completed.since(done.submitted)).collect()
    }

    /// The mean time between two completions. Commands in flight after the last submission do not
    /// count, because no command replaced the completed ones.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let (first, last) = (self.done.first()?, self.done.last()?);
        let more = u64::try_from(self.done.len()).ok()?.checked_sub(1).filter(|more| *more > 0)?;
        Some(last.completed.since(first.completed) / more)
    }
}

/// Keeps `depth` commands out of `operations` in flight.
///
/// # Errors
/// As [`Bench::check`]. Nothing is in flight then.
pub(crate) fn load(
    bench: &mut Bench<'_>,
    depth: u32,
    until: Until,
    mut operations: impl FnMut() -> Operation,
) -> Result<Loaded, StopReason> {
    let began = bench.now();
    let end = began + until.time;
    let depth = depth.clamp(1, bench.depth_max());
    let mut loaded = Loaded { began, done: Vec::new(), addresses: Vec::new() };
    let mut in_flight = Vec::new();
    let mut asked = 0;
    let mut more = |bench: &mut Bench<'_>, in_flight: &mut Vec<(Tag, Lba)>| {
        if asked == until.commands {
            return Ok(());
        }
        asked += 1;
        let operation = operations();
        let (tag, _) = bench.submit(operation).inspect_err(|_| bench.drain())?;
        in_flight.push((tag, operation.extent.start));
        Ok(())
    };
    for _ in 0..depth {
        more(bench, &mut in_flight)?;
    }
    while bench.outstanding() > 0 {
        let completion = bench.complete();
        let known = in_flight.iter().position(|(tag, _)| *tag == completion.tag);
        let (_, lba) = in_flight.swap_remove(known.expect("it was submitted"));
        if completion.outcome == Outcome::Failed {
            bench.outlier(lba, OutlierReason::Failed);
        } else {
            loaded.done.push(completion);
            loaded.addresses.push(lba);
        }
        if completion.completed >= end {
            break;
        }
        more(bench, &mut in_flight)?;
    }
    bench.drain();
    Ok(loaded)
}

/// Keeps `depth` reads in flight.
///
/// # Errors
/// As [`load`].
pub(crate) fn read(
    bench: &mut Bench<'_>,
    depth: u32,
    until: Until,
    addresses: &mut Addresses,
) -> Result<Loaded, StopReason> {
    load(bench, depth, until, || Operation::read(addresses.take()))
}

/// Waits for `time`.
///
/// # Errors
/// As [`Bench::check`].
pub(crate) fn rest(bench: &mut Bench<'_>, time: Duration) -> Result<(), StopReason> {
    bench.check()?;
    let until = bench.now() + time;
    bench.wait_until(until);
    Ok(())
}

/// The number of clock readings that detect missing processor time.
const READINGS: u32 = 1 << 19;
/// The most time of these readings, and the part of the stage's time, inverted.
const READINGS_TIME: Duration = Duration::from_secs(1);
const READINGS_PART: u64 = 16;
/// A gap between two clock readings in which the thread did not run.
const GAP_MIN: Duration = Duration::from_micros(500);

/// The share of the time in per cent for which a busy thread waits for a processor.
pub(crate) fn missing_processor_percent(bench: &mut Bench<'_>) -> u64 {
    let most = READINGS_TIME.min(bench.left() / READINGS_PART);
    let began = bench.now();
    let (mut last, mut missing) = (began, Duration::ZERO);
    for _ in 0..READINGS {
        let now = bench.now();
        let passed = now.since(last);
        if passed > GAP_MIN {
            missing += passed;
        }
        last = now;
        if last.since(began) > most {
            break;
        }
    }
    let all = last.since(began).as_nanos();
    (missing.as_nanos() * 100).checked_div(all).unwrap_or(0)
}
