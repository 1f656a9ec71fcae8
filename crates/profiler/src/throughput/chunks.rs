//! Throughput of a sequential stream against the length of its commands (FAST 2003, figures 3, 5 and 6), and the range
//! of lengths that are as good as any.
//!
//! A host that notices completions late goes on late, and what it measures is slower than the drive wherever commands
//! are the bottleneck. So two figures are kept: what this host saw, and what the drive would do for one that is
//! never late. Of the latter the range is made.

use units::{Bytes, Extent, Instant, Lba, Operation, SECTOR_BYTES, Sectors, Share};

use crate::bench::StopReason;
use crate::cache::hit_timing::HitTime;
use crate::estimate::number::{instant_ns, real, round, round_u32};
use crate::mechanics::prober::Prober;
use drive_profile::findings::{ChunkPoint, Chunks};

/// The lengths, in sectors: from 8 on each is a third or half as long again as the one before, from 512 on twice.
pub const CHUNK_STEPS: [u64; 17] =
    [2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1_024, 2_048];
/// From which part of the best on a chunk is an optimal one.
pub const OPTIMAL_SHARE: f64 = 0.95;
/// What of normal noise with a deviation of one is above zero, on the mean: who sees completions early cannot go on
/// early, who sees them late does.
const LATE: f64 = 0.4;
/// How long a part of a measurement takes at least, by default and at a glance, in ns.
const PART: [f64; 2] = [120e6, 20e6];
/// How many parts a length is measured in at first, and each time that more is wanted of it; and one before them, in which
/// what other lengths left in memory goes.
const PARTS: [u64; 2] = [4, 2];
/// Commands of each part at least.
const COMMANDS: [u64; 2] = [2, 1];
/// How long one length is measured at most, in ns.
const TIME_MAX: f64 = 12e9;
/// So many standard errors off the limit a length is on its side of it for certain.
const CERTAIN: f64 = 3.0;
/// No rate is known better, as a part of itself.
const ERROR_LEAST: f64 = 0.000_5;
/// So many standard errors from the best a length may be as good.
const AS_GOOD: f64 = 2.0;
/// How much is written before a length is measured: until memory is full, and what comes is what the media take.
pub(crate) const FILLED_MAX: Sectors = Sectors(1 << 19);
/// The stream stays in the first zone, if that has so many sectors.
const ROOM_MIN: u64 = 1 << 17;
/// What of the full speed a stream has at least that loses no turns.
const LOSSLESS: f64 = 0.97;
/// With so many deviations of noise to spare nobody is late.
const TO_SPARE: f64 = 2.0;
/// From which part of a command's time on it matters how late its host is.
const LATE_PART: f64 = 0.01;

/// Reads in a row, or writes. `hits` is what those take that memory answers; the time for it ends at `until`.
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
    let mut seen: Vec<Seen> = steps.filter(|step| step % block == 0).map(Seen::new).collect();
    let mut stream = Stream { next: 0, end: room(prober), writes };
    // What fits memory is taken at the speed of the bus; twice as much is in it no more.
    let most = seen.last().map_or(block, |seen| seen.chunk);
    let fill = if writes { (2 * buffer.0).min(FILLED_MAX.0) } else { 2 * most };
    let mut filled = 0;
    while filled < fill {
        filled += stream.issue(prober, most)?;
    }
    // And the way to the drive and back, where it is known.
    let late = LATE * prober.rotation.noise() + prober.path.median();
    // From the longest down: memory stays full.
    for nth in (0..seen.len()).rev() {
        // Of a stream of which most lengths are known, those that are left are the short ones that nobody wants.
        match stream.measure(prober, &mut seen[nth]) {
            Err(StopReason::OutOfTime) if nth < seen.len() / 2 => break,
            ended => ended?,
        }
    }
    seen.retain(|seen| !seen.parts.is_empty());
    let host = Host { late, noise: prober.rotation.noise(), hits: hits.copied() };
    while instant_ns(prober.bench.now()) < instant_ns(until) && !quick {
        let Some(nth) = host.doubted(&seen) else { break };
        match stream.measure(prober, &mut seen[nth]) {
            Err(StopReason::OutOfTime) => break,
            ended => ended?,
        }
    }
    Ok(host.range(&seen))
}

/// Up to where tracks are as long as the first.
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
    /// Commands of a length for some more parts.
    fn measure(&mut self, prober: &mut Prober<'_, '_>, seen: &mut Seen) -> Result<(), StopReason> {
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

/// How fast commands of one length were.
#[derive(Clone, Debug)]
struct Seen {
    chunk: u64,
    /// Sectors and ns.
    parts: Vec<(f64, f64)>,
}

impl Seen {
    const fn new(chunk: u64) -> Self {
        Self { chunk, parts: Vec::new() }
    }

    fn time(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum()
    }

    /// In sectors a ns, and its standard error.
    fn rate(&self) -> (f64, f64) {
        let count = real(self.parts.len() as u64);
        let (sectors, time) = (self.parts.iter().map(|part| part.0).sum::<f64>(), self.time());
        let rate = sectors / time.max(1.0);
        let off = |part: &(f64, f64)| (part.0 - rate * part.1).powi(2);
        let square = self.parts.iter().map(off).sum::<f64>() * count / (count - 1.0).max(1.0);
        (rate, (square.sqrt() / time.max(1.0)).max(rate * ERROR_LEAST))
    }
}

/// What is known of who saw that.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// How late each command is on the mean, and how much that differs, in ns.
    late: f64,
    noise: f64,
    /// What commands take that memory answers.
    hits: Option<HitTime>,
}

