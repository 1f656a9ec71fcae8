//! The volumes of one disk's thread, beside what its engine knows of them.
//!
//! Invariant: a volume leaves when nothing it was asked for is left, and whoever waits for that is told once.

use std::sync::mpsc::SyncSender;

use engine::{RateContract, SEQUENTIAL_WITHIN, VolumeId};
use flight::RecordedEngine;
use nbd::ExportId;
use stats::{Latency, Runs};
use units::{Extent, Instant};

use crate::inbox::{Changed, Look};
use crate::status::{Latencies, VolumeView};
use crate::traffic::{Answered, Traffic};

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
    declared: Option<RateContract>,
    traffic: Traffic,
    /// Who waits until there are none.
    drained: Option<SyncSender<Changed>>,
}

/// The volumes, by their numbers in the engine.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    seats: Vec<Option<Seat>>,
    /// Of all of them, and of those that have left.
    traffic: Traffic,
}

impl Seats {
    pub(crate) fn add(
        &mut self,
        volume: VolumeId,
        export: ExportId,
        declared: Option<RateContract>,
    ) {
        let index = volume.0 as usize;
        if self.seats.len() <= index {
            self.seats.resize_with(index + 1, || None);
        }
        let (latencies, error, runs) = (Latencies::default(), Latency::default(), Runs::default());
        let traffic = Traffic::default();
        let seat = Seat { export, latencies, error, runs, declared, traffic, drained: None };
        let before = self.seats[index].replace(seat);
        assert!(before.is_none(), "a number is one volume's");
    }

    pub(crate) fn remove(&mut self, volume: VolumeId) {
        let seat = self.seats[volume.0 as usize].take().expect("a volume leaves once");
        assert_eq!(seat.traffic.open, 0, "a volume leaves when it is drained");
    }

    fn seat(&mut self, volume: VolumeId) -> &mut Seat {
        self.seats[volume.0 as usize].as_mut().expect("a volume that is asked for is there")
    }

    /// What its reserve is worked out from, from now on.
    pub(crate) fn declare(&mut self, volume: VolumeId, declared: Option<RateContract>) {
        self.seat(volume).declared = declared;
    }

    /// A client asks for this.
    pub(crate) fn seen(&mut self, volume: VolumeId, extent: Extent) {
        self.seat(volume).runs.record(extent, SEQUENTIAL_WITHIN);
    }

    /// A request has come.
    pub(crate) fn asked(&mut self, volume: VolumeId, now: Instant) {
        self.seat(volume).traffic.asked(now);
        self.traffic.asked(now);
    }

    /// A request has been answered.
    pub(crate) fn answered(&mut self, volume: VolumeId, answered: &Answered, now: Instant) {
        self.traffic.answered(answered, now);
        let seat = self.seat(volume);
        seat.traffic.answered(answered, now);
        if answered.client {
            seat.latencies.response.record(answered.latency);
            seat.latencies.waiting.record(answered.waiting);
            if let Some(off) = answered.estimate_error {
                seat.error.record(off);
            }
        }
        if seat.traffic.open == 0
            && let Some(waiting) = seat.drained.take()
        {
            // Who waited may have gone.
            let _ = waiting.try_send(Ok(volume));
        }
    }

    /// Tells `waiting` when nothing that the volume was asked for is left.
    pub(crate) fn drain(&mut self, volume: VolumeId, waiting: SyncSender<Changed>) {
        let seat = self.seat(volume);
        if seat.traffic.open == 0 {
            let _ = waiting.try_send(Ok(volume));
        } else {
            seat.drained = Some(waiting);
        }
    }

    /// Whose a volume is, if it is there.
    pub(crate) fn export(&self, volume: VolumeId) -> Option<ExportId> {
        self.seats.get(volume.0 as usize)?.as_ref().map(|seat| seat.export)
    }

    /// A request of a volume's was slow.
    pub(crate) fn slow(&mut self, volume: VolumeId) {
        self.traffic.slow += 1;
        if let Some(Some(seat)) = self.seats.get_mut(volume.0 as usize) {
            seat.traffic.slow += 1;
        }
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> Vec<VolumeId> {
        let seats = (0..).map(VolumeId).zip(&self.seats);
        seats.filter_map(|(volume, seat)| seat.as_ref().map(|_| volume)).collect()
    }

    /// What has been asked of all of them.
    pub(crate) fn traffic(&self, now: Instant) -> Traffic {
        self.traffic.at(now)
    }

    pub(crate) fn view(
        &self,
        engine: &mut RecordedEngine,
        look: Look,
        now: Instant,
    ) -> Vec<(ExportId, VolumeView)> {
        let seats = (0..).map(VolumeId).zip(&self.seats);
        let seats = seats.filter_map(|(volume, seat)| Some((volume, seat.as_ref()?)));
        let views = seats.map(|(volume, seat)| {
            let told = look == Look::All || look == Look::One(seat.export);
            let latencies = if told { seat.latencies.clone() } else { Latencies::default() };
            let error = if told { seat.error.clone() } else { Latency::default() };
            let (runs, declared) = (seat.runs, seat.declared);
            let (contract, account) = (engine.contract(volume), *engine.usage(volume));
            let (balance, slack) = (engine.balance(volume, now), engine.slack(volume));
            let traffic = seat.traffic.at(now);
            let kept = engine.deadline_stats(volume).unwrap_or_default();
            let view = VolumeView {
                contract,
                account,
                balance,
                slack,
                latencies,
                traffic,
                error,
                runs,
                declared,
                kept,
            };
            (seat.export, view)
        });
        views.collect()
    }
}
