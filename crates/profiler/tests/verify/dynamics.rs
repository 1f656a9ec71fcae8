//! Compares measured seeks, chunks and buffers with the drives.

use core::ops::ControlFlow;
use std::sync::Arc;

use drive::{AnyModel, Model, Spec};
use drive_profile::findings::Findings;
use drive_profile::findings::{Dynamics, Seeks};
use sim::BenchTarget;
use spindle_profiler::{Bench, Budget, Progress};
use spindle_profiler::{CHUNK_STEPS, OPTIMAL_SHARE};
use units::{Duration, Extent, Lba, Operation, Sectors};

/// The worst point of a measured curve: its distance, its error in µs, and the error as a part of
/// the allowed one, 3 % or 50 µs, whichever is more.
pub(crate) fn worst(model: &Model, found: &Seeks) -> (u32, f64, f64) {
    let curve = found.curve();
    let micros = |time: Duration| time.as_millis_f64() * 1e3;
    let off = |distance: u32| {
        let (found, is) = (micros(curve.time(distance)), micros(model.seek(distance)));
        (distance, found - is, (found - is).abs() / (is * 0.03).max(50.0))
    };
    let all = (1..model.cylinders()).map(off);
    all.fold((0, 0.0, 0.0), |worst, one| if one.2 > worst.2 { one } else { worst })
}

/// The throughput for a host without delays in sectors per second, on which the range is based.
pub(crate) fn streamed(model: &Arc<Model>, chunk: u64, writes: bool) -> u64 {
    let mut target = BenchTarget::new(AnyModel::from(Arc::clone(model)), Duration::ZERO, 1);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let hours = Budget { total: Duration::from_secs(36_000), quick: false };
    let mut bench = Bench::new(&mut target, hours, Findings::default(), &mut watcher);
    let mut next = 0;
    let mut run = |bench: &mut Bench<'_>, chunk: u64, sectors: u64| {
        let began = bench.now();
        let end = next + sectors / chunk * chunk;
        while next < end {
            let extent = Extent::new(Lba(next), Sectors(chunk));
            let operation = if writes { Operation::write(extent) } else { Operation::read(extent) };
            bench.time(operation).expect("in time");
            next += chunk;
        }
        bench.now().since(began)
    };
    // First fills the cache, by the commands that fill it fastest.
    let memory = if writes { 3 * model.spec().write_buffer.0 } else { 4_096 };
    run(&mut bench, 2_048, memory.max(4_096));
    let sectors = (48 * chunk).max(131_072);
    let took = run(&mut bench, chunk, sectors);
    sectors / chunk * chunk * 1_000_000_000 / took.as_nanos().max(1)
}

/// The steps at which the true range begins and ends.
pub(crate) fn true_range(model: &Arc<Model>, writes: bool) -> (usize, usize) {
    let rates: Vec<u64> = CHUNK_STEPS.iter().map(|chunk| streamed(model, *chunk, writes)).collect();
    let best = rates.iter().copied().max().expect("some");
    let optimal = |rate: &u64| {
        Duration::from_nanos(*rate).as_secs_f64()
            >= OPTIMAL_SHARE * Duration::from_nanos(best).as_secs_f64()
    };
    // The first of the longest runs of optimal lengths.
    let runs = (0..rates.len()).map(|first| {
        let len = rates[first..].iter().take_while(|rate| optimal(rate)).count();
        (len, rates.len() - first)
    });
    let (len, behind) = runs.max().expect("some");
    (rates.len() - behind, rates.len() - behind + len - 1)
}

/// The errors of the chunk ranges, which must be right to within a step at either end.
pub(crate) fn missed_of_chunks(model: &Arc<Model>, found: &Dynamics) -> Vec<String> {
    let mut missed = Vec::new();
    for (chunks, writes) in [(&found.chunks_read, false), (&found.chunks_write, true)] {
        let what = if writes { "chunks of writes" } else { "chunks of reads" };
        let Some(chunks) = chunks else {
            missed.push(format!("{what} not found"));
            continue;
        };
        let (first, last) = true_range(model, writes);
        let step =
            |chunk: Sectors| CHUNK_STEPS.iter().position(|step| *step == chunk.0).expect("a step");
        let found = (step(chunks.optimal.0), step(chunks.optimal.1));
        if first.abs_diff(found.0) > 1 || last.abs_diff(found.1) > 1 {
            let shown = |(first, last): (usize, usize)| {
                format!("{}..{}", CHUNK_STEPS[first], CHUNK_STEPS[last])
            };
            missed.push(format!("{what}: {} for {}", shown(found), shown((first, last))));
        }
    }
    missed
}

