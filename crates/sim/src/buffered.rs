//! The memory of a simulated disk's write buffers: instead of bytes, the versions that the data
//! oracle watches.

use std::collections::BTreeMap;

use engine::{Destage, PieceId, VolumeId, WriteBuffer, WriteBufferSettings};
use units::{Extent, Lba};

use crate::oracle::{Version, Watched, watched};

/// The write buffers of one disk.
#[derive(Debug)]
pub(crate) struct BufferOfDisk {
    pub(crate) buffer: WriteBuffer,
    /// The write whose data each piece has.
    held: BTreeMap<PieceId, Version>,
}

impl BufferOfDisk {
    pub(crate) fn new(settings: WriteBufferSettings) -> Self {
        Self { buffer: WriteBuffer::new(settings), held: BTreeMap::new() }
    }

    /// A piece has the data of a write.
    pub(crate) fn keep(&mut self, piece: PieceId, write: &Watched) {
        let before = self.held.insert(piece, write.version());
        assert!(before.is_none(), "a piece is kept once");
    }

    /// The data of a piece is not needed any more.
    pub(crate) fn release(&mut self, piece: PieceId) {
        assert!(self.held.remove(&piece).is_some(), "a piece is released once");
    }

    /// The buffered writes of each watched sector of an extent.
    fn versions(&self, volume: VolumeId, extent: Extent) -> Vec<(Lba, Version)> {
        let mut versions = Vec::new();
        for part in self.buffer.parts(volume, extent) {
            let version = self.held[&part.piece];
            versions.extend(watched(part.extent).map(|lba| (lba, version)));
        }
        versions
    }

    /// A read sees what is buffered.
    pub(crate) fn copy(&self, volume: VolumeId, extent: Extent, read: &mut Watched) {
        read.see_first(self.versions(volume, extent));
    }

    /// What a destage writes.
    pub(crate) fn of_destage(&self, destage: &Destage) -> Watched {
        Watched::of_destage(self.versions(destage.volume, destage.operation.extent))
    }

    pub(crate) fn invariants(&self) {
        self.buffer.invariants();
    }
}
