//! First come, first served: no promise is kept. The control in every experiment.

use std::collections::VecDeque;

use units::{DiskTime, Instant, Operation};

use super::interface::{Dispatch, DispatchRecord, Pick, Policy};
use crate::{Contract, Settings, VolumeId};

/// The order in which requests came. A request that needs several commands keeps its place until the last.
#[derive(Debug, Default)]
pub(crate) struct Fcfs {
    arrivals: VecDeque<VolumeId>,
}

impl Policy for Fcfs {
    fn add(&mut self, _: Contract, _: Instant) {}

    fn change(&mut self, _: VolumeId, _: Contract, _: Instant) {}

    fn reset_volume(&mut self, _: VolumeId, _: Contract, _: Instant) {}

    fn change_period(&mut self, _: &Settings, _: Instant) {}

    fn queued(&mut self, volume: VolumeId, _: &Operation, _: Option<&Operation>, _: Instant) {
        self.arrivals.push_back(volume);
    }

    fn pick(&mut self, _: usize, _: Instant) -> Pick {
        self.arrivals.front().map_or(Pick::Nothing, |volume| Pick::Volume(*volume))
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, _: Instant) -> DispatchRecord {
        let place = self.arrivals.iter().position(|volume| *volume == dispatch.volume);
        let place = place.expect("who is served has come");
        assert!(place == 0 || dispatch.urgent, "first come, first served");
        if dispatch.ends_request {
            self.arrivals.remove(place);
        }
        DispatchRecord::new(DiskTime::ZERO, true)
    }

    fn completed(
        &mut self,
        _: VolumeId,
        _: DispatchRecord,
        took: DiskTime,
        _: Instant,
    ) -> DiskTime {
        took
    }
}