/// The errors of the caches for reads and writes, which must be right to within a segment.
pub(crate) fn missed_of_buffers(model: &Model, found: &Dynamics) -> Vec<String> {
    let spec = model.spec();
    let is = spec.read_buffer;
    let mut missed = Vec::new();
    match found.read_buffer {
        None => missed.push("read buffer not found".to_owned()),
        Some(buffer) => {
            let (segments, segment) = (buffer.segments.value, buffer.segment.value);
            let total = |segments: u32, segment: Sectors| u64::from(segments) * segment.0;
            let off = total(segments, segment).abs_diff(total(is.segments, is.segment));
            if segments != is.segments || off > is.segment.0 {
                let shown = (is.segments, is.segment);
                missed.push(format!("read buffer: {segments} of {segment} for {shown:?}"));
            }
        }
    }
    let Some(write) = found.write_buffer else {
        missed.push("write buffer not found".to_owned());
        return missed;
    };
    let caches = spec.write_cache && spec.write_buffer > Sectors::ZERO;
    let size = write.size.map_or(0, |size| size.value.0);
    let true_size = if caches { spec.write_buffer.0 } else { 0 };
    if write.write_back != caches || size.abs_diff(true_size) > is.segment.0 {
        let early = write.write_back;
        missed
            .push(format!("write buffer: {size} sectors for {true_size}, answers early: {early}"));
    }
    missed
}

/// The largest error of a point of a quick profile's curve, in its standard errors.
const ERRORS: f64 = 3.0;

/// The errors of a quick profile's map and seeks, as far as they extend: zones that begin where
/// none does or have other tracks, and seek times that are off by more than a twentieth, 0.1 ms and
/// their own errors.
pub(crate) fn missed_of_quick_profile(model: &Model, found: &Findings) -> Vec<String> {
    let mut missed = Vec::new();
    let zones = found.geometry.iter().flat_map(|map| &map.zones);
    for zone in zones {
        let is = model.zones().zip(&model.spec().zones).find(|(facts, _)| {
            facts.lbas.start <= zone.lbas.start && zone.lbas.start < facts.lbas.end()
        });
        let sectors = zone.sectors_per_track.value;
        let Some((facts, is)) = is else { continue };
        if is.sectors_per_track != sectors {
            missed.push(format!(
                "zone at {}: {sectors} for {}",
                zone.lbas.start.0, is.sectors_per_track
            ));
        } else if facts.lbas.start != zone.lbas.start {
            missed.push(format!("zone at {} for {}", zone.lbas.start.0, facts.lbas.start.0));
        }
    }
    let heads = found.geometry.as_ref().and_then(|map| map.heads).map(|heads| heads.value);
    if heads.is_some_and(|heads| heads != model.spec().surfaces) {
        missed.push(format!("heads: {heads:?} for {}", model.spec().surfaces));
    }
    for point in found.dynamics.seek.iter().flat_map(|seeks| &seeks.points) {
        let (found, is) = (point.time.as_millis_f64(), model.seek(point.distance).as_millis_f64());
        let error = point.error.as_millis_f64();
        let off = found - is;
        if off.abs() > (is * 0.05).max(0.1) + ERRORS * error {
            let distance = point.distance;
            missed.push(format!("seek over {distance}: {off:+.3} ms of {is:.3}, error {error:.3}"));
        }
    }
    missed
}

/// The delay of a read's completion after its last sector, which is in every observed time.
pub(crate) fn behind(spec: &Spec) -> Duration {
    let bus = spec.firmware.bus;
    spec.bus_sector + bus.reselect.max(bus.prepare) + bus.read_done
}

/// The worst point of the curve before writes, with the overhead before the arm moves: the two are
/// not separable where data crosses a bus first.
pub(crate) fn worst_of_writes(model: &Model, found: &Dynamics) -> (u32, f64, f64) {
    let curve = found.seek_write.as_ref().expect("found").curve();
    let overhead = found.overheads.write.expect("found").value;
    let spec = model.spec();
    let table = spec.seek_write.as_ref().unwrap_or(&spec.seek);
    let table = drive_profile::SeekTable { points: table.points.clone() };
    let micros = |time: Duration| time.as_millis_f64() * 1e3;
    let behind = behind(spec);
    let off = |distance: u32| {
        let is = spec.overheads.write_media + table.time(distance) + spec.write_settle + behind;
        let off = micros(overhead + curve.time(distance)) - micros(is);
        (distance, off, off.abs() / (micros(is) * 0.03).max(50.0))
    };
    let all = (1..model.cylinders()).map(off);
    all.fold((0, 0.0, 0.0), |worst, one| if one.2 > worst.2 { one } else { worst })
}
