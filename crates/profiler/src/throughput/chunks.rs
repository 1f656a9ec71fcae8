//! Throughput of a sequential stream against the length of its commands (FAST 2003, figures 3, 5
//! and 6), and the optimal range of lengths.
//!
//! A host that observes completions late also continues late, and its throughput is below the
//! drive's wherever commands are the bottleneck. So two figures are kept: the throughput that this
//! host observed, and the drive's for a host without delays. The range is based on the latter.

use units::{Bytes, Extent, Instant, Lba, Operation, SECTOR_BYTES, Sectors, Share};

use crate::bench::StopReason;
use crate::cache::hit_timing::HitTime;
use crate::estimate::number::{instant_ns, real, round, round_u32};
use crate::mechanics::prober::Prober;
use drive_profile::findings::{ChunkPoint, Chunks};

/// The lengths in sectors: from 8 on each is a third or a half longer than the one before, from 512
/// on twice as long.
pub const CHUNK_STEPS: [u64; 17] =
    [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1_024, 2_048];
/// The share of the best throughput from which on a chunk is optimal.
pub const OPTIMAL_SHARE: f64 = 0.95;
/// The mean of the positive part of standard normal noise: an early observation does not let the
/// stream continue early, a late one delays it.
const LATE: f64 = 0.4;
/// The least time of one part of a measurement, of a full and of a quick profile, in ns.
const PART: [f64; 2] = [120e6, 20e6];
/// The parts of the first measurement of a length, and of each later one. One part before them is
/// discarded: it uses what other lengths left in the cache.
const PARTS: [u64; 2] = [4, 2];
/// The least number of commands of a part.
const COMMANDS: [u64; 2] = [2, 1];
/// The most time of one length, in ns.
const TIME_MAX: f64 = 12e9;
/// The distance from the limit, in standard errors, at which a length is certainly on its side.
const CERTAIN: f64 = 3.0;
/// The least relative error of a rate.
const ERROR_LEAST: f64 = 0.000_5;
/// The distance from the best rate, in standard errors, within which a length may be as good.
const AS_GOOD: f64 = 2.0;
/// The sectors written before a length is measured: the buffer is full then, and the media limit
/// the rate.
pub(crate) const FILLED_MAX: Sectors = Sectors(1 << 19);
/// The stream stays in the first zone, if that has this number of sectors.
const ROOM_MIN: u64 = 1 << 17;
/// The least share of the best rate of a stream that misses no revolutions.
const LOSSLESS: f64 = 0.97;
/// The margin beyond the noise, in standard deviations, with which the host is never late.
const TO_SPARE: f64 = 2.0;
/// The least share of a command's time at which the host's delay matters.
const LATE_PART: f64 = 0.01;

/// Measures sequential reads or writes. `hits` is the service time of cache hits, and `until` the
/// end of the time.
pub(crate) fn chunks(
    prober: &mut Prober<'_, '_>,
    (writes, buffer): (bool, Sectors),
    hits: Option<&HitTime>,
    until: Instant,
) -> Result<Chunks, StopReason> {
    prober.clear_head_position();
    let block = prober.block().0;
    let quick = prober.bench.budget().quick;
    let every = if quick { 2 } else { 1 };
    let steps = CHUNK_STEPS.into_iter().skip(every - 1).step_by(every);
    let mut seen: Vec<LengthSamples> =
        steps.filter(|step| step % block == 0).map(LengthSamples::new).collect();
    let mut stream = Stream { next: 0, end: room(prober), writes };
    // Data that fits the buffer is accepted at bus speed; twice its size is not.
    let most = seen.last().map_or(block, |seen| seen.chunk);
    let fill = if writes { (2 * buffer.0).min(FILLED_MAX.0) } else { 2 * most };
    let mut filled = 0;
    while filled < fill {
        filled += stream.issue(prober, most)?;
    }
    // The path latency is part of the delay, where it is known.
    let late = LATE * prober.rotation.noise() + prober.path.median();
    // The longest commands come first, so that the buffer stays full.
    for nth in (0..seen.len()).rev() {
        // When most lengths are known, the remaining ones are short, and never optimal.
        match stream.measure(prober, &mut seen[nth]) {
            Err(StopReason::OutOfTime) if nth < seen.len() / 2 => break,
            ended => ended?,
        }
    }
    seen.retain(|seen| !seen.parts.is_empty());
    let host = Host { late, noise: prober.rotation.noise(), hits: hits.copied() };
    while instant_ns(prober.bench.now()) < instant_ns(until) && !quick {
        let Some(nth) = host.least_certain(&seen) else { break };
        match stream.measure(prober, &mut seen[nth]) {
            Err(StopReason::OutOfTime) => break,
            ended => ended?,
        }
    }
    Ok(host.range(&seen))
}

/// The end of the zone of the first track.
fn room(prober: &Prober<'_, '_>) -> u64 {
    let bands = &prober.profile.bands;
    let first = bands.first().map_or(0, |band| band.sectors_per_track);
    let zone = bands.iter().take_while(|band| band.sectors_per_track == first).last();
    let end = zone.map_or(0, |band| band.lbas.end().0);
    if end < ROOM_MIN { prober.profile.capacity().0 } else { end }
}

