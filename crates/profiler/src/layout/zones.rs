//! The zone map: the first blocks of zones, sectors per track, skews and heads, each with its
//! confidence.

use drive_profile::HeadOrder;
use units::{Duration, Extent, Lba, Sectors, Share};

use crate::bench::{Bench, StopReason};
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, fraction, real, round};
use crate::layout::bands;
use crate::layout::cylinders;
use crate::layout::exact_heads;
use crate::layout::head_order::{FoundHeads, find_heads};
use crate::layout::local_layout;
use crate::layout::probe::Probe;
use crate::layout::segment::Segment;
use crate::layout::segments::{assign_zones, locate_again};
use crate::layout::skews::{self, HeadSwitchStats};
use crate::layout::sweep::sweep;
use crate::layout::track_layout::TrackLayout;
use drive_profile::findings::{Figure, Geometry, Rotation, Spindle, Stage, Zone};

/// The share of the time for exact zones before the rest of the disk is sampled coarsely.
const FULL_SHARE: f64 = 0.85;
/// The same in a quick profile.
const QUICK_SHARE: f64 = 0.4;
/// The share of the total budget that the zone map leaves to later stages.
const REST_SHARE: f64 = 0.3;
/// The same in a quick profile.
const REST_SHARE_QUICK: f64 = 0.5;
/// The least share of the remaining time that the zone map may use in any case.
const SHARE_LEAST: f64 = 0.45;
/// The number of coarsely sampled locations.
const COARSE_PLACES: u32 = 12;
/// The confidence of a coarse zone.
const COARSE_SURE: Share = Share::from_percent(60);
/// The samples that refine the period in the end.
const AGAIN: u32 = 48;
/// The additional reads of a zone that show the number of heads: about as many as it had.
const SAMPLE_MORE: u32 = 400;
/// The most of the total budget for separating skews.
const SKEWS_SHARE: f64 = 0.12;
/// The most of it for minimum leads between tracks.
const SURFACES_SHARE: f64 = 0.1;
/// The number of decisions on whether the skews are known.
const SKEWS_BATCHES: u32 = 24;
/// The most of it for locating the beginnings of zones again.
const LOCATE_SHARE: f64 = 0.1;

/// Measures the zone map of a drive with a known rotation.
///
/// # Errors
/// As [`Bench::check`]. What was measured until then is in the findings.
pub fn geometry(bench: &mut Bench<'_>, rotation: &Rotation) -> Result<(), StopReason> {
    let left = bench.left();
    let quick = bench.budget().quick;
    let share = if quick { REST_SHARE_QUICK } else { REST_SHARE };
    let nanos = |time: Duration| real(time.as_nanos());
    let rest = nanos(bench.budget().total) * share;
    let at_most = (nanos(left) - rest).max(nanos(left) * SHARE_LEAST);
    bench.begin(Stage::Zones, Duration::from_nanos(floor(at_most)));
    let mut probe = Probe::of(bench, rotation);
    probe.calibrate_long_reads()?;
    let mut segments = Vec::new();
    let left = probe.bench.left();
    let part = if quick { QUICK_SHARE } else { FULL_SHARE };
    probe.until = probe.now() + real(left.as_nanos()) * part;
    let swept = sweep(&mut probe, &mut segments);
    keep_contiguous(&mut segments);
    let coarse = coarse(&mut probe, &segments);
    let steadied = swept.and_then(|()| refine_period(&mut probe, &mut segments));
    let period = steadied.as_ref().map_or(probe.period, |period| *period);
    probe.period = period;
    assign_zones(&mut segments);
    let (block, sigma) = (probe.block, probe.sigma);
    let mut heads = cylinders::infer_heads(&mut segments, sigma, None);
    if steadied.is_ok() && heads.is_none() && !quick && cylinders::heads_indicated(&segments, sigma)
    {
        // Without time for it the additional reads are missing.
        let _ = sample_more(&mut probe, &mut segments);
        heads = cylinders::infer_heads(&mut segments, sigma, None);
    }
    let (mut seen, mut order) = (None, None);
    let mut ended = steadied.map(|_| ());
    if ended.is_ok() && heads.is_none() && !quick {
        let exact = heads_by_exact_leads(&mut probe, &segments);
        (heads, order) =
            exact.ok().flatten().map_or((None, None), |(heads, order)| (Some(heads), order));
        ended = exact.map(|_| ());
    }
    if ended.is_ok() && heads.is_none() && !quick {
        let reached = heads_by_leads(&mut probe, &mut segments);
        seen = reached.ok().flatten();
        ended = reached.map(|_| ());
        heads = seen.map(|seen| seen.heads());
    }
    // One head has one skew.
    if let Some(heads) = heads.filter(|heads| heads.value > 1 && ended.is_ok() && !quick) {
        let _ = cylinders::infer_heads(&mut segments, sigma, Some(heads));
        separate_skews(&mut probe, &mut segments, heads);
        if let Some(seen) = &seen {
            cylinders::apply_leads(&mut segments, seen, period);
        }
    }
    let order = order.or(seen.and_then(|seen| seen.head_layout.order));
    publish(bench, (&segments, &coarse), (heads, order), (period, block, sigma));
    ended?;
    bench.findings.finish(Stage::Zones);
    Ok(())
}

