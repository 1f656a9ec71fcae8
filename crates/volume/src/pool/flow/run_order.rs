//! Watches the order in which the clients of volumes ask for their bytes.

use units::{Op, Sectors};

use crate::pool::flow::core::Flow;
use crate::pool::names::PoolVolumeId;

impl Flow {
    /// Whether the order of a volume's requests is watched from now on. What has been counted is
    /// kept; where there is no such volume nothing changes.
    pub fn watch_order(&mut self, volume: PoolVolumeId, is_watched: bool) {
        if is_watched && self.pool.state().volume(volume).is_some() {
            self.orders.entry(volume).or_default();
        }
        if let Some(order) = self.orders.get_mut(&volume) {
            if !order.is_watched {
                // Where it begins when it is watched again is in order.
                order.end = None;
            }
            order.is_watched = is_watched;
        }
        let is_there = self.pool.state().volume(volume).is_some();
        assert!(is_there || !self.orders.contains_key(&volume), "only volumes are watched");
    }

    /// The sectors of the reads and writes that did not begin where the one before had ended, while
    /// the volume was watched.
    pub fn out_of_order(&self, volume: PoolVolumeId) -> Sectors {
        self.orders.get(&volume).map_or(Sectors::ZERO, |order| order.out_of_order)
    }

    /// A request that was admitted is submitted.
    pub(crate) fn pass_in_order(&mut self, volume: PoolVolumeId, operation: &units::Operation) {
        assert!(operation.op != Op::Seek, "no client submits a seek");
        let moves = matches!(operation.op, Op::Read | Op::Write) && !operation.extent.is_empty();
        let order = self.orders.get_mut(&volume).filter(|order| moves && order.is_watched);
        if let Some(order) = order {
            order.pass(operation.extent);
        }
    }
}
