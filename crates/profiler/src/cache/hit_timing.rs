//! What commands take that the drive's memory answers: an overhead, and the way of each sector over the bus.
//!
//! The middle of many times counts, as noise never makes a command end before it began, and the mean would be late. How
//! many it takes depends on the noise: they are timed until the middle is known well, or for so long.

use units::{Duration, Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::estimate::number::{MEDIAN_ERROR_FACTOR, duration, instant_ns, median, ns, real};
use crate::host_path::latency::PathLatency;
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;

/// The standard error that is enough, as a part of the middle. A chunk follows from an overhead, and whether a request of two
/// chunks is one command or two from a chunk's last sector.
const ENOUGH: f64 = 0.005;
/// Nobody needs to know better, in ns.
const ENOUGH_LEAST: f64 = 1_000.0;
/// How long the commands of one length are timed at most, by default and at a glance, in ns.
const TIME: [f64; 2] = [6e9, 0.5e9];
/// And how many of them there are at least.
const LEAST: usize = 200;
/// The longest command that is timed, in sectors.
const LONG: u64 = 256;
/// Reads of what is in memory in a row.
const READ_MAX: u64 = 512;
/// Sectors written in a row at first: they fit the smallest buffer.
const WRITTEN: u64 = 256;
/// And at most, where none of those before had to wait.
const WRITTEN_MAX: u64 = 1 << 14;
/// How much above the middle a time is no hit any more, in ns.
pub(crate) const MISS: f64 = 1_500_000.0;
/// Ways to the drive and back that are timed between bursts of commands.
const WAYS: u32 = 18;

/// Times of hits by their length: a line, height and slope in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HitTime {
    pub(crate) overhead: f64,
    pub(crate) sector: f64,
    /// Standard errors of both.
    pub(crate) errors: (f64, f64),
    pub(crate) samples: u32,
    /// What of the overhead is the path, as far as that could be timed.
    pub(crate) path: f64,
}

impl HitTime {
    /// What a hit of so many sectors takes.
    pub(crate) fn time(&self, len: Sectors) -> f64 {
        self.overhead + self.sector * real(len.0)
    }

    /// The line through two lengths.
    fn of(short: (Sectors, &TimeSamples), long: (Sectors, &TimeSamples)) -> Option<Self> {
        let samples = u32::try_from(short.1.all.len() + long.1.all.len()).unwrap_or(u32::MAX);
        let ((low, low_error), (high, high_error)) = (short.1.median()?, long.1.median()?);
        let run = real(long.0.0 - short.0.0);
        // Each beside its own path: what that was longer for one length is no sector's.
        let apart = short.1.path.median() - long.1.path.median();
        let sector = ((high - low + apart) / run).max(0.0);
        let error = (low_error * low_error + high_error * high_error).sqrt() / run;
        let overhead = (low - sector * real(short.0.0)).max(0.0);
        let path = short.1.path.median();
        Some(Self { overhead, sector, errors: (low_error, error), samples, path })
    }

    /// As figures: the drive's overhead, and a sector on the bus.
    pub(crate) fn figures(&self) -> (Figure<Duration>, Figure<Duration>) {
        let figure = |value: f64, error: f64| figure(value, error, self.samples);
        let own = (self.overhead - self.path).max(0.0);
        (figure(own, self.errors.0), figure(self.sector, self.errors.1))
    }
}

fn figure(value: f64, error: f64, samples: u32) -> Figure<Duration> {
    Figure {
        value: duration(value),
        spread: duration(error.max(1.0)),
        samples,
        confidence: Share::from_percent(95),
    }
}

/// Times of commands of one length.
#[derive(Debug)]
pub(crate) struct TimeSamples {
    all: Vec<f64>,
    /// What is above this had to wait; of so many times.
    late: f64,
    known: usize,
    /// Until when there is time for more.
    until: f64,
    path: PathLatency,
}

impl TimeSamples {
    /// None yet, and time for some from now on.
    pub(crate) fn begin(prober: &mut Prober<'_, '_>) -> Self {
        Self::begin_of(prober, 1)
    }

