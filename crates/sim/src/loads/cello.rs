//! A load like that of CELLO's disks, the file server of HP's traces that Clockwise was measured with (RTAS 2000 §4).
//!
//! The trace is not to be had. What is published of its busiest day is met exactly:
//!
//! | published | here |
//! |---|---|
//! | 8 disks, requests of 4 KB | [`Cello::DISKS`], [`Cello::BLOCK`] |
//! | 801,007 requests on June 1st, 1992 | [`Cello::REQUESTS`] in [`MINUTES_A_DAY`] minutes |
//! | peak loads of almost 3,000 a minute | [`Cello::MINUTE_MAX`] in the busiest one |
//! | 53,752 requests in the busiest 20 minutes | [`Cello::BUSIEST_REQUESTS`] in [`Cello::busiest`] |
//! | a peak of 207 requests a second among those | [`Cello::SECOND_MAX`] |
//!
//! What is not published is taken from a trace of the same laboratory and year, `ajw.1week.srt` of 44,519 requests: 29 %
//! of them read; they come in bursts (a pause of 100 ms ends one) of 7.6 on the mean, a request having 25 companions; half of
//! the pauses within a burst are under 25 ms; two of five requests go to within 1 MB of the one before; and of the places,
//! each twice as many again get about as much as all those before: the most visited 1, 3, 10, 30, 100 MB get 15, 25, 48, 74
//! and 93 %. Rates differ as much from one part of the day to another: of the sibling's requests 82 % come in the busiest tenth
//! of its busiest day's minutes, of CELLO's 54 % could at most, and here about 40 % do. How large the disks were is not said either: [`Cello::UNIT`].

use core::ops::Range;

use units::{Bytes, Duration, Lba, Op, Sectors, Share};

use super::Timed;
use crate::Dice;

/// Minutes of the day that the load has.
pub const MINUTES_A_DAY: u32 = 1_440;
const SECONDS_A_MINUTE: usize = 60;
const SECOND: u64 = 1_000_000_000;

/// One megabyte of a disk: what is visited more or less often.
const PLACE: Sectors = Sectors(2_048);
/// A disk has two to this power of places.
const PLACES_LOG: u32 = 10;
/// Requests that read.
const READS: Share = Share::from_percent(29);
/// Requests that stay in the megabyte of the one before.
const STAYS: Share = Share::from_percent(40);
/// Bursts that are long, and the mean lengths of these and of the others: 7.2 requests in the mean burst, and 25 to 30 in
/// the burst of the mean request.
const LONG: Share = Share::from_percent(15);
const LENGTHS: [u64; 2] = [4, 25];
/// The mean pause within a burst.
const PAUSE: Duration = Duration::from_millis(25);
/// Bursts that find no second with room are as long as the minute has room.
const TRIES_MAX: u32 = 1_000;

/// A rate lasts for so many minutes, and is a power of two below two to this one, each minute up to
/// twice as much.
const STRETCH: u32 = 10;
const RATES_LOG: u64 = 7;
const RATE_UNIT: u64 = 1_000;

