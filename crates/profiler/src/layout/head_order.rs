//! Heads and the order of surfaces, where angles do not show them: by what it takes to reach a track.
//!
//! From one track another is reached just in time or a turn too late, which no noise hides. The least lead with which it is
//! reached grows with its cylinder's distance, and has another floor if the head has to be changed. Short ways from many
//! tracks are asked for, beside the middle of what is believed as well, so that it shows by how much each varies: an arm
//! varies by more than a change of heads does. What all that says of heads is in [`crate::layout::cylinder_likelihood`].

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

/// What passes between the source's end and the command that follows it, in ns: more than anybody notices late.
const GAP: f64 = 1.3e6;
/// Where on its track a source is: what is read ahead behind it does not leave the track before the next command is there.
const SOURCE: (f64, f64) = (0.08, 0.45);
/// So far from the ends of its track a target is at least: slipped sectors have moved where tracks begin.
const EDGE: f64 = 0.12;
/// The longest lead with which a track is reached that is looked for, in turns.
pub(crate) const LEAD_MAX: f64 = 1.9;
/// How often a source is drawn at most until its target is.
const DRAWS: u32 = 16;
/// What a lead may vary by before anything is known of it, in ns.
const SPREAD_FIRST: f64 = 96e3;
/// Leads are asked for at the middle of what is believed, and so many deviations beside it.
const ASIDE: [f64; 5] = [0.0, 1.0, -1.0, 2.0, -2.0];
/// Facts that a lead is known by at least, and that are asked for at once.
const FACTS_MIN: usize = 5;
/// It is looked what they say whenever there is this part more of them.
const FACTS_MORE: usize = 4;
/// What lies off by more standard deviations was late, or moved elsewhere.
const ANGLES_REACH: f64 = 5.0;
/// Leads that say anything.
const LEADS_MIN: usize = 12;
/// No lead is known better, in ns: instants and sectors are whole numbers.
const EXACT: f64 = 700.0;
/// How far a lead may lie from those that are known, in ns.
const AROUND: f64 = 200e3;
/// Tracks among which ways lie.
const ROOM: i64 = 1_200;
/// Reads until a first lead is known, at most.
const FIRST_READS: u32 = 60;
/// How far ways go in tracks, how many as far, and up to which share of the time. Where cylinders begin shows on short ways
/// as well, since each begins elsewhere; where a cylinder on is as near as another head, further ones tell.
const STAGES: [(RangeInclusive<i64>, u32, f64); 3] =
    [(1..=6, 6, 0.3), (7..=24, 1, 0.6), (25..=HEADS_MAX as i64, 1, 1.0)];

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surfaces {
    /// How tracks make cylinders, from a track on.
    pub(crate) head_layout: HeadLayout,
    pub(crate) track: i64,
    /// By how many reads.
    pub(crate) samples: u32,
}

impl Surfaces {
    /// How many tracks of its cylinder lie before the lattice's first one.
    pub(crate) fn first(&self) -> u32 {
        under(i64::from(self.head_layout.before) - self.track, self.head_layout.heads)
    }

    /// Tracks on a cylinder.
    pub(crate) fn heads(&self) -> Figure<u32> {
        let (value, samples) = (self.head_layout.heads, self.samples);
        Figure { value, spread: 0, samples, confidence: Share::from_percent(95) }
    }
}

/// What it takes the head that has just read a block of one track to read a block of another that ends `lead` ns after the
/// command, in whole turns more or less. None if that could not be seen.
pub(crate) fn reached(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (from, to): (i64, i64),
    lead: f64,
) -> Result<Option<ReachBound>, StopReason> {
    let spt = real(layout.spt);
    let (Some(begins), Some(target)) = (layout.begins(from), layout.begins(to)) else {
        return Ok(None);
    };
    // Where the target comes by when the source has ended, and the gap and the lead have passed.
    let later = fraction(layout.on((from, 0)) - layout.on((to, 0)) + (GAP + lead) / probe.period);
    let inside = (0..DRAWS)
        .map(|_| SOURCE.0 + (SOURCE.1 - SOURCE.0) * probe.even())
        .find(|inside| (EDGE..1.0 - EDGE).contains(&fraction(inside + later)));
    let Some(inside) = inside else { return Ok(None) };
    let source = begins + floor(inside * spt);
    let Some(sample) = probe.sample_again(source)? else { return Ok(None) };
    let late = wrap(probe.phase(&sample) - layout.at(source)) * probe.period;
    let sent = sample.time - late + GAP;
    // The first block of the target's track that ends so much later; and the command later by what it ends later.
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
    // What comes out of memory comes as soon as it comes.
    let foretold = (took - lead).abs() < 4.0 * probe.sigma * probe.period;
    if took < probe.hit && !foretold {
        return Ok(None);
    }
    let revolutions = ((sample.time - sent - lead) / probe.period + 0.5).floor();
    Ok(Some(ReachBound {
        reach: lead + revolutions * probe.period,
        period: probe.period,
        sector: SectorDelay::default(),
    }))
}

/// A way from one track to another, and what is known of its lead.
#[derive(Clone, Debug)]
struct Way {
    from: i64,
    by: i64,
    lead: BisectionEstimator,
    /// What it varies by, roughly, in ns.
    spread: f64,
}

