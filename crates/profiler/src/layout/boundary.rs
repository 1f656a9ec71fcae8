//! Where one thing ends and the next begins, found by reading on both sides of where it may be.
//!
//! Before the boundary reads end at the phases that one rule says, behind it at those of another. Every read near it is
//! evidence; the next one is where the evidence leaves most open. It needs a few reads for each halving, however noisy
//! single ones are.

use crate::bench::StopReason;
use crate::estimate::angle::wrap;
use crate::estimate::number::{floor, real, round};
use crate::layout::block::Block;
use crate::layout::probe::Probe;

/// A single read is never evidence of more than this against a rule: some are late for reasons of their own.
const AGAINST_MAX: f64 = 7.0;
/// What speaks against a rule by which tracks begin a little beside where they do.
const SLIPPED: f64 = 2.5;
/// Rules that differ by less than this many standard deviations tell nothing: either may be off by as much.
const APART_LEAST: f64 = 1.2;
/// The same where it counts by how much either may be off: then many reads tell what one does not.
const APART_LEAST_UNSURE: f64 = 0.5;
/// How often a boundary is looked for again at most, where reads beside it say otherwise.
const CONFIRMED_MAX: u32 = 3;
/// Reads beside it by which it is confirmed.
const CONFIRM: u32 = 24;
/// Rules that differ by more tell no more.
const APART_ENOUGH: f64 = 3.5;
/// A block that was read so often says nothing new: it may lie where neither rule has it.
const OFTEN: usize = 6;
/// Places among which the next read is chosen.
const CANDIDATES: u64 = 48;
/// How much is left where everything speaks against it: some reads are late for reasons of their own.
const DOUBT: f64 = 0.02;
/// A read tells nothing of the few places that are left if it is about a smaller part of what is open: where the rules nearly
/// meet, no read tells which holds.
const OPEN_LEAST: f64 = 0.02;
/// A place that is so likely is taken for the boundary, however wide the rest is spread.
const LIKELY: f64 = 0.3;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'s> {
    /// The first block that may be the first behind the boundary.
    pub(crate) from: Block,
    /// The last such block.
    pub(crate) to: Block,
    /// How many blocks may be left in question.
    pub(crate) width: u64,
    /// How probable it may be that it is another place, if reads last.
    pub(crate) doubt: f64,
    /// Where either rule has a track begin: two places a track apart may be told on the few blocks alone that one rule has on
    /// a track and the other on the next.
    pub(crate) begins: &'s [Block],
    /// By so many blocks a rule may have its tracks begin at wrong places, where something was slipped on the way.
    pub(crate) slack: u64,
    /// How many reads to spread evenly first: what is asked next is decided by what was seen, and a few misleading reads
    /// would decide it for good.
    pub(crate) spread: u32,
    /// How many reads to spend at least.
    pub(crate) reads_min: u32,
    /// How many reads to spend at most.
    pub(crate) reads: u32,
    /// The standard deviation of a phase about the right rule, in turns.
    pub(crate) sigma: f64,
    /// By how much either rule may be off all along, as a standard deviation in turns.
    pub(crate) unsure: (f64, f64),
    /// So many blocks on either side are read at last: what is asked next is decided by what was seen, and where much
    /// speaks against a place by chance nothing is asked any more.
    pub(crate) confirm: u64,
}

impl Search<'_> {
    /// Rules that differ by less, in standard deviations, tell nothing.
    fn apart_least(&self) -> f64 {
        if self.unsure == (0.0, 0.0) { APART_LEAST } else { APART_LEAST_UNSURE }
    }
}

/// A read near a boundary: by how much it is off what either rule says.
#[derive(Clone, Copy, Debug)]
struct Read {
    at: Block,
    before: Off,
    behind: Off,
}

/// By how much a read is off a rule as it is, and off the nearest of those that have tracks begin a little beside where it does.
#[derive(Clone, Copy, Debug)]
struct Off {
    exactly: f64,
    slipped: f64,
}

/// Reads on one side of a boundary, held against one rule.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// How many of them lie near it, and the sum of what they are off, in standard deviations.
    near: f64,
    off: f64,
    /// What speaks against the rule as it is.
    against: f64,
}