/// The minute with which the busiest twenty begin: ten past two in the afternoon, which is not published.
const BUSIEST_FIRST: u32 = 14 * 60 + 10;
/// Which of the twenty has the most, and which second of it.
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
    /// Disks.
    pub const DISKS: u32 = 8;
    /// What each request moves.
    pub const BLOCK: Bytes = Bytes(4_096);
    /// Requests in the day.
    pub const REQUESTS: u32 = 801_007;
    /// Requests in the busiest minute: "almost 3,000".
    pub const MINUTE_MAX: u32 = 2_990;
    /// Requests in the busiest 20 minutes.
    pub const BUSIEST_REQUESTS: u32 = 53_752;
    /// Requests in the busiest second.
    pub const SECOND_MAX: u32 = 207;
    /// What each disk holds: about three times as much as the largest of the sibling's. Not published.
    pub const UNIT: Sectors = Sectors(PLACE.0 << PLACES_LOG);

    /// The day of this seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, u64::from(MINUTES_A_DAY));
        let busiest = Self::busiest();
        let twenty = busiest.end - busiest.start;
        let mut minutes = vec![0_u32; MINUTES_A_DAY as usize];
        let place = |minute: u32| minute as usize;
        // Of the busiest twenty one has the most; the others share the rest, each up to a tenth more or less.
        let rest = Self::BUSIEST_REQUESTS - Self::MINUTE_MAX;
        let others = busiest.clone().filter(|minute| *minute != PEAK_MINUTE).map(place);
        let others: Vec<usize> = others.collect();
        let weights: Vec<u64> = (1..twenty).map(|_| 900 + dice.below(200)).collect();
        share_out(&mut minutes, &others, &weights, rest, Self::MINUTE_MAX - 1);
        minutes[place(PEAK_MINUTE)] = Self::MINUTE_MAX;
        // Of the rest of the day there is as much time at each power of two of rates as at any other.
        let least_busy = others.iter().map(|minute| minutes[*minute]).min().expect("nineteen");
        let day: Vec<usize> =
            (0..MINUTES_A_DAY).filter(|minute| !busiest.contains(minute)).map(place).collect();
        let mut stretches: Vec<u64> =
            (0..u64::from(MINUTES_A_DAY / STRETCH)).map(|nth| 1 << (nth % RATES_LOG)).collect();
        dice.shuffle(&mut stretches);
        let mut weight = |minute: &usize| {
            stretches[minute / STRETCH as usize] * (RATE_UNIT + dice.below(RATE_UNIT))
        };
        let weights: Vec<u64> = day.iter().map(&mut weight).collect();
        let rest = Self::REQUESTS - Self::BUSIEST_REQUESTS;
        share_out(&mut minutes, &day, &weights, rest, least_busy - 1);
        Self { seed, minutes }
    }

    /// The busiest twenty minutes, counted from the beginning of the day.
    pub const fn busiest() -> Range<u32> {
        BUSIEST_FIRST..BUSIEST_FIRST + 20
    }

    /// Requests in this minute of the day.
    ///
    /// # Panics
    /// If the day has ended by then.
    pub fn requests(&self, minute: u32) -> u32 {
        self.minutes[minute as usize]
    }

    /// One minute of the day, in the order of time; times count from the minute's beginning.
    ///
    /// # Panics
    /// If the day has ended by then.
    pub fn minute(&self, minute: u32) -> Vec<Timed> {
        let mut dice = Dice::new(self.seed, minute.into());
        let mut room = Room::new(minute);
        let mut left = self.requests(minute);
        let mut timed = Vec::with_capacity(left as usize);
        if minute == PEAK_MINUTE {
            left -= Self::SECOND_MAX;
            let mut burst = Burst::new(&mut dice);
            for nth in 0..u64::from(Self::SECOND_MAX) {
                let within = SECOND * nth / u64::from(Self::SECOND_MAX);
                let at = PEAK_SECOND as u64 * SECOND + within;
                timed.push(burst.request(Duration::from_nanos(at), &mut dice));
            }
        }
        while left > 0 {
            let length = burst_length(&mut dice).min(left);
            let mut burst = Burst::new(&mut dice);
            let times = room.times(length, &mut dice);
            timed.extend(times.into_iter().map(|at| burst.request(at, &mut dice)));
            left -= length;
        }
        timed.sort_by_key(|request| request.at);
        timed
    }
}

/// Gives `total` to `places` by their weights, to none of them more than `most`, and exactly.
fn share_out(minutes: &mut [u32], places: &[usize], weights: &[u64], total: u32, most: u32) {
    let sum: u64 = weights.iter().sum();
    let mut left = total;
    for (place, weight) in places.iter().zip(weights) {
        let part = u64::from(total) * weight / sum;
        let part = u32::try_from(part).expect("a part of it").min(most);
        minutes[*place] = part;
        left -= part;
    }
    let mut next = places.iter().cycle();
    while left > 0 {
        let place = *next.next().expect("it goes on and on");
        let more = u32::from(minutes[place] < most);
        minutes[place] += more;
        left -= more;
    }
}

/// The requests of a burst: a geometric number, of one of two means.
fn burst_length(dice: &mut Dice) -> u32 {
    let mean = LENGTHS[usize::from(dice.chance(LONG))];
    let mut length = 1;
    while dice.below(mean) != 0 {
        length += 1;
    }
    length
}