    /// The same of so many lengths in turn.
    fn begin_of(prober: &mut Prober<'_, '_>, lengths: u32) -> Self {
        let time = TIME[usize::from(prober.bench.budget().quick)] * f64::from(lengths);
        let until = instant_ns(prober.bench.now()) + time;
        Self { all: Vec::new(), late: f64::MAX, known: 0, until, path: PathLatency::default() }
    }

    /// Takes one in, and says whether it had to wait.
    pub(crate) fn push(&mut self, took: Duration) -> bool {
        self.all.push(ns(took));
        // The middle moves less and less.
        if self.all.len() > self.known + self.known / 4 {
            self.known = self.all.len();
            self.late = median(self.all.clone()).unwrap_or(0.0) + MISS;
        }
        ns(took) > self.late
    }

    /// Times the path some times, beside what it is in.
    pub(crate) fn way(&mut self, prober: &mut Prober<'_, '_>) -> Result<(), StopReason> {
        for _ in 0..WAYS {
            prober.time_path(&mut self.path)?;
        }
        Ok(())
    }

    /// Whether there are as many as it takes, or as there is time for.
    pub(crate) fn enough(&self, prober: &mut Prober<'_, '_>) -> bool {
        let known = |(middle, error): (f64, f64)| error < (ENOUGH * middle).max(ENOUGH_LEAST);
        instant_ns(prober.bench.now()) >= self.until
            || self.all.len() >= LEAST && self.median().is_some_and(known)
    }

    /// The middle, and its standard error.
    fn median(&self) -> Option<(f64, f64)> {
        let late = median(self.all.clone())? + MISS;
        let hits: Vec<f64> = self.all.iter().copied().filter(|time| *time < late).collect();
        let count = real(hits.len() as u64);
        let middle = median(hits.clone())?;
        let square = hits.iter().map(|time| (time - middle).powi(2)).sum::<f64>() / count;
        Some((middle, MEDIAN_ERROR_FACTOR * (square / count).sqrt()))
    }

    /// As a figure.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        let (middle, error) = self.median()?;
        Some(figure(
            (middle - self.path.median()).max(0.0),
            error,
            u32::try_from(self.all.len()).unwrap_or(u32::MAX),
        ))
    }
}

/// What a read that memory serves takes, from what is read ahead, of which there are `ahead` sectors.
pub(crate) fn reads(
    prober: &mut Prober<'_, '_>,
    ahead: Sectors,
) -> Result<Option<HitTime>, StopReason> {
    let block = prober.block();
    let long = Sectors((ahead.0 / 2).min(LONG) / block.0 * block.0);
    if long <= block {
        return Ok(None);
    }
    let mut short_times = TimeSamples::begin_of(prober, 2);
    let mut long_times = TimeSamples::begin_of(prober, 2);
    // In turn, so that the path is as long for one as for the other.
    loop {
        let enough = (short_times.enough(prober), long_times.enough(prober));
        if !enough.0 {
            read_some(prober, ahead, block, &mut short_times)?;
        }
        if !enough.1 {
            read_some(prober, ahead, long, &mut long_times)?;
        }
        if enough == (true, true) {
            return Ok(HitTime::of((block, &short_times), (long, &long_times)));
        }
    }
}

/// Times reads of a length, as many as there are in what is read ahead once.
fn read_some(
    prober: &mut Prober<'_, '_>,
    ahead: Sectors,
    len: Sectors,
    times: &mut TimeSamples,
) -> Result<(), StopReason> {
    let block = prober.block();
    let each = ((ahead.0 - block.0) / len.0).min(READ_MAX);
    let first = read_ahead(prober, ahead)?;
    for nth in 0..each {
        let extent = Extent::new(Lba(first.end().0 + nth * len.0), len);
        times.push(prober.bench.time(Operation::read(extent))?.took());
    }
    times.way(prober)
}

/// Reads a block and lets the drive read on for as long as it does: behind what comes back so much is in memory.
pub(crate) fn read_ahead(
    prober: &mut Prober<'_, '_>,
    ahead: Sectors,
) -> Result<Extent, StopReason> {
    let block = prober.block();
    let room = prober.random_extent(Sectors(ahead.0 + 2 * block.0));
    let first = Extent::new(room.start, block);
    prober.clear_head_position();
    let timed = prober.bench.time(Operation::read(first))?;
    let revolutions = 3.0 + real(ahead.0) / real(prober.track_sectors(first.start));
    rest(prober, timed.completed, prober.rotation.period() * revolutions * 1.2);
    Ok(first)
}

