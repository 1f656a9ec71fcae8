//! Heads and the order of surfaces, where angles do not show them: from the minimum leads between
//! tracks.
//!
//! A target track is hit in time or missed by a revolution, which noise cannot blur. The minimum
//! lead grows with the distance in cylinders, and has another floor for a head switch. Short
//! distances from many tracks are probed at and beside the estimate, so that the deviation of each
//! lead shows: a seek varies more than a head switch. [`crate::layout::cylinder_likelihood`] infers
//! the heads.

use core::ops::RangeInclusive;

use units::Share;

use crate::bench::StopReason;
use crate::estimate::angle::wrap;
use crate::estimate::bisection::{BisectionEstimator, Estimate, Prior, ReachBound, SectorDelay};
use crate::estimate::number::{floor, fraction, real};
use crate::layout::block::Block;
use crate::layout::block::HEADS_MAX;
use crate::layout::cylinder_fit::under;
use crate::layout::cylinder_likelihood::{Angles, HeadLayout, Lead, SPREADS, explain};
use crate::layout::probe::Probe;
use crate::layout::segment::Segment;
use crate::layout::track_layout::TrackLayout;
use drive_profile::findings::Figure;

/// The time between the source's completion and the next command, in ns: longer than completions
/// are observed late.
const GAP: f64 = 1.3e6;
/// The location of a source on its track: its read-ahead does not leave the track before the next
/// command.
const SOURCE: (f64, f64) = (0.08, 0.45);
/// The least distance of a target from the ends of its track: slipped sectors move these.
const EDGE: f64 = 0.12;
/// The longest lead considered, in revolutions.
pub(crate) const LEAD_MAX: f64 = 1.9;
/// The most attempts to choose a source with a suitable target.
const DRAWS: u32 = 16;
/// The initial standard deviation of a lead, in ns.
const SPREAD_FIRST: f64 = 96e3;
/// The offsets of probes from the estimate, in standard deviations.
const OFFSETS: [f64; 5] = [0.0, 1.0, -1.0, 2.0, -2.0];
/// The least number of bounds of a lead, and the bounds of one round.
const BOUNDS_MIN: usize = 5;
/// The likelihood is evaluated when the bounds have grown by this part, inverted.
const BOUNDS_GROWTH: usize = 4;
/// A larger angular deviation, in standard deviations, is late or remapped.
const ANGLES_REACH: f64 = 5.0;
/// The least number of leads.
const LEADS_MIN: usize = 12;
/// The least error of a lead, in ns: instants and sectors are whole numbers.
const EXACT: f64 = 700.0;
/// The prior width of a lead about the known ones, in ns.
const AROUND: f64 = 200e3;
/// The tracks that are probed.
const TRACKS_MAX: i64 = 1_200;
/// The most reads for the first lead.
const FIRST_READS: u32 = 60;
/// The distances in tracks, the probes of each, and the share of the time up to which they run.
/// Short distances show where cylinders begin as well, since each begins at another track. Where
/// the next cylinder is as near as the next head, longer distances show it.
const STAGES: [(RangeInclusive<i64>, u32, f64); 3] =
    [(1..=6, 6, 0.3), (7..=24, 1, 0.6), (25..=HEADS_MAX as i64, 1, 1.0)];

/// The heads that were found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundHeads {
    /// How tracks form cylinders, from a base track on.
    pub(crate) head_layout: HeadLayout,
    pub(crate) track: i64,
    /// The number of reads.
    pub(crate) samples: u32,
}

impl FoundHeads {
    /// The tracks of its cylinder before the layout's anchor.
    pub(crate) fn first(&self) -> u32 {
        under(i64::from(self.head_layout.before) - self.track, self.head_layout.heads)
    }

    /// Tracks on a cylinder.
    pub(crate) fn heads(&self) -> Figure<u32> {
        let (value, samples) = (self.head_layout.heads, self.samples);
        Figure { value, spread: 0, samples, confidence: Share::from_percent(95) }
    }
}