/// The seconds of a minute, and how many requests each may still get.
struct Room([u32; SECONDS_A_MINUTE]);

impl Room {
    fn new(minute: u32) -> Self {
        let mut room = [Cello::SECOND_MAX - 1; SECONDS_A_MINUTE];
        if minute == PEAK_MINUTE {
            room[PEAK_SECOND] = 0;
        }
        Self(room)
    }

    /// The times of a burst's requests, in seconds that have room.
    fn times(&mut self, length: u32, dice: &mut Dice) -> Vec<Duration> {
        let minute = SECOND * SECONDS_A_MINUTE as u64;
        for _ in 0..TRIES_MAX {
            let mut at = dice.below(minute);
            let mut times = Vec::with_capacity(length as usize);
            for _ in 0..length {
                times.push(at % minute);
                at += dice.exponential(PAUSE).as_nanos();
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
        unreachable!("a minute of {} seconds has room for them all", SECONDS_A_MINUTE)
    }
}

/// One burst: to one disk, reading or writing, from place to place.
struct Burst {
    op: Op,
    unit: u32,
    place: u64,
}

impl Burst {
    fn new(dice: &mut Dice) -> Self {
        let op = if dice.chance(READS) { Op::Read } else { Op::Write };
        let unit = u32::try_from(dice.below(Cello::DISKS.into())).expect("eight");
        Self { op, unit, place: place(dice) }
    }

    fn request(&mut self, at: Duration, dice: &mut Dice) -> Timed {
        if !dice.chance(STAYS) {
            self.place = place(dice);
        }
        let len = Sectors(Cello::BLOCK.0 / units::SECTOR_BYTES);
        let within = dice.below(PLACE.0 / len.0) * len.0;
        Timed { at, op: self.op, unit: self.unit, start: Lba(self.place * PLACE.0 + within), len }
    }
}

/// A megabyte: each power of two of ranks is as likely as any other, and ranks lie all over the disk.
fn place(dice: &mut Dice) -> u64 {
    /// An odd number about the golden part of the places: neighbours in rank lie far apart.
    const SPREAD: u64 = 633;
    let power = dice.below(PLACES_LOG.into());
    let rank = (1 << power) + dice.below(1 << power);
    rank * SPREAD % (1 << PLACES_LOG)
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

    /// What the sibling trace has, within a few points of it.
    #[test]
    fn bursts_writes_and_places_are_the_sibling_trace_s() {
        let cello = Cello::new(1);
        // An hour of the early morning, when bursts do not run into one another.
        let timed: Vec<Timed> = (180..240).flat_map(|minute| cello.minute(minute)).collect();
        let number = |of: usize| f64::from(u32::try_from(of).expect("few"));
        let part = |of: usize| number(of) / number(timed.len()) * 100.0;
        let mut dice = Dice::new(1, 0);
        let lengths: Vec<f64> = (0..20_000).map(|_| f64::from(burst_length(&mut dice))).collect();
        let (sum, squares): (f64, f64) =
            lengths.iter().fold((0.0, 0.0), |(s, q), length| (s + length, q + length * length));
        let (mean, of_a_request) = (sum / 20_000.0, squares / sum);
        assert!((6.6..8.6).contains(&mean), "{mean} requests in a burst");
        assert!((22.0..33.0).contains(&of_a_request), "{of_a_request} in a request's burst");
        let reads = part(timed.iter().filter(|request| request.op == Op::Read).count());
        assert!((24.0..34.0).contains(&reads), "{reads} % read");
        let mut places = vec![0_usize; 1 << PLACES_LOG];
        for request in &timed {
            places[usize::try_from(request.start.0 / PLACE.0).expect("1,024")] += 1;
        }
        places.sort_unstable_by(|a, b| b.cmp(a));
        let first = |count: usize| part(places[..count].iter().sum());
        // On a disk with four times the places, each step up to the most visited is one of ten, not of eight.
        for (count, told) in [(1, 11.8), (3, 20.0), (30, 50.0), (100, 66.0)] {
            let had = first(count);
            assert!((had - told).abs() < 6.0, "{count} MB have {had} %");
        }
    }
}
