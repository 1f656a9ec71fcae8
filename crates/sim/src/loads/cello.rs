//! A synthetic load like that of CELLO, the file server of the HP traces that Clockwise was
//! measured with (RTAS 2000, §4).
//!
//! The trace is not available. The published figures of its busiest day are met exactly:
//!
//! | published | here |
//! |---|---|
//! | 8 disks, requests of 4 KB | [`Cello::DISKS`], [`Cello::BLOCK`] |
//! | 801,007 requests on June 1st, 1992 | [`Cello::REQUESTS`] in [`MINUTES_A_DAY`] minutes |
//! | peak loads of almost 3,000 a minute | [`Cello::MINUTE_MAX`] in the busiest one |
//! | 53,752 requests in the busiest 20 min | [`Cello::BUSIEST_REQUESTS`], [`Cello::busiest`] |
//! | a peak of 207 requests a second among those | [`Cello::SECOND_MAX`] |
//!
//! The other figures come from a trace of the same laboratory and year, `ajw.1week.srt` with 44,519
//! requests (the sibling trace):
//!
//! - 29 % are reads.
//! - They arrive in bursts with a mean of 7.6 requests (a pause of 100 ms ends a burst); the burst
//!   of the mean request has 25. Half of the pauses within a burst are under 25 ms.
//! - 40 % lie within 1 MB of the previous request.
//! - The most visited 1, 3, 10, 30 and 100 MB receive 15, 25, 48, 74 and 93 % of the requests: each
//!   doubling of the area receives about as much as all of the area before.
//! - Rates vary as much over the day: the busiest tenth of the minutes has 82 % of the sibling's
//!   requests. It could have at most 54 % of CELLO's, and has about 40 % here.
//!
//! The size of the disks is not published either: see [`Cello::UNIT`].

use core::ops::Range;

use units::{Bytes, Duration, Lba, Op, Sectors, Share};

use super::Timed;
use crate::SeededRng;

/// The minutes of a day.
pub const MINUTES_A_DAY: u32 = 1_440;
const SECONDS_A_MINUTE: usize = 60;
const SECOND: u64 = 1_000_000_000;

/// One megabyte of a disk: the unit of popularity.
const AREA: Sectors = Sectors(2_048);
/// The base-2 logarithm of the number of areas of a disk.
const AREAS_LOG: u32 = 10;
/// The fraction of reads.
const READS: Share = Share::from_percent(29);
/// The fraction of requests in the same megabyte as the previous one.
const STAYS: Share = Share::from_percent(40);
/// The fraction of long bursts, and the mean lengths of short and long bursts: 7.2 requests in the
/// mean burst, and 25 to 30 in the burst of the mean request.
const LONG: Share = Share::from_percent(15);
const LENGTHS: [u64; 2] = [4, 25];
/// The mean pause within a burst.
const PAUSE: Duration = Duration::from_millis(25);
/// The most attempts to find seconds in which a burst fits.
const TRIES_MAX: u32 = 1_000;

/// A rate lasts for this number of minutes. It is a power of two below `2^RATES_LOG`, and each
/// minute has between one and two times as much.
const STRETCH: u32 = 10;
const RATES_LOG: u64 = 7;
const RATE_UNIT: u64 = 1_000;

/// The first of the busiest twenty minutes: 14:10, which is not published.
const BUSIEST_FIRST: u32 = 14 * 60 + 10;
/// The busiest minute of the twenty, and its busiest second.
const PEAK_MINUTE: u32 = BUSIEST_FIRST + 11;
const PEAK_SECOND: usize = 30;

/// The load of one day.
#[derive(Clone, Debug)]
pub struct Cello {
    seed: u64,
    /// Requests in each minute.
    minutes: Vec<u32>,
}