/// Reads a block of one track, then a block of another that ends its pass `lead` ns after the
/// command. The bounds of the minimum lead, if it was observable.
pub(crate) fn probe_lead(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (from, to): (i64, i64),
    lead: f64,
) -> Result<Option<ReachBound>, StopReason> {
    let spt = real(layout.spt);
    let (Some(begins), Some(target)) = (layout.begins(from), layout.begins(to)) else {
        return Ok(None);
    };
    // The target's phase when the source has completed, after the gap and the lead.
    let later = fraction(layout.on((from, 0)) - layout.on((to, 0)) + (GAP + lead) / probe.period);
    let inside = (0..DRAWS)
        .map(|_| SOURCE.0 + (SOURCE.1 - SOURCE.0) * probe.next_random())
        .find(|inside| (EDGE..1.0 - EDGE).contains(&fraction(inside + later)));
    let Some(inside) = inside else { return Ok(None) };
    let source = begins + floor(inside * spt);
    let Some(sample) = probe.sample_again(source)? else { return Ok(None) };
    let late = wrap(probe.phase(&sample) - layout.at(source)) * probe.period;
    let sent = sample.time - late + GAP;
    // The first block of the target's track with this lead at least; the command is delayed by the
    // excess.
    let phase = fraction((sent + lead) / probe.period);
    let sector = fraction(phase - layout.on((to, 0))) * spt;
    let block = sector.ceil();
    if block >= spt {
        return Ok(None);
    }
    let sent = sent + (block - sector) / spt * probe.period;
    if sent < probe.now() {
        return Ok(None);
    }
    probe.bench.wait_until(probe.instant(sent));
    let Some((took, sample)) = probe.read(target + floor(block))? else { return Ok(None) };
    // A cache hit completes at any phase.
    let predicted = (took - lead).abs() < 4.0 * probe.sigma * probe.period;
    if took < probe.hit_max && !predicted {
        return Ok(None);
    }
    let revolutions = ((sample.time - sent - lead) / probe.period + 0.5).floor();
    Ok(Some(ReachBound {
        reach: lead + revolutions * probe.period,
        period: probe.period,
        sector: SectorDelay::default(),
    }))
}

/// A pair of tracks, and the estimate of its minimum lead.
#[derive(Clone, Debug)]
struct Pair {
    from: i64,
    by: i64,
    lead: BisectionEstimator,
    /// The approximate standard deviation of the lead, in ns.
    spread: f64,
}

/// The pairs of tracks that are probed.
struct Pairs {
    all: Vec<Pair>,
}

impl Pairs {
    /// Adds pairs with each distance, each from a track of its own, so that nothing there was read
    /// recently.
    fn add(
        &mut self,
        probe: &mut Probe<'_, '_>,
        (tracks, times): (RangeInclusive<i64>, u32),
        (room, about): (i64, f64),
    ) {
        let lead = BisectionEstimator::new(Prior::About(about, AROUND), SPREAD_FIRST);
        for by in (0..times).flat_map(|_| tracks.clone()) {
            let from = floor(probe.next_random() * real((room - by).max(1).cast_unsigned()));
            self.all.push(Pair {
                from: from.cast_signed(),
                by,
                lead: lead.clone(),
                spread: SPREAD_FIRST,
            });
        }
    }

    /// Probes each lead once.
    fn probe(
        &mut self,
        probe: &mut Probe<'_, '_>,
        layout: &TrackLayout,
        (base, until): (i64, f64),
    ) -> Result<(), StopReason> {
        for pair in &mut self.all {
            if probe.now() > until {
                return Ok(());
            }
            let from = base + pair.from;
            // Probes beside the estimate show the deviation, which bisection alone does not.
            let offset = OFFSETS[pair.lead.count() % OFFSETS.len()] * pair.spread;
            let lead = pair.lead.median() + offset;
            let bound = probe_lead(probe, layout, (from, from + pair.by), lead)?;
            if let Some(bound) = bound {
                pair.lead.learn(bound);
            }
        }
        Ok(())
    }

