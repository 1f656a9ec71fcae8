//! Finds where one rule for phases ends and the next begins, by reads on both sides of the
//! candidates.
//!
//! Reads before the boundary complete at the phases of one rule, and reads behind it at those of
//! the other. Every read near it is evidence, and the next one is where the evidence is least
//! decided. Each bisection step needs a few reads, however noisy single ones are.

use crate::bench::StopReason;
use crate::estimate::angle::wrap;
use crate::estimate::number::{floor, real, round};
use crate::layout::block::Block;
use crate::layout::probe::Probe;

/// The most evidence of a single read against a rule, as a logarithm: some reads are late for other
/// reasons.
const AGAINST_MAX: f64 = 7.0;
/// The prior evidence against a rule whose tracks begin slightly off.
const SLIPPED: f64 = 2.5;
/// The least difference of the rules, in standard deviations, at which a read is evidence: either
/// rule may be off by as much.
const APART_LEAST: f64 = 1.2;
/// The same where the errors of the rules are modelled: then many reads show what one does not.
const APART_LEAST_UNSURE: f64 = 0.5;
/// The most repetitions of a search that reads beside the boundary contradict.
const CONFIRMED_MAX: u32 = 3;
/// The reads that confirm a boundary.
const CONFIRM: u32 = 24;
/// A difference of the rules, in standard deviations, beyond which a read is no better evidence.
const APART_ENOUGH: f64 = 3.5;
/// The most reads of one block: it may be remapped, and follow neither rule.
const OFTEN: usize = 6;
/// The candidates among which the next read is chosen.
const CANDIDATES: u64 = 48;
/// The probability left to contradicted candidates: some reads are late for other reasons.
const DOUBT: f64 = 0.02;
/// The least share of the undecided probability that a read must decide: where the rules nearly
/// meet, no read shows which one holds.
const OPEN_LEAST: f64 = 0.02;
/// The probability from which on the mode is taken for the boundary, however wide the rest is.
const LIKELY: f64 = 0.3;

/// A search for a boundary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'s> {
    /// The first candidate: the first block behind the boundary.
    pub(crate) from: Block,
    /// The last candidate.
    pub(crate) to: Block,
    /// The accepted uncertainty, in blocks.
    pub(crate) width: u64,
    /// The accepted probability of another boundary, if there are reads left.
    pub(crate) doubt: f64,
    /// The blocks at which either rule begins a track: only the few blocks that the rules place on
    /// different tracks distinguish boundaries a track apart.
    pub(crate) begins: &'s [Block],
    /// The most blocks by which a rule's track boundaries may be off, after slipped sectors.
    pub(crate) slack: u64,
    /// The reads that are spread evenly first: each later read depends on earlier ones, and a few
    /// misleading reads would misdirect all others.
    pub(crate) spread: u32,
    /// The least number of reads.
    pub(crate) reads_min: u32,
    /// The most reads.
    pub(crate) reads: u32,
    /// The standard deviation of a phase about the right rule, in revolutions.
    pub(crate) sigma: f64,
    /// The standard errors of the level of either rule, in revolutions.
    pub(crate) unsure: (f64, f64),
    /// The blocks on either side of the result that are read to confirm it: each earlier read
    /// depended on the evidence, and no read is spent on a candidate that much chance evidence
    /// contradicts.
    pub(crate) confirm: u64,
}

impl Search<'_> {
    /// The least difference of the rules, in standard deviations, at which a read is evidence.
    fn apart_least(&self) -> f64 {
        if self.unsure == (0.0, 0.0) { APART_LEAST } else { APART_LEAST_UNSURE }
    }
}

/// A read near the boundary, with its deviations from both rules.
#[derive(Clone, Copy, Debug)]
struct Read {
    at: Block,
    before: Off,
    behind: Off,
}

/// The deviation of a read from a rule, and from the nearest of the rules whose tracks begin
/// slightly off.
#[derive(Clone, Copy, Debug)]
struct Off {
    exactly: f64,
    slipped: f64,
}

/// Reads on one side of the boundary, compared with one rule.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// The number of reads near the rule, and the sum of their deviations, in standard deviations.
    near: f64,
    off: f64,
    /// The evidence against the rule.
    against: f64,
}

impl Held {
    fn with(self, off: f64, sigma: f64) -> Self {
        let against = against(off, 0.0, sigma);
        let (near, off) = if against < AGAINST_MAX { (1.0, off / sigma) } else { (0.0, 0.0) };
        Self { near: self.near + near, off: self.off + off, against: self.against + against }
    }