impl Cello {
    /// The number of disks.
    pub const DISKS: u32 = 8;
    /// The size of each request.
    pub const BLOCK: Bytes = Bytes(4_096);
    /// Requests in the day.
    pub const REQUESTS: u32 = 801_007;
    /// Requests in the busiest minute: "almost 3,000".
    pub const MINUTE_MAX: u32 = 2_990;
    /// Requests in the busiest 20 minutes.
    pub const BUSIEST_REQUESTS: u32 = 53_752;
    /// Requests in the busiest second.
    pub const SECOND_MAX: u32 = 207;
    /// The size of each disk: about three times the largest of the sibling trace. Not published.
    pub const UNIT: Sectors = Sectors(AREA.0 << AREAS_LOG);

    /// The day of this seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed, u64::from(MINUTES_A_DAY));
        let busiest = Self::busiest();
        let twenty = busiest.end - busiest.start;
        let mut minutes = vec![0_u32; MINUTES_A_DAY as usize];
        let index = |minute: u32| minute as usize;
        // One of the busiest twenty minutes has the maximum; the others share the rest, each within
        // 10 % of the mean.
        let rest = Self::BUSIEST_REQUESTS - Self::MINUTE_MAX;
        let others = busiest.clone().filter(|minute| *minute != PEAK_MINUTE).map(index);
        let others: Vec<usize> = others.collect();
        let weights: Vec<u64> = (1..twenty).map(|_| 900 + rng.below(200)).collect();
        distribute(&mut minutes, &others, &weights, rest, Self::MINUTE_MAX - 1);
        minutes[index(PEAK_MINUTE)] = Self::MINUTE_MAX;
        // Over the rest of the day each power of two of rates has the same time.
        let least_busy = others.iter().map(|minute| minutes[*minute]).min().expect("nineteen");
        let day: Vec<usize> =
            (0..MINUTES_A_DAY).filter(|minute| !busiest.contains(minute)).map(index).collect();
        let mut stretches: Vec<u64> =
            (0..u64::from(MINUTES_A_DAY / STRETCH)).map(|nth| 1 << (nth % RATES_LOG)).collect();
        rng.shuffle(&mut stretches);
        let mut weight = |minute: &usize| {
            stretches[minute / STRETCH as usize] * (RATE_UNIT + rng.below(RATE_UNIT))
        };
        let weights: Vec<u64> = day.iter().map(&mut weight).collect();
        let rest = Self::REQUESTS - Self::BUSIEST_REQUESTS;
        distribute(&mut minutes, &day, &weights, rest, least_busy - 1);
        Self { seed, minutes }
    }

    /// The busiest twenty minutes, counted from the beginning of the day.
    pub const fn busiest() -> Range<u32> {
        BUSIEST_FIRST..BUSIEST_FIRST + 20
    }

    /// Requests in this minute of the day.
    ///
    /// # Panics
    /// If the day has no such minute.
    pub fn requests(&self, minute: u32) -> u32 {
        self.minutes[minute as usize]
    }

    /// The requests of one minute in order of time; times count from the start of the minute.
    ///
    /// # Panics
    /// If the day has no such minute.
    pub fn minute(&self, minute: u32) -> Vec<Timed> {
        let mut rng = SeededRng::new(self.seed, minute.into());
        let mut capacity = MinuteCapacity::new(minute);
        let mut left = self.requests(minute);
        let mut timed = Vec::with_capacity(left as usize);
        if minute == PEAK_MINUTE {
            left -= Self::SECOND_MAX;
            let mut burst = Burst::new(&mut rng);
            for nth in 0..u64::from(Self::SECOND_MAX) {
                let within = SECOND * nth / u64::from(Self::SECOND_MAX);
                let at = PEAK_SECOND as u64 * SECOND + within;
                timed.push(burst.request(Duration::from_nanos(at), &mut rng));
            }
        }
        while left > 0 {
            let length = burst_length(&mut rng).min(left);
            let mut burst = Burst::new(&mut rng);
            let times = capacity.times(length, &mut rng);
            timed.extend(times.into_iter().map(|at| burst.request(at, &mut rng)));
            left -= length;
        }
        timed.sort_by_key(|request| request.at);
        timed
    }
}