/// Reads more blocks of the longest segment of each zone: phases show the number of heads the
/// better the more there are.
fn sample_more(probe: &mut Probe<'_, '_>, segments: &mut [Segment]) -> Result<(), StopReason> {
    for nth in skews::longest(segments) {
        let (layout, to) = (segments[nth].layout, segments[nth].to);
        let length = real(to - layout.anchor);
        let samples = probe.samples(SAMPLE_MORE, |part| layout.anchor + floor(part * length))?;
        segments[nth].phases.extend(local_layout::phases(probe, &samples));
    }
    Ok(())
}

/// Removes the segments whose beginnings there was no time for.
fn keep_contiguous(segments: &mut Vec<Segment>) {
    if let Some(first) = segments.first_mut() {
        first.from = 0;
    }
    let meet = |pair: &[Segment]| pair[0].to == pair[1].from && pair[1].from < pair[1].to;
    if let Some(last) = segments.windows(2).position(|pair| !meet(pair)) {
        segments.truncate(last + 1);
    }
}

/// Separates the skews of zones as well as time allows; then zones begin where the known cylinders
/// do.
fn separate_skews(probe: &mut Probe<'_, '_>, segments: &mut [Segment], heads: Figure<u32>) {
    let whole = real(probe.bench.budget().total.as_nanos());
    let end = probe.now() + whole * SKEWS_SHARE;
    let mut switch = HeadSwitchStats::default();
    // Without time for it cylinders begin where they seemed to.
    let _ = skews::align_cylinders(probe, segments, &mut switch);
    let _ = cylinders::infer_heads(segments, probe.sigma, Some(heads));
    for _ in 0..SKEWS_BATCHES {
        let more = skews::measure(probe, segments, (&mut switch, end));
        let _ = cylinders::infer_heads(segments, probe.sigma, Some(heads));
        let told = skews::longest(segments).iter().all(|nth| skews::is_separated(&segments[*nth]));
        if more.is_err() || probe.now() > end || told {
            break;
        }
    }
    let until = probe.now() + whole * LOCATE_SHARE;
    // Without time for it zones begin where they were first located.
    let _ = locate_again(probe, segments, until);
}

/// Blocks on a track at a location, to a few hundredths.
#[derive(Clone, Copy, Debug)]
struct Coarse {
    at: u64,
    spt: f64,
}

/// Samples evenly spaced locations behind the swept segments, if there are any.
fn coarse(probe: &mut Probe<'_, '_>, segments: &[Segment]) -> Vec<Coarse> {
    let known = segments.last().map_or(0, |segment| segment.to);
    let left = probe.blocks.saturating_sub(known);
    let mut found = Vec::new();
    let mut like = segments.last().map(|segment| real(segment.layout.spt));
    if left < 64 * segments.last().map_or(1_024, |segment| segment.layout.spt) {
        return found;
    }
    for nth in 0..COARSE_PLACES {
        let at = known + left / u64::from(COARSE_PLACES + 1) * (u64::from(nth) + 1);
        match local_layout::roughly(probe, at, like) {
            Ok(Some(spt)) => {
                like = Some(spt);
                found.push(Coarse { at, spt });
            }
            Ok(None) => {}
            // The samples so far are useful.
            Err(_) => break,
        }
    }
    found
}