fn rest(prober: &mut Prober<'_, '_>, from: units::Instant, nanos: f64) {
    prober.bench.wait_until(from + duration(nanos));
}

/// What a cached write takes.
pub(crate) fn writes(prober: &mut Prober<'_, '_>) -> Result<Option<HitTime>, StopReason> {
    let block = prober.block();
    let revolutions = 4.0 * prober.rotation.period();
    let some = |prober: &mut Prober<'_, '_>, count: u64, len: Sectors| {
        let mut times = Vec::new();
        for _ in 0..count {
            let extent = prober.random_extent(len);
            prober.clear_head_position();
            let timed = prober.bench.time(Operation::write(extent))?;
            times.push(ns(timed.took()));
            rest(prober, timed.completed, revolutions);
        }
        Ok(median(times).is_some_and(|time| time < prober.rotation.period() / 3.0))
    };
    // The longer, the better a fast bus is known; a slow one or a small buffer makes long writes wait.
    let fast = some(prober, 5, Sectors(WRITTEN))?;
    if !some(prober, 7, block)? {
        return Ok(None);
    }
    let long = Sectors((if fast { LONG } else { LONG / 4 }) / block.0 * block.0);
    let (short_times, long_times) = (write_times(prober, block)?, write_times(prober, long)?);
    Ok(HitTime::of((block, &short_times), (long, &long_times)))
}

/// Writes in a row, in bursts that become longer until one of them has to wait for memory.
fn write_times(prober: &mut Prober<'_, '_>, len: Sectors) -> Result<TimeSamples, StopReason> {
    let mut times = TimeSamples::begin(prober);
    let mut count = (WRITTEN / len.0).clamp(1, 64);
    let mut grows = true;
    while !times.enough(prober) {
        let room = prober.random_extent(Sectors(count * len.0));
        let count_now = room.len.0 / len.0;
        prober.clear_head_position();
        let mut waited = false;
        for nth in 0..count_now {
            let extent = Extent::new(Lba(room.start.0 + nth * len.0), len);
            waited = times.push(prober.bench.time(Operation::write(extent))?.took());
            if waited {
                break;
            }
        }
        times.way(prober)?;
        grows &= !waited;
        count = match (waited, grows) {
            (true, _) => (count / 2).max(1),
            (false, true) => (2 * count).min((WRITTEN_MAX / len.0).max(1)),
            (false, false) => count,
        };
        // All of it is to be on the disk before the next: two turns to get there, and twice what it takes to pass.
        let passes = real(room.len.0) / real(prober.track_sectors(room.start));
        let now = prober.bench.now();
        rest(prober, now, prober.rotation.period() * (4.0 + 2.0 * passes));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[f64]) -> TimeSamples {
        let mut times = TimeSamples {
            all: Vec::new(),
            late: f64::MAX,
            known: 0,
            until: 0.0,
            path: PathLatency::default(),
        };
        for time in all {
            times.push(duration(*time));
        }
        times
    }

    #[test]
    fn a_hit_is_the_middle_of_those_that_did_not_wait() {
        let mut all: Vec<f64> = (0..101).map(|nth| 400_000.0 + 1_000.0 * f64::from(nth)).collect();
        all.push(9_000_000.0);
        let short = times(&all);
        let long: Vec<f64> = all.iter().map(|time| time + 255.0 * 3_000.0).collect();
        let hits = HitTime::of((Sectors(1), &short), (Sectors(256), &times(&long))).expect("some");
        assert!((hits.overhead - 447_000.0).abs() < 1.0, "{hits:?}");
        assert!((hits.sector - 3_000.0).abs() < 1e-6, "{hits:?}");
    }

    #[test]
    fn what_takes_much_longer_than_its_like_had_to_wait() {
        let mut times = times(&[50_000.0; 20]);
        assert!(!times.push(Duration::from_micros(700)));
        assert!(times.push(Duration::from_micros(1_600)));
    }
}
