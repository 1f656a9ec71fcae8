//! The disks of a mirror that keep its stream.
//!
//! Each block has c copies, on c different disks. A stream that survives the loss of s disks needs
//! s + 1 copies of each block on disks that keep it: of these one is left, whichever s disks are
//! lost. Of any c disks that have the copies of a block, s + 1 keep the stream if c - 1 - s of the
//! volume's disks do not. So the stream does without any c - 1 - s disks, in whatever order the
//! blocks were dealt to them:
//!
//! ```text
//!  two copies on three disks     d0 d1 d2
//!  block 0                        x  x
//!  block 1                           x  x
//!  block 2                        x     x
//!  survive = 1                    ■  ■  ■     whichever is lost, each block has another
//!  survive = 0                    ■  ■        each block has one there
//! ```
//!
//! Reads go to copies on these disks while there are such. A disk that keeps the stream reserves
//! time for every block that it has, so that it does not matter which of them serves a read.
//!
//! A write goes to all copies. With s = c - 1 all disks keep the stream, and it covers writes too.

use volume::pool::Layout;

use super::spread::Spread;
use crate::plan::{DiskIndex, PoolVolume};

impl PoolVolume {
    /// The disks that keep its stream; none if it has no stream. Those of a mirror that do without
    /// are the last of [`Self::disks`]. While the volume is relocated, all disks keep the stream:
    /// a block may have a copy at each placement.
    pub fn stream_disks(&self) -> Vec<DiskIndex> {
        let Some(stream) = self.stream else { return Vec::new() };
        let mut disks = Spread::of(self).disks();
        if let (Layout::Mirror(copies), None) = (self.layout, &self.from) {
            disks.truncate(disks.len() - without(copies.number(), stream.survive));
        }
        disks
    }

    /// The disks to which reads of its stream go, where it does without others.
    pub fn read_disks(&self) -> Option<Vec<DiskIndex>> {
        let disks = self.stream_disks();
        let is_some = self.stream.is_some() && disks.len() < Spread::of(self).disks().len();
        is_some.then_some(disks)
    }
}

/// The number of disks of a mirror that do without its stream.
pub(crate) fn without(copies: usize, survive: u8) -> usize {
    (copies - 1).saturating_sub(usize::from(survive))
}
