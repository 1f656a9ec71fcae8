//! The volumes of one disk's thread, beside what its engine knows of them.
//!
//! Invariant: a volume leaves when nothing it was asked for is left, and whoever waits for that is told once.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use engine::{Engine, VolumeId};
use frontend::ExportId;
use units::{Duration, Instant};

use crate::inbox::{Changed, Look};
use crate::status::{Latencies, VolumeView};

/// How long one request took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// From its arrival to its answer.
    pub(crate) response: Duration,
    /// From its arrival to its first command.
    pub(crate) waiting: Duration,
}

/// One volume.
#[derive(Debug)]
struct Seat {
    export: ExportId,
    latencies: Latencies,
    /// Requests that are not answered.
    open: u64,
    /// Who waits until there are none.
    drained: Option<SyncSender<Changed>>,
}

/// The volumes, by their numbers in the engine.
#[derive(Debug, Default)]
pub(crate) struct Seats(Vec<Option<Seat>>);

impl Seats {
    pub(crate) fn add(&mut self, volume: VolumeId, export: ExportId) {
        let index = volume.0 as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        let seat = Seat { export, latencies: Latencies::default(), open: 0, drained: None };
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

    /// A request has come.
    pub(crate) fn asked(&mut self, volume: VolumeId) {
        self.seat(volume).open += 1;
    }

    /// A request has been answered, this long after it came.
    pub(crate) fn answered(&mut self, volume: VolumeId, took: Option<Took>) {
        let seat = self.seat(volume);
        if let Some(took) = took {
            seat.latencies.response.record(took.response);
            seat.latencies.waiting.record(took.waiting);
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
            let (contract, account) = (engine.contract(volume), *engine.account(volume));
            let balance = engine.balance(volume, now);
            (seat.export, VolumeView { contract, account, balance, latencies })
        });
        views.collect()
    }
}