/// The ways whose leads are asked for.
struct Ways {
    all: Vec<Way>,
}

impl Ways {
    /// Adds as many ways to each of the tracks behind another, each from one of its own, so that nothing there was read
    /// lately.
    fn add(
        &mut self,
        probe: &mut Probe<'_, '_>,
        (tracks, times): (RangeInclusive<i64>, u32),
        (room, about): (i64, f64),
    ) {
        let lead = BisectionEstimator::new(Prior::About(about, AROUND), SPREAD_FIRST);
        for by in (0..times).flat_map(|_| tracks.clone()) {
            let from = floor(probe.even() * real((room - by).max(1).cast_unsigned()));
            self.all.push(Way {
                from: from.cast_signed(),
                by,
                lead: lead.clone(),
                spread: SPREAD_FIRST,
            });
        }
    }

    /// Asks once for each lead.
    fn ask(
        &mut self,
        probe: &mut Probe<'_, '_>,
        layout: &TrackLayout,
        (base, until): (i64, f64),
    ) -> Result<(), StopReason> {
        for way in &mut self.all {
            if probe.now() > until {
                return Ok(());
            }
            let from = base + way.from;
            // Beside the middle as well: halving alone does not show by how much leads vary.
            let aside = ASIDE[way.lead.count() % ASIDE.len()] * way.spread;
            let lead = way.lead.median() + aside;
            let bound = reached(probe, layout, (from, from + way.by), lead)?;
            if let Some(bound) = bound {
                way.lead.learn(bound);
            }
        }
        Ok(())
    }

    /// What is known of the leads; each is asked for from now on as it varies.
    fn leads(&mut self) -> Vec<Lead> {
        let mut leads = Vec::new();
        for way in &mut self.all {
            let told = SPREADS.map(|spread| way.lead.marginal_likelihood(spread));
            let spreads = told.iter().zip(SPREADS).map(|(told, spread)| (told.0, spread));
            let best = spreads.max_by(|one, other| one.0.total_cmp(&other.0));
            let spread = best.map_or(SPREAD_FIRST, |(_, spread)| spread);
            if (spread - way.spread).abs() > EXACT {
                way.spread = spread;
                way.lead = way.lead.with_spread(spread);
            }
            // What is known roughly leans towards what was believed before.
            if way.lead.estimate().error < EXACT + spread / 2.0 {
                leads.push(Lead { from: way.from, by: way.by, by_spread: told.map(exact) });
            }
        }
        leads
    }

    /// How many times leads were asked for.
    fn count(&self) -> usize {
        self.all.iter().map(|way| way.lead.count()).sum()
    }
}

/// What is known of a lead, no better than it can be.
fn exact((likely, Estimate { time, error }): (f64, Estimate)) -> (f64, Estimate) {
    (likely, Estimate { time, error: error.max(EXACT) })
}

/// What was seen of a piece's angles, beside a lattice without cylinders.
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

/// The least lead to a next track, roughly; none if that is not to be seen.
fn first(
    probe: &mut Probe<'_, '_>,
    layout: &TrackLayout,
    (base, room): (i64, i64),
) -> Result<Option<f64>, StopReason> {
    let mut lead = BisectionEstimator::new(Prior::Upto(LEAD_MAX * probe.period), SPREAD_FIRST);
    for _ in 0..FIRST_READS {
        let from = base + floor(probe.even() * real(room.max(1).cast_unsigned())).cast_signed();
        if let Some(bound) = reached(probe, layout, (from, from + 1), lead.median())? {
            lead.learn(bound);
        }
        if lead.estimate().error < AROUND {
            return Ok(Some(lead.estimate().time));
        }
    }
    Ok(None)
}

/// Heads, from leads between tracks in the middle of a piece and the angles that were seen in it; none if they do not show.
pub(crate) fn surfaces(
    probe: &mut Probe<'_, '_>,
    (layout, segment): (&TrackLayout, &Segment),
    until: f64,
) -> Result<Option<Surfaces>, StopReason> {
    let tracks = layout.track(segment.to).0;
    let room = (tracks - 2).min(ROOM);
    let base = (tracks - room) / 2;
    let began = probe.now();
    let angles = angles(probe, (layout, segment), base);
    let Some(about) = first(probe, layout, (base, room))? else { return Ok(None) };
    let mut ways = Ways { all: Vec::new() };
    for (tracks, times, share) in STAGES {
        let last = (*tracks.end()).min(room / 2);
        ways.add(probe, (*tracks.start()..=last, times), (room, about));
        let until = began + (until - began) * share;
        while probe.now() < until {
            for _ in 0..FACTS_MIN.max(ways.count() / ways.all.len() / FACTS_MORE) {
                ways.ask(probe, layout, (base, until))?;
            }
            let leads = ways.leads();
            if leads.len() < LEADS_MIN {
                continue;
            }
            let Some(head_layout) = explain(&leads, &angles) else { continue };
            let samples = u32::try_from(ways.count()).unwrap_or(u32::MAX);
            return Ok(Some(Surfaces { head_layout, track: base, samples }));
        }
    }
    Ok(None)
}