/// A length without the host's delays: its rate and the error, in sectors a ns.
#[derive(Clone, Copy, Debug)]
struct Punctual {
    rate: f64,
    error: f64,
    /// Whether that is what follows, and no more was seen of it.
    follows: bool,
}

impl Host {
    /// The best rate, and its error: of all lengths that may be as good as the one that surely is.
    fn best(seen: &[Seen]) -> (f64, f64) {
        let rates: Vec<(f64, f64)> = seen.iter().map(Seen::rate).collect();
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

    /// What a length would do for a host that is never late.
    ///
    /// What the media could not give sooner is no later for a late command, and nothing is faster than they. A host that is
    /// a little slower than the media has them wait, and costs them a turn whenever memory is full, or empty. One that is
    /// faster does not: what memory answers faster than the media pass is as good as a longer command at which nobody is late
    /// and no turn is lost, since it needs no more memory. Only of short ones is lateness a part to speak of.
    fn punctual(&self, seen: &[Seen]) -> Vec<Punctual> {
        let (best, _) = Self::best(seen);
        let passes = |seen: &Seen| real(seen.chunk) / best;
        let answered = |chunk: u64| self.hits.map(|hits| hits.time(Sectors(chunk)) - hits.path);
        let spare = |seen: &Seen| answered(seen.chunk).map_or(f64::MIN, |hit| passes(seen) - hit);
        let keeps_up =
            |seen: &Seen| spare(seen) >= TO_SPARE * self.noise && seen.rate().0 >= LOSSLESS * best;
        let longer = seen.iter().position(keeps_up).unwrap_or(0);
        let one = |(nth, seen): (usize, &Seen)| {
            let (rate, error) = seen.rate();
            if nth < longer && spare(seen) >= 0.0 && self.late > LATE_PART * passes(seen) {
                return Punctual { rate: best, error: 0.0, follows: true };
            }
            let cycle = real(seen.chunk) / rate;
            let own = real(seen.chunk) / (cycle - self.late).max(cycle / 4.0);
            Punctual { rate: own.min(best), error: error * own / rate, follows: false }
        };
        seen.iter().enumerate().map(one).collect()
    }

    /// Which length is to be measured more: the one of which it is least certain on which side of the limit it is; or one of
    /// the best, if it is they of which too little is known.
    fn doubted(&self, seen: &[Seen]) -> Option<usize> {
        let (best, best_error) = Self::best(seen);
        let limit_error = OPTIMAL_SHARE * best_error;
        let mut doubted: Option<(f64, usize)> = None;
        for (nth, one) in self.punctual(seen).iter().enumerate() {
            let error = (one.error * one.error + limit_error * limit_error).sqrt();
            let certain = (one.rate - OPTIMAL_SHARE * best).abs() / error;
            let open = !one.follows && seen[nth].time() < TIME_MAX || one.error < limit_error;
            if open && certain < doubted.map_or(CERTAIN, |(least, _)| least) {
                doubted = Some((certain, if one.error < limit_error { seen.len() } else { nth }));
            }
        }
        let (_, nth) = doubted?;
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
    fn range(&self, seen: &[Seen]) -> Chunks {
        let (best, _) = Self::best(seen);
        let punctual = self.punctual(seen);
        // The longest run of them, the first of several: one that was lucky is none.
        let (mut first, mut last, mut begun, mut longest) = (0, 0, 0, 0);
        for (nth, one) in punctual.iter().enumerate() {
            if one.rate < OPTIMAL_SHARE * best {
                begun = nth + 1;
            } else if nth + 1 - begun > longest {
                (first, last, longest) = (begun, nth, nth + 1 - begun);
            }
        }
        let bytes = |rate: f64| Bytes(round(rate * real(SECTOR_BYTES) * 1e9));
        let chunk = |nth: usize| seen.get(nth).map_or(Sectors::ZERO, |seen| Sectors(seen.chunk));
        let point = |(seen, one): (&Seen, &Punctual)| ChunkPoint {
            chunk: Sectors(seen.chunk),
            seen: bytes(seen.rate().0),
            drive: bytes(one.rate),
        };
        let points = seen.iter().zip(&punctual).map(point).collect();
        let confidence = Some(Self::sure(seen, &punctual));
        Chunks { optimal: (chunk(first), chunk(last)), points, confidence }
    }

    /// How sure it is that all lengths are on the side of the limit on which they are seen.
    fn sure(seen: &[Seen], punctual: &[Punctual]) -> Share {
        let (best, best_error) = Self::best(seen);
        let limit_error = OPTIMAL_SHARE * best_error;
        let side = |one: &Punctual| {
            let error = one.error.hypot(limit_error).max(f64::MIN_POSITIVE);
            let errors = (one.rate - OPTIMAL_SHARE * best).abs() / error;
            // The normal distribution, to a hundredth.
            1.0 / (1.0 + (-1.702 * errors).exp())
        };
        let all: f64 = punctual.iter().map(side).product();
        Share::from_percent(round_u32(all * 100.0 - 0.5).min(99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths with their rates, each seen ten times, now faster and now slower by this part.
    fn seen(rates: [f64; 3], by: f64) -> Vec<Seen> {
        let one = |(chunk, rate): (u64, f64)| {
            let rate = |nth: u64| rate * if nth.is_multiple_of(2) { 1.0 + by } else { 1.0 - by };
            Seen { chunk, parts: (0..10).map(|nth| (rate(nth) * 1e8, 1e8)).collect() }
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