impl Held {
    fn with(self, off: f64, sigma: f64) -> Self {
        let against = against(off, 0.0, sigma);
        let (near, off) = if against < AGAINST_MAX { (1.0, off / sigma) } else { (0.0, 0.0) };
        Self { near: self.near + near, off: self.off + off, against: self.against + against }
    }

    /// What speaks against the rule, whatever its level is: that is off by so many standard deviations of a read, as one.
    fn speaks(self, unsure: f64) -> f64 {
        let square = unsure * unsure;
        let times = 1.0 + self.near * square;
        self.against + 0.5 * (logarithm(times) - self.off * self.off * square / times)
    }
}

/// The same, held against the rule as it is and against what it would be with tracks that begin a little elsewhere. Either
/// holds for all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    exactly: Held,
    slipped: Held,
}

impl Side {
    fn with(self, off: Off, sigma: f64) -> Self {
        Self {
            exactly: self.exactly.with(off.exactly, sigma),
            slipped: self.slipped.with(off.slipped, sigma),
        }
    }

    fn speaks(self, unsure: f64) -> f64 {
        self.exactly.speaks(unsure).min(self.slipped.speaks(unsure) + SLIPPED)
    }
}

/// What is known of a boundary that is looked for.
struct Known<'s> {
    search: &'s Search<'s>,
    /// How likely each place was before anything was read, as a logarithm.
    before_reading: Vec<f64>,
    /// In the order of their places.
    reads: Vec<Read>,
    /// Evidence of each place, as a logarithm.
    evidence: Vec<f64>,
    best: Boundary,
}

impl Known<'_> {
    /// Adds a read.
    fn add(&mut self, read: Read) {
        let place = self.reads.partition_point(|other| other.at < read.at);
        self.reads.insert(place, read);
    }

    /// Weighs every place anew.
    fn weigh(&mut self) {
        let Search { from, sigma, unsure, .. } = *self.search;
        let unsure = (unsure.0 / sigma, unsure.1 / sigma);
        let mut behind = vec![Side::default()];
        for read in self.reads.iter().rev() {
            behind.push(behind[behind.len() - 1].with(read.behind, sigma));
        }
        let mut before = Side::default();
        let mut reads = self.reads.iter().peekable();
        let speaks = |before: Side, behind: &[Side]| {
            before.speaks(unsure.0) + behind.last().map_or(0.0, |side| side.speaks(unsure.1))
        };
        let mut against = speaks(before, &behind);
        for ((place, evidence), likely) in
            (from..).zip(&mut self.evidence).zip(&self.before_reading)
        {
            let mut more = false;
            // A block is before the boundary if that lies behind it.
            while let Some(read) = reads.next_if(|read| read.at < place) {
                before = before.with(read.before, sigma);
                behind.pop();
                more = true;
            }
            if more {
                against = speaks(before, &behind);
            }
            *evidence = likely - against;
        }
        self.best = weigh(from, &self.evidence);
    }
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary {
    /// The first block behind it, most probably.
    pub(crate) at: Block,
    /// Its probability.
    pub(crate) sure: f64,
    /// How many blocks hold nineteen twentieths of the probability.
    pub(crate) width: u64,
}

/// Looks for the boundary between two rules, that say at which phase a read of a block ends. `before_reading` is how
/// likely each place is before anything is read, as a logarithm.
///
/// # Errors
/// As [`crate::Bench::check`].
pub(crate) fn boundary(
    probe: &mut Probe<'_, '_>,
    search: &Search<'_>,
    before: &dyn Fn(Block) -> f64,
    behind: &dyn Fn(Block) -> f64,
    before_reading: &dyn Fn(Block) -> f64,
) -> Result<Boundary, StopReason> {
    let count = usize::try_from(search.to.saturating_sub(search.from) + 1).unwrap_or(1);
    let before_reading: Vec<f64> = (search.from..).take(count).map(before_reading).collect();
    let evidence = before_reading.clone();
    let best = weigh(search.from, &evidence);
    let mut known = Known { search, before_reading, reads: Vec::new(), evidence, best };
    let apart = |at: Block| wrap(before(at) - behind(at)).abs() / search.sigma;
    let read = |at: Block, phase: f64| Read {
        at,
        before: off_near(phase, (before, at), search),
        behind: off_near(phase, (behind, at), search),
    };
    let length = real(search.to.saturating_sub(search.from));
    let first = probe.samples(search.spread, |part| search.from + floor(part * length))?;
    for sample in first.iter().filter(|sample| apart(sample.at) > search.apart_least()) {
        known.add(read(sample.at, probe.phase(sample)));
    }
    known.weigh();
    for _ in 0..CONFIRMED_MAX {
        ask(probe, &mut known, &apart, &read)?;
        let at = known.best.at;
        if search.confirm == 0 {
            break;
        }
        let low = at.saturating_sub(search.confirm).max(search.from);
        let length = real((at + search.confirm).min(search.to).saturating_sub(low));
        for sample in probe.samples(CONFIRM, |part| low + floor(part * length))? {
            if apart(sample.at) > search.apart_least() {
                known.add(read(sample.at, probe.phase(&sample)));
            }
        }
        known.weigh();
        if known.best.at == at {
            break;
        }
    }
    Ok(known.best)
}

