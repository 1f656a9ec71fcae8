//! A closed loop of commands: so many outstanding, a new one for each that ends.

use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, Halt};
use crate::findings::Reason;
use crate::target::{Completion, Outcome, Tag};

/// Where commands go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Each behind the one before it.
    Sequential,
    /// Anywhere.
    Random,
}

/// A sequence of places.
#[derive(Debug)]
pub(super) struct Places {
    access: Access,
    len: Sectors,
    /// Places of this length on the device.
    count: u64,
    next: u64,
}

impl Places {
    /// Places of `len` on a device of so many sectors; random ones differ from those of another `stream`.
    pub(super) fn new(access: Access, len: Sectors, sectors: Sectors, stream: u64) -> Self {
        let count = (sectors.0 / len.0).max(1);
        let next = match access {
            Access::Sequential => mixed(stream) % count,
            Access::Random => stream << 32,
        };
        Self { access, len, count, next }
    }

    /// The next place.
    pub(super) fn take(&mut self) -> Extent {
        let nth = match self.access {
            Access::Sequential => self.next % self.count,
            Access::Random => mixed(self.next) % self.count,
        };
        self.next = self.next.wrapping_add(1);
        Extent::new(Lba(nth * self.len.0), self.len)
    }
}

/// The bits of a number, mixed until no neighbours look alike (Steele, Lea and Flood, Fast splittable pseudorandom number
/// generators, 2014: `SplitMix`'s output function).
const fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// How a loop ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    /// After so long.
    pub(super) time: Duration,
    /// Or after so many commands.
    pub(super) commands: usize,
}

/// What a loop saw.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) began: Instant,
    /// In the order in which they were noticed; those that failed are left out.
    pub(super) done: Vec<Completion>,
    /// Where each of them was.
    pub(super) places: Vec<Lba>,
}

impl Loaded {
    /// The latencies.
    pub(super) fn latencies(&self) -> Vec<Duration> {
        self.done.iter().map(|done| done.completed.since(done.submitted)).collect()
    }

    /// The mean time between two ends. What was outstanding when no more was asked for does not count: nothing took the
    /// place of what ended.
    pub(super) fn interval(&self) -> Option<Duration> {
        let (first, last) = (self.done.first()?, self.done.last()?);
        let more = u64::try_from(self.done.len()).ok()?.checked_sub(1).filter(|more| *more > 0)?;
        Some(last.completed.since(first.completed) / more)
    }
}

/// Keeps `depth` commands out of `operations` at the drive.
///
/// # Errors
/// As [`Bench::check`]; nothing is outstanding then.
pub(super) fn load(
    bench: &mut Bench<'_>,
    depth: u32,
    until: Until,
    mut operations: impl FnMut() -> Operation,
) -> Result<Loaded, Halt> {
    let began = bench.now();
    let end = began + until.time;
    let depth = depth.clamp(1, bench.depth_max());
    let mut loaded = Loaded { began, done: Vec::new(), places: Vec::new() };
    let mut under_way = Vec::new();
    let mut asked = 0;
    let mut more = |bench: &mut Bench<'_>, under_way: &mut Vec<(Tag, Lba)>| {
        if asked == until.commands {
            return Ok(());
        }
        asked += 1;
        let operation = operations();
        let (tag, _) = bench.submit(operation).inspect_err(|_| bench.drain())?;
        under_way.push((tag, operation.extent.start));
        Ok(())
    };
    for _ in 0..depth {
        more(bench, &mut under_way)?;
    }
    while bench.outstanding() > 0 {
        let completion = bench.complete();
        let known = under_way.iter().position(|(tag, _)| *tag == completion.tag);
        let (_, lba) = under_way.swap_remove(known.expect("it was submitted"));
        if completion.outcome == Outcome::Failed {
            bench.outlier(lba, Reason::Failed);
        } else {
            loaded.done.push(completion);
            loaded.places.push(lba);
        }
        if completion.completed >= end {
            break;
        }
        more(bench, &mut under_way)?;
    }
    bench.drain();
    Ok(loaded)
}

/// Loads it with reads.
///
/// # Errors
/// As [`load`].
pub(super) fn read(
    bench: &mut Bench<'_>,
    depth: u32,
    until: Until,
    places: &mut Places,
) -> Result<Loaded, Halt> {
    load(bench, depth, until, || Operation::read(places.take()))
}

/// Rests for so long.
///
/// # Errors
/// As [`Bench::check`].
pub(super) fn rest(bench: &mut Bench<'_>, time: Duration) -> Result<(), Halt> {
    bench.check()?;
    let until = bench.now() + time;
    bench.wait_until(until);
    Ok(())
}

/// Looks at the clock so often, to see how often somebody else has the processor.
const LOOKS: u32 = 1 << 19;
/// But for no longer, and for no more than this part of what a stage has left.
const LOOKS_TIME: Duration = Duration::from_secs(1);
const LOOKS_PART: u64 = 16;
/// Whoever sees so much of the clock pass at once was not there meanwhile.
const ABSENT: Duration = Duration::from_micros(500);

/// The percentage of the time for which whoever is busy here is kept waiting for a processor.
pub(super) fn absent_percent(bench: &mut Bench<'_>) -> u64 {
    let most = LOOKS_TIME.min(bench.left() / LOOKS_PART);
    let began = bench.now();
    let (mut last, mut absent) = (began, Duration::ZERO);
    for _ in 0..LOOKS {
        let now = bench.now();
        let passed = now.since(last);
        if passed > ABSENT {
            absent += passed;
        }
        last = now;
        if last.since(began) > most {
            break;
        }
    }
    let all = last.since(began).as_nanos();
    (absent.as_nanos() * 100).checked_div(all).unwrap_or(0)
}
