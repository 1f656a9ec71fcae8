//! Where a volume's sectors lie, and how its requests get there. Only this file tells a volume on
//! one disk from a volume of the pool: to the rest of the request path a volume is a volume.

use std::sync::Arc;

use config::DiskIndex;
use engine::VolumeId;
use nbd::{BlockStatusRequest, Request};
use units::{Extent, Instant, Op, Operation};
use volume::pool::PoolVolumeId;

use crate::disk::message::Message;
use crate::disk::request::{DiskRequest, Origin};
use crate::pool::service::PoolService;

/// Where a volume's sectors lie.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    /// One extent on one disk.
    Extent(ExtentPlacement),
    /// Blocks of the pool.
    Pool(PoolPlacement),
}

/// One extent on one disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentPlacement {
    pub(crate) disk: DiskIndex,
    /// The volume's number on that disk.
    pub(crate) volume: VolumeId,
    /// The volume's sectors on that disk.
    pub(crate) extent: Extent,
}

/// Blocks of the pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolPlacement {
    pub(crate) pool: Arc<PoolService>,
    pub(crate) volume: PoolVolumeId,
    /// Whether it is a snapshot.
    pub(crate) read_only: bool,
}

/// The requests of one event-loop iteration, by destination.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Messages by disk.
    pub(crate) messages: Vec<Vec<Message>>,
    /// Requests to the pool.
    pub(crate) pool: Vec<(PoolVolumeId, Request)>,
}

impl Batch {
    pub(crate) fn new(disks: usize) -> Self {
        Self { messages: (0..disks).map(|_| Vec::new()).collect(), pool: Vec::new() }
    }
}

impl ExtentPlacement {
    /// An extent of the volume, in the disk's sectors.
    fn translate(&self, extent: Extent) -> Extent {
        let whole = Extent::new(units::Lba(0), self.extent.len);
        assert!(whole.contains(extent), "the server checks extents against the export's size");
        Extent::new(self.extent.start + units::Sectors(extent.start.0), extent.len)
    }
}

impl Placement {
    /// Whether clients may only read.
    pub(crate) const fn is_read_only(&self) -> bool {
        matches!(self, Self::Pool(PoolPlacement { read_only: true, .. }))
    }

    /// Whether the volume lies on one disk and never on another.
    pub(crate) const fn is_on_one_disk(&self) -> bool {
        matches!(self, Self::Extent(_))
    }

    /// The disks that the volume lies on.
    pub(crate) fn disks(&self) -> Vec<DiskIndex> {
        match self {
            Self::Extent(extent) => vec![extent.disk],
            Self::Pool(PoolPlacement { pool, volume, .. }) => pool.disks_of(*volume),
        }
    }

    /// Adds a client's request, received at `received`, to the batch.
    pub(crate) fn submit(
        &self,
        request: Request,
        received: impl FnOnce() -> Instant,
        batch: &mut Batch,
    ) {
        match self {
            Self::Extent(placement) => {
                let Request { id, operation, data, no_hole, .. } = request;
                let Operation { op, mut extent, fua } = operation;
                if op != Op::Flush {
                    extent = placement.translate(extent);
                }
                let request = DiskRequest {
                    origin: Origin::Client(id),
                    volume: placement.volume,
                    operation: Operation { op, extent, fua },
                    data,
                    no_hole,
                    received: Some(received()),
                    within: Some(placement.extent),
                };
                batch.messages[placement.disk.0].push(Message::Request(request));
            }
            Self::Pool(placement) => batch.pool.push((placement.volume, request)),
        }
    }

    /// Has a client told which sectors hold data.
    pub(crate) fn block_status(&self, query: BlockStatusRequest, batch: &mut Batch) {
        match self {
            Self::Extent(placement) => {
                let extent = placement.translate(query.extent);
                let message = Message::BlockStatus(query.id, extent);
                batch.messages[placement.disk.0].push(message);
            }
            Self::Pool(placement) => placement.pool.block_status(placement.volume, query),
        }
    }
}