/// Reads where that tells most, until it is told where the boundary is, or reads are spent.
fn ask(
    probe: &mut Probe<'_, '_>,
    known: &mut Known<'_>,
    apart: &dyn Fn(Block) -> f64,
    read: &dyn Fn(Block, f64) -> Read,
) -> Result<(), StopReason> {
    let search = known.search;
    let mut asked = Vec::new();
    let (mut reads, mut tries) = (0, 0);
    let told = |best: &Boundary| best.width <= search.width && 1.0 - best.sure <= search.doubt;
    while reads < search.reads
        && (!told(&known.best) || reads < search.reads_min)
        && tries < 3 * search.reads
    {
        tries += 1;
        // Once a place stands out every other read goes between it and those that are as likely.
        let few = known.best.sure > LIKELY && tries % 2 == 0;
        let doubt = if few { 0.0 } else { DOUBT };
        let so_far = (&known.best, &known.evidence[..], &asked[..]);
        let Some(at) = choose(probe, search, so_far, (apart, doubt)) else {
            if few && reads < search.reads_min {
                continue;
            }
            break;
        };
        asked.push(at);
        let Some(sample) = probe.sample_again(at)? else { continue };
        reads += 1;
        known.add(read(at, probe.phase(&sample)));
        known.weigh();
    }
    Ok(())
}

/// Where to read next: where the rules differ and as much speaks for a boundary before it as for one behind it.
fn choose(
    probe: &mut Probe<'_, '_>,
    search: &Search<'_>,
    (best, evidence, read): (&Boundary, &[f64], &[Block]),
    (apart, doubt): (&dyn Fn(Block) -> f64, f64),
) -> Option<Block> {
    let sums = sums(evidence);
    let all = sums.last().copied()?;
    // How much speaks for a boundary up to and with a block: then the block lies behind it.
    let behind_it = |at: Block| match at.checked_sub(search.from) {
        None => 0.0,
        Some(nth) => {
            sums.get(usize::try_from(nth).unwrap_or(usize::MAX)).copied().unwrap_or(all) / all
        }
    };
    let least = if doubt > 0.0 { 0.0 } else { OPEN_LEAST * (1.0 - best.sure) };
    let mut most = (0.0, None);
    for at in candidates(probe, search, (best, &sums)) {
        let apart = apart(at);
        let often = || read.iter().filter(|other| **other == at).count() >= OFTEN;
        if at >= probe.blocks || apart < search.apart_least() || often() {
            continue;
        }
        let sum = behind_it(at);
        let open = sum * (1.0 - sum);
        // Doubtful beliefs leave a little everywhere.
        let told = (open + doubt) * apart.min(APART_ENOUGH).powi(2);
        if open >= least && told > most.0 {
            most = (told, Some(at));
        }
    }
    most.1
}

/// Blocks that may be read next.
fn candidates(
    probe: &mut Probe<'_, '_>,
    search: &Search<'_>,
    (best, sums): (&Boundary, &[f64]),
) -> Vec<Block> {
    let all = sums.last().copied().unwrap_or(0.0);
    let mut found = Vec::new();
    for nth in 0..CANDIDATES {
        let at = if nth % 2 == 0 {
            // As it is believed.
            let sum = probe.even() * all;
            search.from + sums.partition_point(|other| *other < sum) as u64
        } else {
            // Near what is in question, evenly.
            let reach = real(best.width / 2 + 2);
            round(real(best.at) - 0.5 + (probe.even() - 0.5) * 2.0 * reach)
        };
        // A block just before a place tells as much of it as one just behind it.
        found.push(at.saturating_sub(nth / 2 % 2));
    }
    // From one of these to the next the rules are equally far apart, but for little.
    for stretch in search.begins.windows(2) {
        found.push(stretch[0] + floor(probe.even() * real(stretch[1] - stretch[0])));
    }
    found
}

