//! The volumes of one disk: their statistics, beside what the engine knows of them.
//!
//! Invariants: a volume is removed when all of its requests are answered; a drain is answered once;
//! the disk's counts are the sums of its volumes' counts, removed volumes included.

use std::sync::mpsc::SyncSender;

use engine::stream::Span;
use engine::{Engine, RateContract, SEQUENTIAL_WITHIN, VolumeId, VolumeUsage};
use flight::RecordedEngine;
use nbd::ExportId;
use stats::{DemandSample, DemandWindow, Latency, Runs, WORTH_WINDOW};
use units::{Extent, Instant, Op, Operation, Sectors};

use super::message::StatsDetail;
use super::read_ahead::HostReadAhead;
use super::request::Changed;
use super::write_buffer::HostWriteBuffer;
use crate::observe::status::{Latencies, VolumeSnapshot};
use crate::observe::traffic::{Answered, Traffic};

/// Requests, their failures, and the sectors of the others.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    requests: u64,
    failures: u64,
    sectors: Sectors,
}

/// One volume.
#[derive(Debug)]
struct Entry {
    export: ExportId,
    latencies: Latencies,
    /// The errors of the estimates of its clients' requests.
    estimate_error: Latency,
    /// The sequential runs of its clients' requests.
    runs: Runs,
    /// The rate from which its reserve was derived, if it was derived from one.
    declared: Option<RateContract>,
    /// When its stream is in force on this disk, and when on some disk.
    spans: (Span, Span),
    /// What clients asked of this disk while the stream was in force on others only.
    outside: Sectors,
    traffic: Traffic,
    /// What its requests have demanded recently.
    demand: DemandWindow,
    /// What the engine counts as the volume's and no client has asked for.
    internal: Counted,
    /// What the host's memory has answered, which the engine has not seen.
    from_memory: Counted,
    /// Receives an answer when no request is open.
    drained: Option<SyncSender<Changed>>,
}

impl Entry {
    /// Answers a drain, if no request is open.
    fn answer_drain(&mut self, volume: VolumeId) {
        if self.traffic.open == 0
            && let Some(drained) = self.drained.take()
        {
            // The receiver may have stopped waiting.
            let _ = drained.try_send(Ok(volume));
        }
    }

    /// What the volume's clients got, by what the engine has counted.
    fn account(&self, engine: &VolumeUsage) -> VolumeUsage {
        let (more, less) = (self.from_memory, self.internal);
        VolumeUsage {
            requests: engine.requests + more.requests - less.requests,
            failures: engine.failures - less.failures,
            sectors: engine.sectors + more.sectors - less.sectors,
            ..*engine
        }
    }
}

/// The volumes, by their numbers in the engine.
#[derive(Debug, Default)]
pub(crate) struct VolumeTable {
    entries: Vec<Option<Entry>>,
    /// The sum over all volumes, removed ones included.
    traffic: Traffic,
    /// When the demand of all volumes was sampled last.
    sampled_at: Option<Instant>,
}

