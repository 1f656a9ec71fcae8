//! Whether the client of a volume asks for its bytes in their order.
//!
//! A stream whose disks have admitted their part of its blocks alone counts on that: what is asked
//! for out of order comes early at some disk. It is counted by request, so that the client can be
//! told; the disks serve it by their own periods.

use units::{Extent, Lba, Sectors};

/// The order of the requests of one volume.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestOrder {
    pub(crate) is_watched: bool,
    /// Where the last read or write ended; `None` before the first one.
    pub(crate) end: Option<Lba>,
    pub(crate) out_of_order: Sectors,
}

impl RequestOrder {
    /// A read or write is submitted. One that does not begin where the last one ended is out of
    /// order, and what follows it is in order again.
    pub(crate) fn pass(&mut self, extent: Extent) {
        assert!(!extent.is_empty(), "a read or write has sectors");
        if self.end.is_some_and(|end| end != extent.start) {
            self.out_of_order += extent.len;
        }
        self.end = Some(extent.end());
        assert!(self.end > Some(extent.start), "it ends behind its start");
    }
}