/// Distributes exactly `total` over the minutes at `indices` by their weights, at most `most` each.
fn distribute(minutes: &mut [u32], indices: &[usize], weights: &[u64], total: u32, most: u32) {
    let sum: u64 = weights.iter().sum();
    let mut left = total;
    for (index, weight) in indices.iter().zip(weights) {
        let part = u64::from(total) * weight / sum;
        let part = u32::try_from(part).expect("a part of the total").min(most);
        minutes[*index] = part;
        left -= part;
    }
    let mut next = indices.iter().cycle();
    while left > 0 {
        let index = *next.next().expect("a cycle is endless");
        let more = u32::from(minutes[index] < most);
        minutes[index] += more;
        left -= more;
    }
}

/// The number of requests in a burst: geometrically distributed, with one of two means.
fn burst_length(rng: &mut SeededRng) -> u32 {
    let mean = LENGTHS[usize::from(rng.chance(LONG))];
    let mut length = 1;
    while rng.below(mean) != 0 {
        length += 1;
    }
    length
}

/// The number of requests that each second of a minute can still take.
struct MinuteCapacity([u32; SECONDS_A_MINUTE]);

impl MinuteCapacity {
    fn new(minute: u32) -> Self {
        let mut capacity = [Cello::SECOND_MAX - 1; SECONDS_A_MINUTE];
        if minute == PEAK_MINUTE {
            capacity[PEAK_SECOND] = 0;
        }
        Self(capacity)
    }

    /// The times of a burst's requests, in seconds with capacity left.
    fn times(&mut self, length: u32, rng: &mut SeededRng) -> Vec<Duration> {
        let minute = SECOND * SECONDS_A_MINUTE as u64;
        for _ in 0..TRIES_MAX {
            let mut at = rng.below(minute);
            let mut times = Vec::with_capacity(length as usize);
            for _ in 0..length {
                times.push(at % minute);
                at += rng.exponential(PAUSE).as_nanos();
            }
            let mut after = self.0;
            let fits = times.iter().all(|at| {
                let second = usize::try_from(at / SECOND).expect("of sixty");
                after[second] = after[second].wrapping_sub(1);
                after[second] < Cello::SECOND_MAX
            });
            if fits {
                self.0 = after;
                return times.into_iter().map(Duration::from_nanos).collect();
            }
        }
        unreachable!("a minute of {} seconds takes them all", SECONDS_A_MINUTE)
    }
}

/// One burst: reads or writes of one disk.
struct Burst {
    op: Op,
    unit: u32,
    area: u64,
}

impl Burst {
    fn new(rng: &mut SeededRng) -> Self {
        let op = if rng.chance(READS) { Op::Read } else { Op::Write };
        let unit = u32::try_from(rng.below(Cello::DISKS.into())).expect("eight");
        Self { op, unit, area: area(rng) }
    }

    fn request(&mut self, at: Duration, rng: &mut SeededRng) -> Timed {
        if !rng.chance(STAYS) {
            self.area = area(rng);
        }
        let len = Sectors(Cello::BLOCK.0 / units::SECTOR_BYTES);
        let within = rng.below(AREA.0 / len.0) * len.0;
        Timed { at, op: self.op, unit: self.unit, start: Lba(self.area * AREA.0 + within), len }
    }
}

