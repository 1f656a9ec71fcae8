//! Where one thing ends and the next begins, found by reading on both sides of where it may be.
//!
//! Before the boundary reads end at the phases that one rule says, behind it at those of another. Every read near it is
//! evidence; the next one is where the evidence leaves most open. It needs a few reads for each halving, however noisy
//! single ones are.

use crate::bench::Halt;
use crate::circle::{nearest, real, wrap};
use crate::probe::{Block, Probe};

/// A single read is never evidence of more than this against a rule: some are late for reasons of their own.
const AGAINST_MAX: f64 = 7.0;
/// Rules that differ by less than this many standard deviations tell nothing.
const APART_MIN: f64 = 1.6;
/// If nothing better is to be had, this is enough.
const APART_LEAST: f64 = 0.8;
/// So many blocks outside of what is in question may be read.
const OUTSIDE: u64 = 64;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The first block that may be the first behind the boundary.
    pub(crate) from: Block,
    /// The last such block.
    pub(crate) to: Block,
    /// How many blocks may be left in question.
    pub(crate) width: u64,
    /// How many reads to spend at least.
    pub(crate) reads_min: u32,
    /// How many reads to spend at most.
    pub(crate) reads: u32,
    /// The standard deviation of a phase about the right rule, in turns.
    pub(crate) sigma: f64,
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
    search: &Search,
    before: &dyn Fn(Block) -> f64,
    behind: &dyn Fn(Block) -> f64,
    before_reading: &dyn Fn(Block) -> f64,
) -> Result<Boundary, Halt> {
    let count = usize::try_from(search.to.saturating_sub(search.from) + 1).unwrap_or(1);
    // Evidence of each place, as a logarithm.
    let mut evidence: Vec<f64> = (search.from..).take(count).map(before_reading).collect();
    let mut best = weigh(search.from, &evidence);
    let mut reads = 0;
    let mut tries = 0;
    while reads < search.reads
        && (best.width > search.width || reads < search.reads_min)
        && tries < 3 * search.reads
    {
        tries += 1;
        let Some(at) = choose(probe, search, &best, (before, behind)) else { break };
        let Some(sample) = probe.sample_again(at)? else { continue };
        reads += 1;
        let phase = probe.phase(&sample);
        let if_before = against(phase, before(at), search.sigma);
        let if_behind = against(phase, behind(at), search.sigma);
        for (place, evidence) in (search.from..).zip(&mut evidence) {
            // The block is before the boundary if that lies behind it.
            *evidence -= if at < place { if_before } else { if_behind };
        }
        best = weigh(search.from, &evidence);
    }
    Ok(best)
}

/// Where to read next: near the middle of what is in question, where the rules differ.
fn choose(
    probe: &mut Probe<'_, '_>,
    search: &Search,
    best: &Boundary,
    (before, behind): (&dyn Fn(Block) -> f64, &dyn Fn(Block) -> f64),
) -> Option<Block> {
    let reach = real(best.width / 4 + 2);
    let mut widest = (APART_LEAST * search.sigma, None);
    for nth in 0..32 {
        // First near the middle, then in all that is in question.
        let reach = if nth < 8 { reach } else { 2.0 * reach };
        let at = nearest(real(best.at) - 0.5 + (probe.even() - 0.5) * 2.0 * reach);
        let inside = at + OUTSIDE >= search.from && at <= search.to + OUTSIDE && at < probe.blocks;
        let apart = wrap(before(at) - behind(at)).abs();
        if inside && apart > APART_MIN * search.sigma {
            return Some(at);
        }
        if inside && apart > widest.0 {
            widest = (apart, Some(at));
        }
    }
    widest.1
}

/// By how much a read that should end at one phase but ended at another speaks against that, at most
/// [`AGAINST_MAX`].
pub(crate) fn against(phase: f64, rule: f64, sigma: f64) -> f64 {
    (0.5 * (wrap(phase - rule) / sigma).powi(2)).min(AGAINST_MAX)
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
    let at = if width <= 8 { mode.1 } else { middle.unwrap_or(0) };
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
