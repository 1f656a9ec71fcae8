//! Service times of cache hits: an overhead, and the bus time of each sector.
//!
//! The median is used: noise only delays completions, so the mean would be late. The number of
//! samples depends on the noise: commands are timed until the median is known well, or for a
//! limited time.

use units::{Duration, Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::estimate::number::{MEDIAN_ERROR_FACTOR, duration, instant_ns, median, ns, real};
use crate::host_path::latency::PathLatency;
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;

/// The sufficient standard error, relative to the median. A chunk follows from an overhead, and one
/// sector in a chunk decides whether a request of two chunks is one command or two.
const ENOUGH: f64 = 0.005;
/// The standard error below which no better one is needed, in ns.
const ENOUGH_LEAST: f64 = 1_000.0;
/// The most time for commands of one length, of a full and of a quick profile, in ns.
const TIME: [f64; 2] = [6e9, 0.5e9];
/// The least number of commands of one length.
const LEAST: usize = 200;
/// The longest command, in sectors.
const LONG: u64 = 256;
/// The most cached reads in a row.
const READ_MAX: u64 = 512;
/// The sectors of the first burst of writes: they fit the smallest buffer.
const WRITTEN: u64 = 256;
/// The sectors of the longest burst, if no earlier burst had to wait.
const WRITTEN_MAX: u64 = 1 << 14;
/// The time beyond the median from which on a command is no cache hit, in ns.
pub(crate) const MISS: f64 = 1_500_000.0;
/// Samples of the path latency between two bursts of commands.
const WAYS: u32 = 18;

/// The service time of cache hits as a line over their length: height and slope, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HitTime {
    pub(crate) overhead: f64,
    pub(crate) sector: f64,
    /// Standard errors of both.
    pub(crate) errors: (f64, f64),
    pub(crate) samples: u32,
    /// The part of the overhead that is path latency, as far as that was timed.
    pub(crate) path: f64,
}

impl HitTime {
    /// The service time of a hit of `len` sectors.
    pub(crate) fn time(&self, len: Sectors) -> f64 {
        self.overhead + self.sector * real(len.0)
    }

    /// The line through two lengths.
    fn of(short: (Sectors, &TimeSamples), long: (Sectors, &TimeSamples)) -> Option<Self> {
        let samples = u32::try_from(short.1.all.len() + long.1.all.len()).unwrap_or(u32::MAX);
        let ((low, low_error), (high, high_error)) = (short.1.median()?, long.1.median()?);
        let run = real(long.0.0 - short.0.0);
        // Each length has its own path latency, and their difference is no bus time.
        let apart = short.1.path.median() - long.1.path.median();
        let sector = ((high - low + apart) / run).max(0.0);
        let error = (low_error * low_error + high_error * high_error).sqrt() / run;
        let overhead = (low - sector * real(short.0.0)).max(0.0);
        let path = short.1.path.median();
        Some(Self { overhead, sector, errors: (low_error, error), samples, path })
    }

    /// The figures: the drive's overhead, and the bus time of a sector.
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

/// Service times of commands of one length.
#[derive(Debug)]
pub(crate) struct TimeSamples {
    all: Vec<f64>,
    /// Commands above this time had to wait, as of the first `known` samples.
    late: f64,
    known: usize,
    /// The end of the time for more samples.
    until: f64,
    path: PathLatency,
}

impl TimeSamples {
    /// No samples, with the time for one length from now on.
    pub(crate) fn begin(prober: &mut Prober<'_, '_>) -> Self {
        Self::begin_of(prober, 1)
    }

    /// No samples, with the time for `lengths` lengths in turn.
    fn begin_of(prober: &mut Prober<'_, '_>, lengths: u32) -> Self {
        let time = TIME[usize::from(prober.bench.budget().quick)] * f64::from(lengths);
        let until = instant_ns(prober.bench.now()) + time;
        Self { all: Vec::new(), late: f64::MAX, known: 0, until, path: PathLatency::default() }
    }

    /// Adds a sample. Whether its command had to wait.
    pub(crate) fn push(&mut self, took: Duration) -> bool {
        self.all.push(ns(took));
        // The median settles.
        if self.all.len() > self.known + self.known / 4 {
            self.known = self.all.len();
            self.late = median(self.all.clone()).unwrap_or(0.0) + MISS;
        }
        ns(took) > self.late
    }

    /// Times the path repeatedly, beside the commands that contain it.
    pub(crate) fn way(&mut self, prober: &mut Prober<'_, '_>) -> Result<(), StopReason> {
        for _ in 0..WAYS {
            prober.time_path(&mut self.path)?;
        }
        Ok(())
    }

    /// Whether the samples suffice, or their time is over.
    pub(crate) fn enough(&self, prober: &mut Prober<'_, '_>) -> bool {
        let known = |(middle, error): (f64, f64)| error < (ENOUGH * middle).max(ENOUGH_LEAST);
        instant_ns(prober.bench.now()) >= self.until
            || self.all.len() >= LEAST && self.median().is_some_and(known)
    }

    /// The median and its standard error.
    fn median(&self) -> Option<(f64, f64)> {
        let late = median(self.all.clone())? + MISS;
        let hits: Vec<f64> = self.all.iter().copied().filter(|time| *time < late).collect();
        let count = real(hits.len() as u64);
        let middle = median(hits.clone())?;
        let square = hits.iter().map(|time| (time - middle).powi(2)).sum::<f64>() / count;
        Some((middle, MEDIAN_ERROR_FACTOR * (square / count).sqrt()))
    }

    /// The median as a figure.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        let (middle, error) = self.median()?;
        Some(figure(
            (middle - self.path.median()).max(0.0),
            error,
            u32::try_from(self.all.len()).unwrap_or(u32::MAX),
        ))
    }
}

/// The service time of cached reads, from read-ahead of `ahead` sectors.
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
    // The two lengths alternate, so that the path latency is the same for both.
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

/// Times reads of one length: all that one read-ahead serves.
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

/// Reads a block and waits for its read-ahead: the `ahead` sectors behind the returned block are
/// cached.
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

/// The service time of writes into the write buffer.
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
    // Longer writes determine a fast bus better. With a slow bus or a small buffer, long writes
    // wait.
    let fast = some(prober, 5, Sectors(WRITTEN))?;
    if !some(prober, 7, block)? {
        return Ok(None);
    }
    let long = Sectors((if fast { LONG } else { LONG / 4 }) / block.0 * block.0);
    let (short_times, long_times) = (write_times(prober, block)?, write_times(prober, long)?);
    Ok(HitTime::of((block, &short_times), (long, &long_times)))
}

/// Sequential writes in bursts that grow until a write has to wait for the buffer.
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
        // The buffer is empty before the next burst: two revolutions to reach the media, and twice
        // the media time.
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