    /// The evidence against the rule, integrated over its level with a standard error of `unsure`
    /// standard deviations of a read.
    fn speaks(self, unsure: f64) -> f64 {
        let square = unsure * unsure;
        let times = 1.0 + self.near * square;
        self.against + 0.5 * (logarithm(times) - self.off * self.off * square / times)
    }
}

/// The same for the rule and for one whose tracks begin slightly off. One of the two holds for all
/// reads.
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

/// The state of a search.
struct Known<'s> {
    search: &'s Search<'s>,
    /// The prior logarithm of the probability of each candidate.
    before_reading: Vec<f64>,
    /// Reads in the order of their addresses.
    reads: Vec<Read>,
    /// The logarithm of the probability of each candidate.
    evidence: Vec<f64>,
    best: Boundary,
}

impl Known<'_> {
    /// Adds a read.
    fn add(&mut self, read: Read) {
        let place = self.reads.partition_point(|other| other.at < read.at);
        self.reads.insert(place, read);
    }

    /// Computes the probabilities of all candidates.
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
            // A block is before the boundary if the candidate is behind the block.
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

/// The boundary that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary {
    /// The most probable first block behind it.
    pub(crate) at: Block,
    /// Its probability.
    pub(crate) sure: f64,
    /// The blocks that hold 95 per cent of the probability.
    pub(crate) width: u64,
}

/// Finds the boundary between two rules, which give the phase at which a read of a block completes.
/// `before_reading` is the prior logarithm of the probability of each candidate.
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

/// Reads the most informative blocks until the boundary is decided or the reads are used.
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
        // Once one candidate stands out, every second read distinguishes it from those of equal
        // evidence.
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

/// The next block to read: where the rules differ, and a boundary before it is as probable as one
/// behind it.
fn choose(
    probe: &mut Probe<'_, '_>,
    search: &Search<'_>,
    (best, evidence, read): (&Boundary, &[f64], &[Block]),
    (apart, doubt): (&dyn Fn(Block) -> f64, f64),
) -> Option<Block> {
    let sums = sums(evidence);
    let all = sums.last().copied()?;
    // The probability of a boundary up to and including a block: then the block is behind it.
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
        // Contradicted candidates keep a small probability.
        let told = (open + doubt) * apart.min(APART_ENOUGH).powi(2);
        if open >= least && told > most.0 {
            most = (told, Some(at));
        }
    }
    most.1
}

/// Candidates for the next read.
fn candidates(
    probe: &mut Probe<'_, '_>,
    search: &Search<'_>,
    (best, sums): (&Boundary, &[f64]),
) -> Vec<Block> {
    let all = sums.last().copied().unwrap_or(0.0);
    let mut found = Vec::new();
    for nth in 0..CANDIDATES {
        let at = if nth % 2 == 0 {
            // Distributed as the boundary is.
            let sum = probe.next_random() * all;
            search.from + sums.partition_point(|other| *other < sum) as u64
        } else {
            // Evenly within the uncertain range.
            let reach = real(best.width / 2 + 2);
            round(real(best.at) - 0.5 + (probe.next_random() - 0.5) * 2.0 * reach)
        };
        // A block just before a candidate is as informative as one just behind it.
        found.push(at.saturating_sub(nth / 2 % 2));
    }
    // From one track boundary to the next the difference of the rules is nearly constant.
    for stretch in search.begins.windows(2) {
        found.push(stretch[0] + floor(probe.next_random() * real(stretch[1] - stretch[0])));
    }
    found
}

/// Cumulative weights of consecutive candidates.
fn sums(evidence: &[f64]) -> Vec<f64> {
    let most = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    let add = |evidence: &f64| {
        sum += power(most - evidence);
        sum
    };
    evidence.iter().map(add).collect()
}

/// The evidence of a read at one phase against a rule that predicts another, at most
/// [`AGAINST_MAX`].
pub(crate) fn against(phase: f64, rule: f64, sigma: f64) -> f64 {
    (0.5 * (wrap(phase - rule) / sigma).powi(2)).min(AGAINST_MAX)
}

/// The deviation of a read from a rule, whose tracks may begin slightly off.
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

/// The boundary that the evidence of consecutive candidates, from `from` on, indicates.
pub(crate) fn weigh(from: Block, evidence: &[f64]) -> Boundary {
    let most = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // The weight is a power per unit of evidence, computed by products alone, which are the same on
    // every machine.
    let weights: Vec<f64> = evidence.iter().map(|evidence| power(most - evidence)).collect();
    let all: f64 = weights.iter().sum();
    assert!(all > 0.0, "the most probable candidate has a weight");
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

/// An approximation of e^-number, by products.
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

/// An approximation of the natural logarithm of a number of at least one, by halvings and products,
/// as [`power`].
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