/// Adds coarse zones: each sample represents its neighbourhood.
fn add_coarse_zones(
    zones: &mut Vec<Zone>,
    coarse: &[Coarse],
    (known, all): (u64, u64),
    block: u64,
) {
    let Some(last) = zones.last().copied() else { return };
    for (nth, place) in coarse.iter().enumerate() {
        let between = |a: &Coarse, b: &Coarse| a.at.midpoint(b.at) * block;
        let start = if nth == 0 { known } else { between(&coarse[nth - 1], place) };
        let end = coarse.get(nth + 1).map_or(all, |next| between(place, next));
        let spt = u32::try_from(round(place.spt))
            .unwrap_or(u32::MAX)
            .saturating_mul(u32::try_from(block).unwrap_or(1));
        let value =
            Figure { value: spt, spread: spt / 25 + 1, samples: 1, confidence: COARSE_SURE };
        let scaled = |rate: u64| {
            round(real(rate) * f64::from(spt) / f64::from(last.sectors_per_track.value))
        };
        zones.push(Zone {
            lbas: Extent::new(Lba(start), Sectors(end - start)),
            begin_confidence: Share::NONE,
            sectors_per_track: value,
            track_skew: Figure { confidence: COARSE_SURE, samples: 0, ..last.track_skew },
            cylinder_skew: Figure { confidence: COARSE_SURE, samples: 0, ..last.cylinder_skew },
            skews_separated: false,
            media_rate: scaled(last.media_rate),
            sustained_rate: scaled(last.sustained_rate),
        });
    }
}

/// The longest segment.
fn longest(segments: &[Segment]) -> Option<usize> {
    (0..segments.len()).max_by_key(|nth| segments[*nth].to - segments[*nth].from)
}

/// The layout for leads in a segment, with its current phase, and the end of the time for them.
fn lead_layout(
    probe: &mut Probe<'_, '_>,
    segment: &Segment,
) -> Result<(TrackLayout, f64), StopReason> {
    let until = probe.now() + real(probe.bench.budget().total.as_nanos()) * SURFACES_SHARE;
    Ok((current_layout(probe, segment)?, until))
}

/// Heads and their order, where leads are constant.
fn heads_by_exact_leads(
    probe: &mut Probe<'_, '_>,
    segments: &[Segment],
) -> Result<Option<exact_heads::Heads>, StopReason> {
    let Some(nth) = longest(segments) else { return Ok(None) };
    let (layout, until) = lead_layout(probe, &segments[nth])?;
    let tracks = layout.track(segments[nth].to).0;
    exact_heads::heads(probe, &layout, (tracks, until))
}

/// The heads by leads in the longest segment, which stores where its cylinders begin.
fn heads_by_leads(
    probe: &mut Probe<'_, '_>,
    segments: &mut [Segment],
) -> Result<Option<FoundHeads>, StopReason> {
    let Some(nth) = longest(segments) else { return Ok(None) };
    let segment = &mut segments[nth];
    let (layout, until) = lead_layout(probe, segment)?;
    // The cylinders of single segments were not confirmed.
    let step = layout.mean_step();
    let layout = TrackLayout { step, extra: 0.0, heads: 1, first: 0, ..layout };
    let seen = find_heads(probe, (&layout, segment), until)?;
    segment.first_seen = seen.map(|seen| seen.first());
    Ok(seen)
}

/// The segment's layout with its current phase at the middle of the segment.
fn current_layout(probe: &mut Probe<'_, '_>, segment: &Segment) -> Result<TrackLayout, StopReason> {
    let spt = segment.layout.spt;
    let middle = segment.layout.anchor + (segment.to - segment.layout.anchor) / 2;
    let samples = probe.samples(2 * AGAIN, |part| middle + floor(part * real(64 * spt)))?;
    let phases = local_layout::phases(probe, &samples);
    Ok(segment.layout.fitted_level(&phases, 5.0 * probe.sigma))
}

/// Counts the revolutions since the first segment was measured. The period becomes as precise as
/// the whole measurement is long, and segments that were measured one after the other share one
/// clock.
fn refine_period(probe: &mut Probe<'_, '_>, segments: &mut [Segment]) -> Result<f64, StopReason> {
    let Some(first) = segments.first() else { return Ok(probe.period) };
    let (from, to) = (first.layout.anchor, first.to);
    let (layout, began) = (first.layout, first.time);
    let length = real((to - from).min(64 * layout.spt));
    let samples = probe.samples(AGAIN, |part| from + floor(part * length))?;
    let phases: Vec<f64> = samples.iter().map(|s| layout.off(s.at, probe.phase(s))).collect();
    let Some(off) = centre(&phases, 5.0 * probe.sigma) else { return Ok(probe.period) };
    let revolutions = (probe.now() - began) / probe.period;
    if revolutions < 1_000.0 {
        return Ok(probe.period);
    }
    let stretch = wrap(off.mean) / revolutions;
    for segment in segments {
        // The phases are converted to the clock of the refined period, which begins when the probe
        // did.
        let drift = segment.time / probe.period * stretch;
        segment.phases.iter_mut().for_each(|(_, phase)| *phase = fraction(*phase - drift));
        for layout in [&mut segment.layout, &mut segment.ending] {
            layout.phase = fraction(layout.phase - drift);
        }
    }
    Ok(probe.period * (1.0 + stretch))
}

