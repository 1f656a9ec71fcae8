//! The volumes of one disk's thread, beside what its engine knows of them.
//!
//! Invariant: a volume leaves when nothing it was asked for is left, and whoever waits for that is told once.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use engine::{Declared, Engine, Reply, SEQUENTIAL_WITHIN, VolumeId};
use frontend::ExportId;
use report::{Latency, Runs};
use units::{DiskTime, Duration, Extent, Instant};

use crate::inbox::{Changed, Look};
use crate::status::{Latencies, VolumeView};

/// One volume.
#[derive(Debug)]
struct Seat {
    export: ExportId,
    latencies: Latencies,
    /// How far off the estimates of its clients' requests were.
    error: Latency,
    /// The runs that its clients' requests came in.
    runs: Runs,
    /// What its reserve was worked out from, if from a rate.
    declared: Option<Declared>,
    /// Requests that are not answered.
    open: u64,
    /// Who waits until there are none.
    drained: Option<SyncSender<Changed>>,
}

/// How a client's request was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// How long after it came.
    pub(crate) latency: Duration,
    /// What the engine said of it.
    pub(crate) reply: Reply,
}

/// The volumes, by their numbers in the engine.
#[derive(Debug, Default)]
pub(crate) struct Seats(Vec<Option<Seat>>);

impl Seats {
    pub(crate) fn add(&mut self, volume: VolumeId, export: ExportId, declared: Option<Declared>) {
        let index = volume.0 as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        let (latencies, error, runs) = (Latencies::default(), Latency::default(), Runs::default());
        let seat = Seat { export, latencies, error, runs, declared, open: 0, drained: None };
        let before = self.0[index].replace(seat);
        assert!(before.is_none(), "a number is one volume's");
    }

    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let seat = self.0[volume.0 as usize].take().expect("a volume leaves once");
        assert_eq!(seat.open, 0, "a volume leaves when it is drained");
    }

    fn seat(&mut self, volume: VolumeId) -> &mut Seat {
        self.0[volume.0 as usize].as_mut().expect("a volume that is asked for is there")
    }

    /// What its reserve is worked out from, from now on.
    pub(crate) fn declare(&mut self, volume: VolumeId, declared: Option<Declared>) {
        self.seat(volume).declared = declared;
    }

    /// A client asks for this.
    pub(crate) fn seen(&mut self, volume: VolumeId, extent: Extent) {
        self.seat(volume).runs.record(extent, SEQUENTIAL_WITHIN);
    }

    /// A request has come.
    pub(crate) fn asked(&mut self, volume: VolumeId) {
        self.seat(volume).open += 1;
    }

    /// A request has been answered: a client's so.
    pub(crate) fn answered(&mut self, volume: VolumeId, client: Option<Answered>) {
        let seat = self.seat(volume);
        if let Some(Answered { latency, reply }) = client {
            seat.latencies.response.record(latency);
            seat.latencies.waiting.record(reply.waited);
            // Who estimates nothing is never off.
            if reply.estimate > DiskTime::ZERO {
                let off = (reply.disk_time - reply.estimate).as_nanos().unsigned_abs();
                seat.error.record(Duration::from_nanos(off));
            }
        }
        seat.open -= 1;
        if seat.open == 0
            && let Some(waiting) = seat.drained.take()
        {
            // Who waited may have gone.
            let _ = waiting.try_send(Ok(volume));
        }
    }

    /// Tells `waiting` when nothing that the volume was asked for is left.
    pub(crate) fn drain(&mut self, volume: VolumeId, waiting: SyncSender<Changed>) {
        let seat = self.seat(volume);
        if seat.open == 0 {
            let _ = waiting.try_send(Ok(volume));
        } else {
            seat.drained = Some(waiting);
        }
    }

    pub(crate) fn view(
        &self,
        engine: &mut Engine,
        look: Look,
        now: Instant,
    ) -> BTreeMap<ExportId, VolumeView> {
        let seats = (0..).map(VolumeId).zip(&self.0);
        let seats = seats.filter_map(|(volume, seat)| Some((volume, seat.as_ref()?)));
        let views = seats.map(|(volume, seat)| {
            let told = look == Look::All || look == Look::One(seat.export);
            let latencies = if told { seat.latencies.clone() } else { Latencies::default() };
            let error = if told { seat.error.clone() } else { Latency::default() };
            let (runs, declared) = (seat.runs, seat.declared);
            let (contract, account) = (engine.contract(volume), *engine.account(volume));
            let balance = engine.balance(volume, now);
            let view = VolumeView { contract, account, balance, latencies, error, runs, declared };
            (seat.export, view)
        });
        views.collect()
    }
}
