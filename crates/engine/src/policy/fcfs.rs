//! First come, first served: no contract is kept. The control of every experiment.

use std::collections::VecDeque;

use units::{DiskTime, Instant, Operation};

use super::interface::{Dispatch, DispatchRecord, Pick, Policy};
use crate::{Contract, Settings, VolumeId};

/// The volumes in the order of their requests. A request that needs several commands keeps its
/// position until the last.
#[derive(Debug, Default)]
pub(crate) struct Fcfs {
    arrivals: VecDeque<VolumeId>,
}

impl Policy for Fcfs {
    fn add_volume(&mut self, _: Contract, _: Instant) {}

    fn change_contract(&mut self, _: VolumeId, _: Contract, _: Instant) {}

    fn reset_volume(&mut self, volume: VolumeId, _: Contract, _: Instant) {
        debug_assert!(!self.arrivals.contains(&volume), "a removed volume has no request");
    }

    fn change_period(&mut self, _: &Settings, _: Instant) {}

    fn queued(&mut self, volume: VolumeId, _: &Operation, _: Option<&Operation>, _: Instant) {
        self.arrivals.push_back(volume);
    }

    fn pick(&mut self, _: usize, _: Instant) -> Pick {
        self.arrivals.front().map_or(Pick::Nothing, |volume| Pick::Volume(*volume))
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, _: Instant) -> DispatchRecord {
        let index = self.arrivals.iter().position(|volume| *volume == dispatch.volume);
        let index = index.expect("a dispatched volume has a request");
        assert!(index == 0 || dispatch.urgent, "first come, first served");
        if dispatch.ends_request {
            self.arrivals.remove(index);
        }
        DispatchRecord::new(DiskTime::ZERO, true)
    }

    fn completed(
        &mut self,
        _: VolumeId,
        record: DispatchRecord,
        took: DiskTime,
        _: Instant,
    ) -> DiskTime {
        assert_eq!(record.estimate, DiskTime::ZERO, "nothing is estimated");
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        took
    }
}