struct Stream {
    next: u64,
    end: u64,
    writes: bool,
}

impl Stream {
    /// Issues commands of one length for some more parts.
    fn measure(
        &mut self,
        prober: &mut Prober<'_, '_>,
        seen: &mut LengthSamples,
    ) -> Result<(), StopReason> {
        let quick = usize::from(prober.bench.budget().quick);
        let (time, parts, least) = (PART[quick], PARTS[quick], COMMANDS[quick]);
        if self.next > self.end / 4 * 3 {
            self.next = 0;
        }
        for nth in 0..=parts {
            let began = instant_ns(prober.bench.now());
            let (mut sectors, mut commands) = (0, 0);
            while commands < least || instant_ns(prober.bench.now()) - began < time {
                sectors += self.issue(prober, seen.chunk)?;
                commands += 1;
            }
            if nth > 0 {
                seen.parts.push((real(sectors), instant_ns(prober.bench.now()) - began));
            }
        }
        Ok(())
    }

    fn issue(&mut self, prober: &mut Prober<'_, '_>, len: u64) -> Result<u64, StopReason> {
        if self.next + len > self.end {
            self.next = 0;
        }
        let extent = Extent::new(Lba(self.next), Sectors(len));
        self.next += len;
        let operation =
            if self.writes { Operation::write(extent) } else { Operation::read(extent) };
        prober.bench.time(operation)?;
        Ok(len)
    }
}

/// The throughput of commands of one length.
#[derive(Clone, Debug)]
struct LengthSamples {
    chunk: u64,
    /// Sectors and ns of each part.
    parts: Vec<(f64, f64)>,
}

impl LengthSamples {
    const fn new(chunk: u64) -> Self {
        Self { chunk, parts: Vec::new() }
    }

    fn time(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum()
    }

    /// The rate in sectors per ns, and its standard error.
    fn rate(&self) -> (f64, f64) {
        let count = real(self.parts.len() as u64);
        let (sectors, time) = (self.parts.iter().map(|part| part.0).sum::<f64>(), self.time());
        let rate = sectors / time.max(1.0);
        let off = |part: &(f64, f64)| (part.0 - rate * part.1).powi(2);
        let square = self.parts.iter().map(off).sum::<f64>() * count / (count - 1.0).max(1.0);
        (rate, (square.sqrt() / time.max(1.0)).max(rate * ERROR_LEAST))
    }
}

/// The observing host.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// The mean delay of a command, and its standard deviation, in ns.
    late: f64,
    noise: f64,
    /// The service time of cache hits.
    hits: Option<HitTime>,
}

/// The rate of a length without the host's delays, and its error, in sectors per ns.
#[derive(Clone, Copy, Debug)]
struct UndelayedRate {
    rate: f64,
    error: f64,
    /// Whether the rate is inferred rather than observed.
    follows: bool,
}

impl Host {
    /// The best rate and its error, over all lengths that may be as good as the certainly best one.
    fn best(seen: &[LengthSamples]) -> (f64, f64) {
        let rates: Vec<(f64, f64)> = seen.iter().map(LengthSamples::rate).collect();
        let surest = |one: &&(f64, f64), other: &&(f64, f64)| {
            (one.0 - one.1).total_cmp(&(other.0 - other.1))
        };
        let Some(top) = rates.iter().max_by(surest).copied() else { return (0.0, 0.0) };
        let (mut weights, mut sum) = (0.0, 0.0);
        for (rate, error) in rates {
            if (rate - top.0).abs() <= AS_GOOD * (error * error + top.1 * top.1).sqrt() {
                let weight = 1.0 / (error * error).max(f64::MIN_POSITIVE);
                weights += weight;
                sum += weight * rate;
            }
        }
        (sum / weights, 1.0 / weights.sqrt())
    }

    /// The rate of each length for a host without delays.
    ///
    /// A late command does not delay data that the media could not deliver sooner, and no rate
    /// exceeds the media's. A host slightly slower than the media misses a revolution whenever the
    /// buffer is full, or empty. A faster one does not: a length whose cache hits are faster than
    /// the media is as good as a longer command without delays and missed revolutions, since it
    /// needs no more buffer. Delays are a relevant part of short commands alone.
    fn undelayed(&self, seen: &[LengthSamples]) -> Vec<UndelayedRate> {
        let (best, _) = Self::best(seen);
        let passes = |seen: &LengthSamples| real(seen.chunk) / best;
        let answered = |chunk: u64| self.hits.map(|hits| hits.time(Sectors(chunk)) - hits.path);
        let spare =
            |seen: &LengthSamples| answered(seen.chunk).map_or(f64::MIN, |hit| passes(seen) - hit);
        let keeps_up = |seen: &LengthSamples| {
            spare(seen) >= TO_SPARE * self.noise && seen.rate().0 >= LOSSLESS * best
        };
        let longer = seen.iter().position(keeps_up).unwrap_or(0);
        let one = |(nth, seen): (usize, &LengthSamples)| {
            let (rate, error) = seen.rate();
            if nth < longer && spare(seen) >= 0.0 && self.late > LATE_PART * passes(seen) {
                return UndelayedRate { rate: best, error: 0.0, follows: true };
            }
            let cycle = real(seen.chunk) / rate;
            let own = real(seen.chunk) / (cycle - self.late).max(cycle / 4.0);
            UndelayedRate { rate: own.min(best), error: error * own / rate, follows: false }
        };
        seen.iter().enumerate().map(one).collect()
    }