/// Sums of the weights of places in a row.
fn sums(evidence: &[f64]) -> Vec<f64> {
    let most = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    let add = |evidence: &f64| {
        sum += power(most - evidence);
        sum
    };
    evidence.iter().map(add).collect()
}

/// By how much a read that should end at one phase but ended at another speaks against that, at most
/// [`AGAINST_MAX`].
pub(crate) fn against(phase: f64, rule: f64, sigma: f64) -> f64 {
    (0.5 * (wrap(phase - rule) / sigma).powi(2)).min(AGAINST_MAX)
}

/// By how much a read is off a rule, that may have its tracks begin a little earlier or later.
fn off_near(phase: f64, (rule, at): (&dyn Fn(Block) -> f64, Block), search: &Search<'_>) -> Off {
    let exactly = wrap(phase - rule(at));
    if search.slack == 0 {
        return Off { exactly, slipped: exactly };
    }
    let step = |from: Block, to: Block| wrap(rule(to) - rule(from)).abs();
    let slope = step(at, at + 1).min(step(at + 1, at + 2)) * real(search.slack);
    let earlier = rule(at + search.slack) - slope;
    let later = rule(at.saturating_sub(search.slack)) + slope;
    let nearer = |one: f64, other: f64| if other.abs() < one.abs() { other } else { one };
    let slipped = [earlier, later].map(|rule| wrap(phase - rule)).into_iter().fold(exactly, nearer);
    Off { exactly, slipped }
}

/// What evidence of places in a row says, the first of which is `from`.
pub(crate) fn weigh(from: Block, evidence: &[f64]) -> Boundary {
    let most = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A power of two for each unit of evidence, whole ones exactly: products alone, and the same everywhere.
    let weights: Vec<f64> = evidence.iter().map(|evidence| power(most - evidence)).collect();
    let all: f64 = weights.iter().sum();
    let (mut sum, mut low, mut middle, mut high) = (0.0, None, None, None);
    let mut mode = (0.0, 0);
    for (nth, weight) in (0_u64..).zip(&weights) {
        sum += weight;
        let reached = |part: f64| (sum >= part * all).then_some(nth);
        low = low.or_else(|| reached(0.025));
        middle = middle.or_else(|| reached(0.5));
        high = high.or_else(|| reached(0.975));
        if *weight > mode.0 {
            mode = (*weight, nth);
        }
    }
    let width = high.unwrap_or(0) - low.unwrap_or(0) + 1;
    let at = if width <= 8 || mode.0 > LIKELY * all { mode.1 } else { middle.unwrap_or(0) };
    Boundary { at: from + at, sure: mode.0 / all, width }
}

/// e to the minus `number`, near enough: a product of halvings.
fn power(number: f64) -> f64 {
    if number > 60.0 {
        return 0.0;
    }
    // e^-x = (e^(-x/64))^64, and e^-y is nearly 1 - y + y²/2 - y³/6 for a small y.
    let small = number / 64.0;
    let mut value = 1.0 - small + small * small / 2.0 - small * small * small / 6.0;
    for _ in 0..6 {
        value *= value;
    }
    value
}

/// The natural logarithm of a number of one or more, near enough: halvings and products, as [`power`].
pub(crate) fn logarithm(number: f64) -> f64 {
    let (mut rest, mut value) = (number, 0.0);
    while rest > 1.5 {
        rest /= 2.0;
        value += core::f64::consts::LN_2;
    }
    value + 2.0 * (rest - 1.0) / (rest + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_weighed_as_a_probability() {
        assert!((power(1.0) - 0.367_879).abs() < 1e-4 && power(30.0) < 1e-12);
        assert!((logarithm(12.0) - 2.484_907).abs() < 1e-2 && logarithm(1.0).abs() < 1e-12);
        let found = weigh(100, &[0.0, 0.0, 10.0, 0.0]);
        assert_eq!((found.at, found.width), (102, 1));
        assert!(found.sure > 0.99);
        assert_eq!(weigh(0, &[0.0; 100]).width, 96);
    }
}