/// Stores the results in the findings.
fn publish(
    bench: &mut Bench<'_>,
    (segments, coarse): (&[Segment], &[Coarse]),
    (heads, order): (Option<Figure<u32>>, Option<HeadOrder>),
    (period, block, sigma): (f64, u64, f64),
) {
    if let Some(Spindle::Rotating(rotation)) = &mut bench.findings.spindle {
        rotation.period_picos = round(period * 1e3);
        rotation.period.value = Duration::from_nanos(round(period));
    }
    if segments.is_empty() {
        bench.findings.add_note("zones: no regular track layout was found".into());
        return;
    }
    let known = segments.last().map_or(0, |segment| segment.to * block);
    let (bands, cylinders) =
        bands::bands(segments, (heads.map_or(1, |heads| heads.value), order), block);
    let mut zones = zones(segments, (period, block, sigma));
    let all = bench.facts().sectors.0;
    add_coarse_zones(&mut zones, coarse, (known, all), block);
    bench.findings.geometry =
        Some(Geometry { zones, bands, heads, order, cylinders, known: Sectors(known) });
}

/// Zones: consecutive segments with equally many sectors on each track.
fn zones(segments: &[Segment], (period, block, sigma): (f64, u64, f64)) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    let mut best = (false, 0);
    for segment in segments {
        let lbas =
            Extent::new(Lba(segment.from * block), Sectors((segment.to - segment.from) * block));
        let spt = u32::try_from(segment.spt * block).unwrap_or(u32::MAX);
        let known = zones.last_mut().filter(|zone| zone.sectors_per_track.value == spt);
        let told = (skews::is_separated(segment), lbas.len.0);
        let more = known.is_none() || told > best;
        if let Some(zone) = known {
            zone.lbas.len += lbas.len;
            if !more {
                continue;
            }
        }
        best = told;
        // A zone has the skews of its longest segment with known skews.
        let zone = zone_of(segment, lbas, spt, (period, sigma));
        match zones.last_mut().filter(|last| last.sectors_per_track.value == spt) {
            Some(last) => {
                *last = Zone { lbas: last.lbas, begin_confidence: last.begin_confidence, ..zone }
            }
            None => zones.push(zone),
        }
    }
    zones
}

fn zone_of(segment: &Segment, lbas: Extent, spt: u32, (period, sigma): (f64, f64)) -> Zone {
    let layout = &segment.layout;
    let samples = u32::try_from(segment.phases.len()).unwrap_or(u32::MAX);
    let nanos = |revolutions: f64| Duration::from_nanos(round(revolutions * period));
    let count = f64::from(samples.max(1));
    let heads = f64::from(layout.heads);
    let apart = layout.heads > 1;
    // The observed difference of the skews is a sawtooth. Without one only their mean is known,
    // exactly.
    let error = if apart { segment.step_error } else { sigma / count };
    let (step, extra) = segment.skews.unwrap_or((layout.step, layout.extra));
    let error = if segment.skews.is_some() { 0.0 } else { error };
    let track = Figure {
        value: nanos(fraction(step)),
        spread: nanos(error),
        samples,
        // The mean of two skews is neither of them, however well it is known.
        confidence: Share::from_percent(if apart { 95 } else { 60 }),
    };
    let cylinder = Figure {
        value: nanos(fraction(step + if apart { extra } else { 0.0 })),
        spread: nanos(if apart { error * heads } else { error }),
        ..track
    };
    let rate = |revolutions: f64| round(f64::from(spt) * 512.0 * 1e9 / (revolutions * period));
    Zone {
        lbas,
        begin_confidence: percent(segment.sure),
        sectors_per_track: Figure { value: spt, spread: 0, samples, confidence: percent(0.99) },
        track_skew: track,
        cylinder_skew: cylinder,
        skews_separated: apart,
        media_rate: rate(1.0),
        sustained_rate: rate(1.0 + fraction(layout.mean_step())),
    }
}

/// A probability as a share.
fn percent(probability: f64) -> Share {
    Share::from_percent(u32::try_from(floor(probability.clamp(0.0, 1.0) * 100.0)).unwrap_or(100))
}
