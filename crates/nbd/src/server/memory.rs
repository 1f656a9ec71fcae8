//! Exports in memory, answered at once on the server's own thread: measurements against them are of
//! the NBD server alone.

use units::{Extent, Op, SECTOR_BYTES, Sectors};

use crate::proto::export::{Export, Exports};
use crate::proto::request::{
    Allocation, BlockStatusReply, BlockStatusRequest, Errno, Reply, Request, Segment,
};
use crate::server::handler::RequestHandler;
use crate::server::threads::Server;

/// The granularity of allocation.
const PAGE: Sectors = Sectors(128);

/// A fixed list of exports; their numbers are their indices.
#[derive(Clone, Debug)]
pub struct FixedExports(pub Vec<Export>);

impl Exports for FixedExports {
    fn list(&self) -> Vec<Export> {
        self.0.clone()
    }

    fn open(&self, name: &str) -> Option<Export> {
        self.0.iter().find(|export| export.name == name).cloned()
    }
}

/// One disk in memory.
#[derive(Clone, Debug)]
struct Disk {
    bytes: Vec<u8>,
    /// Of each page, whether something was written to it.
    written: Vec<bool>,
}

/// A request handler with disks in memory, indexed by the numbers of their exports.
#[derive(Debug)]
pub struct MemoryHandler {
    disks: Vec<Disk>,
    answered: Vec<Reply>,
    handle: crate::Handle,
}

impl MemoryHandler {
    /// Disks of the sizes of these exports, all zeroes.
    pub fn new(exports: &FixedExports, server: &Server) -> Self {
        let disk = |export: &Export| {
            let sectors = export.size.sectors_floor();
            let pages = index(sectors.0.div_ceil(PAGE.0));
            Disk { bytes: vec![0; sectors.bytes_usize()], written: vec![false; pages] }
        };
        let disks = exports.0.iter().map(disk).collect();
        Self { disks, answered: Vec::new(), handle: server.handle() }
    }

    fn disk(&mut self, export: crate::ExportId) -> Result<&mut Disk, Errno> {
        self.disks.get_mut(index(export.0.into())).ok_or(Errno::Io)
    }

    fn perform(&mut self, request: &mut Request) -> Result<Vec<u8>, Errno> {
        let disk = self.disk(request.export)?;
        let mut data = core::mem::take(&mut request.data);
        let extent = request.operation.extent;
        let start = index(extent.start.0 * SECTOR_BYTES);
        let range = start..start + extent.len.bytes_usize();
        let place = disk.bytes.get_mut(range).ok_or(Errno::Io)?;
        match request.operation.op {
            Op::Read => data.extend_from_slice(place),
            Op::Write => place.copy_from_slice(&data),
            Op::WriteZeroes | Op::Trim => place.fill(0),
            Op::Flush | Op::Seek => {}
        }
        if request.operation.op.writes() {
            let zeroed = request.operation.op != Op::Write && !request.no_hole;
            disk.note(extent, zeroed);
        }
        Ok(data)
    }
}

impl Disk {
    /// Records that sectors were written or zeroed.
    fn note(&mut self, extent: Extent, zeroed: bool) {
        let (start, end) = (extent.start.0, extent.end().0);
        let whole = (start.div_ceil(PAGE.0), end / PAGE.0);
        let touched = (start / PAGE.0, end.div_ceil(PAGE.0));
        let (from, to) = if zeroed { whole } else { touched };
        if from < to {
            self.written[index(from)..index(to)].fill(!zeroed);
        }
    }

    fn segments(&self, extent: Extent) -> Vec<Segment> {
        let (mut rest, mut segments) = (extent, Vec::<Segment>::new());
        while !rest.is_empty() {
            let page = rest.start.0 / PAGE.0;
            let (piece, behind) = rest.split_at(Sectors((page + 1) * PAGE.0 - rest.start.0));
            let written = self.written[index(page)];
            let allocation = if written { Allocation::Data } else { Allocation::Hole };
            match segments.last_mut().filter(|last| last.allocation == allocation) {
                Some(last) => last.len = Sectors(last.len.0 + piece.len.0),
                None => segments.push(Segment { len: piece.len, allocation }),
            }
            rest = behind;
        }
        segments
    }
}

impl RequestHandler for MemoryHandler {
    fn submit(&mut self, mut request: Request) {
        let result = self.perform(&mut request);
        self.answered.push(Reply { id: request.id, result });
    }

    fn block_status(&mut self, query: BlockStatusRequest) -> Option<BlockStatusRequest> {
        let result = self.disk(query.export).map(|disk| disk.segments(query.extent));
        self.handle.reply_block_status(BlockStatusReply { id: query.id, result });
        None
    }

    fn flush_batch(&mut self, answered: &mut Vec<Reply>) {
        answered.append(&mut self.answered);
    }
}

/// A request handler that answers reads with unspecified bytes and discards writes.
#[derive(Debug, Default)]
pub struct NullHandler {
    answered: Vec<Reply>,
}

impl RequestHandler for NullHandler {
    fn submit(&mut self, request: Request) {
        let mut data = request.data;
        if request.operation.op == Op::Read {
            // Not zeroes: those are not sent.
            data.resize(request.operation.extent.len.bytes_usize(), 0xff);
        }
        self.answered.push(Reply { id: request.id, result: Ok(data) });
    }

    fn flush_batch(&mut self, answered: &mut Vec<Reply>) {
        answered.append(&mut self.answered);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use units::Lba;

    use super::*;

    #[test]
    fn pages_that_were_written_are_data_until_they_are_zeroed_whole() {
        let mut disk = Disk { bytes: Vec::new(), written: vec![false; 4] };
        let extent = |start, len| Extent::new(Lba(start), Sectors(len));
        disk.note(extent(130, 200), false);
        let told = |disk: &Disk| {
            let all = disk.segments(extent(8, 504));
            all.iter().map(|s| (s.len.0, s.allocation)).collect::<Vec<_>>()
        };
        let (hole, data) = (Allocation::Hole, Allocation::Data);
        assert_eq!(told(&disk), [(120, hole), (256, data), (128, hole)]);
        disk.note(extent(100, 200), true);
        assert_eq!(told(&disk), [(248, hole), (128, data), (128, hole)]);
    }
}