/// An area: each power of two of popularity ranks is equally likely, and ranks are spread over the
/// disk.
fn area(rng: &mut SeededRng) -> u64 {
    /// An odd number near the golden section of the areas: neighbouring ranks lie far apart.
    const SPREAD: u64 = 633;
    let power = rng.below(AREAS_LOG.into());
    let rank = (1 << power) + rng.below(1 << power);
    rank * SPREAD % (1 << AREAS_LOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_the_published_one_of_any_seed() {
        for seed in 0..20 {
            let cello = Cello::new(seed);
            let minutes: Vec<u32> = (0..MINUTES_A_DAY).map(|m| cello.requests(m)).collect();
            assert_eq!(minutes.iter().sum::<u32>(), 801_007, "seed {seed}");
            let twenties = minutes.windows(20).map(|twenty| twenty.iter().sum::<u32>());
            assert_eq!(twenties.max(), Some(53_752), "seed {seed}: the busiest 20 minutes");
            let peak = minutes.iter().max().expect("some");
            assert!((2_900..3_000).contains(peak), "seed {seed}: {peak} in a minute");
            let mut sorted = minutes.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let tenth: u32 = sorted[..144].iter().sum();
            let part = tenth / (801_007 / 100);
            assert!((35..=54).contains(&part), "seed {seed}: {part} % in the busiest tenth");
        }
    }

    #[test]
    fn the_busiest_twenty_minutes_have_their_peak_and_every_request_its_disk() {
        for seed in 1..4 {
            let cello = Cello::new(seed);
            let (mut most, mut requests) = (0, 0);
            let mut disks = [0_u32; Cello::DISKS as usize];
            for minute in Cello::busiest() {
                let timed = cello.minute(minute);
                let mut seconds = [0_u32; SECONDS_A_MINUTE];
                for request in &timed {
                    assert!(request.start.0 + request.len.0 <= Cello::UNIT.0, "{request:?}");
                    assert_eq!(request.len.bytes(), Cello::BLOCK);
                    disks[request.unit as usize] += 1;
                    seconds[usize::try_from(request.at.as_nanos() / SECOND).expect("60")] += 1;
                }
                assert!(timed.is_sorted_by_key(|request| request.at), "minute {minute}");
                most = most.max(*seconds.iter().max().expect("sixty"));
                requests += timed.len();
            }
            assert_eq!((requests, most), (53_752, 207), "seed {seed}");
            assert!(disks.iter().all(|count| (5_500..8_000).contains(count)), "{disks:?}");
        }
    }

    /// The figures of the sibling trace hold within a few points.
    #[test]
    fn bursts_writes_and_areas_are_as_in_the_sibling_trace() {
        let cello = Cello::new(1);
        // An hour of the early morning, when bursts do not run into one another.
        let timed: Vec<Timed> = (180..240).flat_map(|minute| cello.minute(minute)).collect();
        let number = |of: usize| f64::from(u32::try_from(of).expect("few"));
        let part = |of: usize| number(of) / number(timed.len()) * 100.0;
        let mut rng = SeededRng::new(1, 0);
        let lengths: Vec<f64> = (0..20_000).map(|_| f64::from(burst_length(&mut rng))).collect();
        let (sum, squares): (f64, f64) =
            lengths.iter().fold((0.0, 0.0), |(s, q), length| (s + length, q + length * length));
        let (mean, of_a_request) = (sum / 20_000.0, squares / sum);
        assert!((6.6..8.6).contains(&mean), "{mean} requests in a burst");
        assert!((22.0..33.0).contains(&of_a_request), "{of_a_request} in a request's burst");
        let reads = part(timed.iter().filter(|request| request.op == Op::Read).count());
        assert!((24.0..34.0).contains(&reads), "{reads} % read");
        let mut areas = vec![0_usize; 1 << AREAS_LOG];
        for request in &timed {
            areas[usize::try_from(request.start.0 / AREA.0).expect("1,024")] += 1;
        }
        areas.sort_unstable_by(|a, b| b.cmp(a));
        let first = |count: usize| part(areas[..count].iter().sum());
        // A disk with four times the areas has ten doublings to the most visited area, not eight.
        for (count, published) in [(1, 11.8), (3, 20.0), (30, 50.0), (100, 66.0)] {
            let had = first(count);
            assert!((had - published).abs() < 6.0, "{count} MB have {had} %");
        }
    }
}