    /// The leads. Each is probed with its own deviation from now on.
    fn leads(&mut self) -> Vec<Lead> {
        let mut leads = Vec::new();
        for pair in &mut self.all {
            let told = SPREADS.map(|spread| pair.lead.marginal_likelihood(spread));
            let spreads = told.iter().zip(SPREADS).map(|(told, spread)| (told.0, spread));
            let best = spreads.max_by(|one, other| one.0.total_cmp(&other.0));
            let spread = best.map_or(SPREAD_FIRST, |(_, spread)| spread);
            if (spread - pair.spread).abs() > EXACT {
                pair.spread = spread;
                pair.lead = pair.lead.with_spread(spread);
            }
            // An uncertain lead is biased towards its prior.
            if pair.lead.estimate().error < EXACT + spread / 2.0 {
                leads.push(Lead { from: pair.from, by: pair.by, by_spread: told.map(exact) });
            }
        }
        leads
    }

    /// The number of bounds.
    fn count(&self) -> usize {
        self.all.iter().map(|pair| pair.lead.count()).sum()
    }
}

/// A lead with its least error.
fn exact((likely, Estimate { time, error }): (f64, Estimate)) -> (f64, Estimate) {
    (likely, Estimate { time, error: error.max(EXACT) })
}

/// The angular deviations of a segment from a layout without cylinders.
fn angles(probe: &Probe<'_, '_>, (layout, segment): (&TrackLayout, &Segment), base: i64) -> Angles {
    let reach = ANGLES_REACH * probe.sigma;
    let layout = layout.fitted(&segment.phases, reach);
    let off = |(at, phase): &(Block, f64)| {
        let off = layout.off(*at, *phase);
        (off.abs() < reach).then(|| (layout.track(*at).0 - base, off * probe.period))
    };
    Angles {
        off: segment.phases.iter().filter_map(off).collect(),
        noise: probe.sigma * probe.period,
    }
}

/// An estimate of the minimum lead to the next track. `None` if it is not observable.
fn first(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (base, room): (i64, i64),
) -> Result<Option<f64>, StopReason> {
    let mut lead = BisectionEstimator::new(Prior::Upto(LEAD_MAX * probe.period), SPREAD_FIRST);
    for _ in 0..FIRST_READS {
        let from =
            base + floor(probe.next_random() * real(room.max(1).cast_unsigned())).cast_signed();
        if let Some(bound) = probe_lead(probe, layout, (from, from + 1), lead.median())? {
            lead.learn(bound);
        }
        if lead.estimate().error < AROUND {
            return Ok(Some(lead.estimate().time));
        }
    }
    Ok(None)
}

/// Heads, from leads between tracks in the middle of a segment and the segment's angles. `None` if
/// they are not observable.
pub(crate) fn find_heads(
    probe: &mut Probe<'_, '_>,
    (layout, segment): (&TrackLayout, &Segment),
    until: f64,
) -> Result<Option<FoundHeads>, StopReason> {
    let tracks = layout.track(segment.to).0;
    let room = (tracks - 2).min(TRACKS_MAX);
    let base = (tracks - room) / 2;
    let began = probe.now();
    let angles = angles(probe, (layout, segment), base);
    let Some(about) = first(probe, layout, (base, room))? else { return Ok(None) };
    let mut pairs = Pairs { all: Vec::new() };
    for (tracks, times, share) in STAGES {
        let last = (*tracks.end()).min(room / 2);
        pairs.add(probe, (*tracks.start()..=last, times), (room, about));
        let until = began + (until - began) * share;
        while probe.now() < until {
            for _ in 0..BOUNDS_MIN.max(pairs.count() / pairs.all.len() / BOUNDS_GROWTH) {
                pairs.probe(probe, layout, (base, until))?;
            }
            let leads = pairs.leads();
            if leads.len() < LEADS_MIN {
                continue;
            }
            let Some(head_layout) = explain(&leads, &angles) else { continue };
            let samples = u32::try_from(pairs.count()).unwrap_or(u32::MAX);
            return Ok(Some(FoundHeads { head_layout, track: base, samples }));
        }
    }
    Ok(None)
}