    /// The length to measure more: the one whose side of the limit is least certain, or one of the
    /// best lengths, if their rate is less certain.
    fn least_certain(&self, seen: &[LengthSamples]) -> Option<usize> {
        let (best, best_error) = Self::best(seen);
        let limit_error = OPTIMAL_SHARE * best_error;
        let mut least_certain: Option<(f64, usize)> = None;
        for (nth, one) in self.undelayed(seen).iter().enumerate() {
            let error = (one.error * one.error + limit_error * limit_error).sqrt();
            let certain = (one.rate - OPTIMAL_SHARE * best).abs() / error;
            let open = !one.follows && seen[nth].time() < TIME_MAX || one.error < limit_error;
            if open && certain < least_certain.map_or(CERTAIN, |(least, _)| least) {
                least_certain =
                    Some((certain, if one.error < limit_error { seen.len() } else { nth }));
            }
        }
        let (_, nth) = least_certain?;
        if nth < seen.len() {
            return Some(nth);
        }
        let good = |nth: &usize| {
            let (rate, error) = seen[*nth].rate();
            rate + AS_GOOD * error >= best && seen[*nth].time() < TIME_MAX
        };
        (0..seen.len())
            .filter(good)
            .min_by(|one, other| seen[*one].time().total_cmp(&seen[*other].time()))
    }

    /// The points and the range.
    fn range(&self, seen: &[LengthSamples]) -> Chunks {
        let (best, _) = Self::best(seen);
        let undelayed = self.undelayed(seen);
        // The longest run of optimal lengths, and the first of equal ones: a single length that is
        // optimal by chance makes no run.
        let (mut first, mut last, mut begun, mut longest) = (0, 0, 0, 0);
        for (nth, one) in undelayed.iter().enumerate() {
            if one.rate < OPTIMAL_SHARE * best {
                begun = nth + 1;
            } else if nth + 1 - begun > longest {
                (first, last, longest) = (begun, nth, nth + 1 - begun);
            }
        }
        let bytes = |rate: f64| Bytes(round(rate * real(SECTOR_BYTES) * 1e9));
        let chunk = |nth: usize| seen.get(nth).map_or(Sectors::ZERO, |seen| Sectors(seen.chunk));
        let point = |(seen, one): (&LengthSamples, &UndelayedRate)| ChunkPoint {
            chunk: Sectors(seen.chunk),
            seen: bytes(seen.rate().0),
            drive: bytes(one.rate),
        };
        let points = seen.iter().zip(&undelayed).map(point).collect();
        let confidence = Some(Self::sure(seen, &undelayed));
        Chunks { optimal: (chunk(first), chunk(last)), points, confidence }
    }

    /// The probability that all lengths are on their observed side of the limit.
    fn sure(seen: &[LengthSamples], undelayed: &[UndelayedRate]) -> Share {
        let (best, best_error) = Self::best(seen);
        let limit_error = OPTIMAL_SHARE * best_error;
        let side = |one: &UndelayedRate| {
            let error = one.error.hypot(limit_error).max(f64::MIN_POSITIVE);
            let errors = (one.rate - OPTIMAL_SHARE * best).abs() / error;
            // The cumulative normal distribution, to a hundredth.
            1.0 / (1.0 + (-1.702 * errors).exp())
        };
        let all: f64 = undelayed.iter().map(side).product();
        Share::from_percent(round_u32(all * 100.0 - 0.5).min(99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths with their rates, each observed ten times, alternately faster and slower by this
    /// part.
    fn seen(rates: [f64; 3], by: f64) -> Vec<LengthSamples> {
        let one = |(chunk, rate): (u64, f64)| {
            let rate = |nth: u64| rate * if nth.is_multiple_of(2) { 1.0 + by } else { 1.0 - by };
            LengthSamples { chunk, parts: (0..10).map(|nth| (rate(nth) * 1e8, 1e8)).collect() }
        };
        [8, 64, 512].into_iter().zip(rates).map(one).collect()
    }

    #[test]
    fn a_range_is_as_sure_as_its_most_doubtful_length() {
        let host = Host { late: 0.0, noise: 0.0, hits: None };
        let found = |rates, by| host.range(&seen(rates, by));
        let clear = found([0.010, 0.0198, 0.020], 0.01);
        assert_eq!(clear.optimal, (Sectors(64), Sectors(512)));
        assert!(clear.confidence >= Some(Share::from_percent(95)), "{:?}", clear.confidence);
        let vague = found([0.010, 0.01905, 0.020], 0.05);
        assert!(vague.confidence < Some(Share::from_percent(70)), "{:?}", vague.confidence);
    }
}