impl VolumeTable {
    pub(crate) fn add(
        &mut self,
        volume: VolumeId,
        export: ExportId,
        declared: Option<RateContract>,
    ) {
        let index = volume.0 as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        let entry = Entry {
            export,
            latencies: Latencies::default(),
            estimate_error: Latency::default(),
            runs: Runs::default(),
            declared,
            spans: (Span::ALWAYS, Span::ALWAYS),
            outside: Sectors::ZERO,
            traffic: Traffic::default(),
            demand: DemandWindow::default(),
            internal: Counted::default(),
            from_memory: Counted::default(),
            drained: None,
        };
        let previous = self.entries[index].replace(entry);
        assert!(previous.is_none(), "a number names one volume");
    }

    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let entry = self.entries[volume.0 as usize].take().expect("a volume is removed once");
        assert_eq!(entry.traffic.open, 0, "a volume is removed when it is drained");
        assert!(entry.drained.is_none(), "a drain is answered before the volume is removed");
    }

    fn entry(&mut self, volume: VolumeId) -> &mut Entry {
        self.entries[volume.0 as usize].as_mut().expect("a volume with requests is attached")
    }

    /// Samples the demand of all volumes, once in each window.
    pub(crate) fn sample_demand(&mut self, engine: &Engine, now: Instant) {
        if self.sampled_at.is_some_and(|last| now.saturating_since(last) < WORTH_WINDOW) {
            return;
        }
        self.sampled_at = Some(now);
        for (volume, entry) in (0..).map(VolumeId).zip(&mut self.entries) {
            let Some(entry) = entry else { continue };
            if let Some(sample) = demand(engine, volume, now) {
                entry.demand.rotate(sample);
            }
        }
    }

    /// Begins a new window for a volume whose contract has changed.
    pub(crate) fn restart_demand(&mut self, volume: VolumeId, engine: &Engine, now: Instant) {
        let mut window = DemandWindow::default();
        if let Some(sample) = demand(engine, volume, now) {
            window.rotate(sample);
        }
        self.entry(volume).demand = window;
    }

    /// Replaces the rate from which the volume's reserve is derived.
    pub(crate) fn set_declared(&mut self, volume: VolumeId, declared: Option<RateContract>) {
        self.entry(volume).declared = declared;
    }

    /// Replaces the spans of the volume's stream: on this disk, and on some disk.
    pub(crate) fn set_spans(&mut self, volume: VolumeId, spans: (Span, Span)) {
        self.entry(volume).spans = spans;
    }

    /// Counts a client's read or write that comes outside of the disk's span, if it does.
    pub(crate) fn record_outside(&mut self, volume: VolumeId, operation: &Operation, now: Instant) {
        let entry = self.entry(volume);
        let (here, somewhere) = (entry.spans.0.contains(now), entry.spans.1.contains(now));
        if somewhere && !here && matches!(operation.op, Op::Read | Op::Write) {
            entry.outside += operation.extent.len;
        }
    }

    /// Records a client's request in the volume's sequential runs.
    pub(crate) fn record_access(&mut self, volume: VolumeId, extent: Extent) {
        self.entry(volume).runs.record(extent, SEQUENTIAL_WITHIN);
    }

    /// Counts a request that arrives.
    pub(crate) fn record_arrival(&mut self, volume: VolumeId, now: Instant) {
        self.entry(volume).traffic.record_arrival(now);
        self.traffic.record_arrival(now);
    }

    /// Counts a request that is answered, and answers a drain that waits for it.
    pub(crate) fn record_answer(&mut self, volume: VolumeId, answered: &Answered, now: Instant) {
        self.traffic.record_answer(answered, now);
        let entry = self.entry(volume);
        entry.traffic.record_answer(answered, now);
        if answered.client {
            entry.latencies.response.record(answered.latency);
            entry.latencies.waiting.record(answered.waiting);
            if let Some(error) = answered.estimate_error {
                entry.estimate_error.record(error);
            }
        }
        entry.answer_drain(volume);
    }

    /// Counts a request of the read-ahead, or of a write buffer, that arrives.
    pub(crate) fn record_internal(&mut self, volume: VolumeId, now: Instant) {
        self.record_arrival(volume, now);
    }

    /// Counts such a request that is answered, with the sectors that it moved unless it failed, and
    /// answers a drain that waits for it.
    pub(crate) fn record_internal_done(
        &mut self,
        volume: VolumeId,
        sectors: Option<Sectors>,
        now: Instant,
    ) {
        self.traffic.record_filled(now);
        let entry = self.entry(volume);
        entry.traffic.record_filled(now);
        entry.internal.requests += 1;
        entry.internal.failures += u64::from(sectors.is_none());
        entry.internal.sectors += sectors.unwrap_or_default();
        entry.answer_drain(volume);
    }

    /// Counts a client's request that the host's memory answers, and the sectors that it moves.
    pub(crate) fn record_memory(&mut self, volume: VolumeId, sectors: Sectors) {
        let entry = self.entry(volume);
        entry.from_memory.requests += 1;
        entry.from_memory.sectors += sectors;
    }

    /// Answers `drained` when no request of the volume is open.
    pub(crate) fn drain(&mut self, volume: VolumeId, drained: SyncSender<Changed>) {
        let entry = self.entry(volume);
        if entry.traffic.open == 0 {
            let _ = drained.try_send(Ok(volume));
        } else {
            let previous = entry.drained.replace(drained);
            assert!(previous.is_none(), "changes are made one at a time");
        }
    }

    /// The export of a volume, if it is attached.
    pub(crate) fn export(&self, volume: VolumeId) -> Option<ExportId> {
        self.entries.get(volume.0 as usize)?.as_ref().map(|entry| entry.export)
    }

    /// Counts a slow request.
    pub(crate) fn record_slow(&mut self, volume: VolumeId) {
        self.traffic.slow += 1;
        if let Some(Some(entry)) = self.entries.get_mut(volume.0 as usize) {
            entry.traffic.slow += 1;
        }
    }

    /// The numbers of the attached volumes.
    pub(crate) fn ids(&self) -> Vec<VolumeId> {
        self.attached().map(|(volume, _)| volume).collect()
    }

    /// The traffic of the whole disk.
    pub(crate) fn traffic(&self, now: Instant) -> Traffic {
        self.traffic.at(now)
    }

    fn attached(&self) -> impl Iterator<Item = (VolumeId, &Entry)> {
        let entries = (0..).map(VolumeId).zip(&self.entries);
        entries.filter_map(|(volume, entry)| Some((volume, entry.as_ref()?)))
    }

    /// The statistics of all attached volumes.
    pub(crate) fn snapshot(
        &self,
        engine: &mut RecordedEngine,
        (ahead, buffer): (Option<&HostReadAhead>, Option<&HostWriteBuffer>),
        detail: StatsDetail,
        now: Instant,
    ) -> Vec<(ExportId, VolumeSnapshot)> {
        let snapshot = |engine: &mut RecordedEngine, (volume, entry): (VolumeId, &Entry)| {
            let with_latencies =
                detail == StatsDetail::All || detail == StatsDetail::LatenciesOf(entry.export);
            let (latencies, estimate_error) = if with_latencies {
                (entry.latencies.clone(), entry.estimate_error.clone())
            } else {
                Default::default()
            };
            let contract = engine.contract(volume);
            // A stream is kept by deadlines, beside which a reserve is not the measure.
            // What a client that is read ahead would demand of the disk itself is not known.
            let read_ahead = ahead.map_or_else(Default::default, |ahead| ahead.usage(volume));
            let is_measured = contract.stream.is_none() && read_ahead.sectors == Sectors::ZERO;
            let is_measured = is_measured && !contract.reserve.is_none();
            let sample = if is_measured { demand(engine, volume, now) } else { None };
            let mut kept = engine.deadline_stats(volume).unwrap_or_default();
            kept.bytes.outside += entry.outside;
            let snapshot = VolumeSnapshot {
                contract,
                worth: sample.and_then(|now| entry.demand.worth(&now, contract.reserve)),
                account: entry.account(engine.usage(volume)),
                balance: engine.balance(volume, now),
                slack: engine.slack(volume),
                latencies,
                traffic: entry.traffic.at(now),
                estimate_error,
                runs: entry.runs,
                declared: entry.declared,
                kept,
                bounded: engine.latency_stats(volume),
                read_ahead,
                write_buffer: buffer.map_or_else(Default::default, |buffer| buffer.usage(volume)),
            };
            (entry.export, snapshot)
        };
        let streams_only = detail == StatsDetail::Streams;
        let mut all = Vec::with_capacity(if streams_only { 0 } else { self.entries.len() });
        for (volume, entry) in self.attached() {
            let has_stream = engine.contract(volume).stream.is_some();
            if !streams_only || has_stream || entry.spans.0 != entry.spans.1 {
                all.push(snapshot(engine, (volume, entry)));
            }
        }
        all
    }
}

/// What the requests of a volume have demanded until now, if the policy tells.
fn demand(engine: &Engine, volume: VolumeId, now: Instant) -> Option<DemandSample> {
    let demand = engine.service_demand(volume, now)?;
    Some(DemandSample { at: now, requests: engine.usage(volume).requests, demand })
}
