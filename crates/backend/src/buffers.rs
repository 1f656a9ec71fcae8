//! The memory of a command: one buffer, or a list with a buffer for each request that a merged
//! command covers.
//!
//! ```text
//!  requests   a: [4 KiB]   b: [16 KiB]   c: [512 B]     at any addresses
//!                  │            │             │         moved into the list, not copied
//!  job        List([ a ],[      b       ],[c])     ──▶  Disk::submit
//!  disk       ... [  a  |       b        |c ] ...       one command
//!  completion List([ a ],[      b       ],[c])     ◀──  Disk::reap, also after a failure
//! ```
//!
//! A list costs no copy where the backend transfers its parts where they are:
//!
//! - in memory part by part, and so behind a drive model;
//! - in a file by preadv(2) and pwritev2(2), and by `READV` and `WRITEV` of io_uring.
//!
//! With direct access to a device each part has to begin at an aligned address and to consist of
//! whole blocks. A list of which a part does not, and one of more than [`PARTS_MAX`] parts, are
//! transferred by one aligned buffer, with one copy. So is, by io_uring, a list of short parts: to
//! copy them to memory that is registered with the kernel costs less than to have each mapped.
//!
//! Invariants: the parts of a list have sectors, and together those of the command, in their order;
//! a completion brings back the buffers that its job brought, in their order.

use units::{Extent, Op, Operation, Sectors};

#[cfg(doc)]
use crate::limits::PARTS_MAX;

/// One of the buffers of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The sectors that are transferred from or to it.
    pub len: Sectors,
    /// The bytes of a write, as long; before a read a buffer without bytes.
    pub bytes: Vec<u8>,
}

/// The buffers of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Buffers {
    /// One for the whole extent. Empty for a command that is no transfer.
    One(Vec<u8>),
    /// One for each part of the extent.
    List(Vec<Part>),
}

impl Default for Buffers {
    fn default() -> Self {
        Self::One(Vec::new())
    }
}

impl From<Vec<u8>> for Buffers {
    fn from(bytes: Vec<u8>) -> Self {
        Self::One(bytes)
    }
}

impl Buffers {
    /// Whether they are what a command of this kind and length brings: a write its bytes, every
    /// other command none, and a list as many sectors as the command.
    pub fn fit(&self, operation: Operation) -> bool {
        let Operation { op, extent, .. } = operation;
        let expected = |len: Sectors| if op == Op::Write { len.bytes_usize() } else { 0 };
        match self {
            Self::One(bytes) => bytes.len() == expected(extent.len),
            Self::List(parts) => {
                let is_sound = |part: &Part| {
                    part.len > Sectors::ZERO && part.bytes.len() == expected(part.len)
                };
                let sectors = parts.iter().map(|part| part.len.0).sum();
                matches!(op, Op::Read | Op::Write)
                    && Sectors(sectors) == extent.len
                    && parts.iter().all(is_sound)
            }
        }
    }

    /// The number of buffers.
    pub const fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::List(parts) => parts.len(),
        }
    }

    /// The buffers, each with its part of the command's extent.
    pub fn parts(&self, extent: Extent) -> impl Iterator<Item = (Extent, &Vec<u8>)> {
        let (one, list) = match self {
            Self::One(bytes) => (Some(bytes), [].as_slice()),
            Self::List(parts) => (None, parts.as_slice()),
        };
        let mut rest = extent;
        let list = list.iter().map(move |part| {
            let (head, tail) = rest.split_at(part.len);
            rest = tail;
            (head, &part.bytes)
        });
        one.map(|bytes| (extent, bytes)).into_iter().chain(list)
    }

    /// The buffers, each with its part of the command's extent.
    pub fn parts_mut(&mut self, extent: Extent) -> impl Iterator<Item = (Extent, &mut Vec<u8>)> {
        let (one, list) = match self {
            Self::One(bytes) => (Some(bytes), [].as_mut_slice()),
            Self::List(parts) => (None, parts.as_mut_slice()),
        };
        let mut rest = extent;
        let list = list.iter_mut().map(move |part| {
            let (head, tail) = rest.split_at(part.len);
            rest = tail;
            (head, &mut part.bytes)
        });
        one.map(|bytes| (extent, bytes)).into_iter().chain(list)
    }

    /// Empties each buffer, and gives it capacity for its part.
    pub(crate) fn prepare(&mut self, extent: Extent) {
        for (part, bytes) in self.parts_mut(extent) {
            bytes.clear();
            bytes.reserve_exact(part.len.bytes_usize());
        }
    }

    /// Copies the bytes of a write to `into`, which is as long as the extent.
    pub(crate) fn gather(&self, extent: Extent, into: &mut [u8]) {
        let mut rest = into;
        for (part, bytes) in self.parts(extent) {
            let (head, tail) = rest.split_at_mut(part.len.bytes_usize());
            head.copy_from_slice(bytes);
            rest = tail;
        }
        assert!(rest.is_empty(), "the parts are the command's extent");
    }

    /// Fills the buffers of a read from `from`, which is as long as the extent.
    pub(crate) fn scatter(&mut self, extent: Extent, from: &[u8]) {
        let mut rest = from;
        for (part, bytes) in self.parts_mut(extent) {
            let (head, tail) = rest.split_at(part.len.bytes_usize());
            bytes.clear();
            bytes.extend_from_slice(head);
            rest = tail;
        }
        assert!(rest.is_empty(), "the parts are the command's extent");
    }

    /// All bytes in one buffer. Those of a list are copied.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::One(bytes) => bytes,
            Self::List(parts) => parts.into_iter().flat_map(|part| part.bytes).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Lba;

    use super::*;

    const EXTENT: Extent = Extent { start: Lba(8), len: Sectors(4) };

    fn list(parts: &[(u64, usize)]) -> Buffers {
        let part = |&(len, bytes): &(u64, usize)| Part { len: Sectors(len), bytes: vec![1; bytes] };
        Buffers::List(parts.iter().map(part).collect())
    }

    #[test]
    fn a_list_fits_a_transfer_of_as_many_sectors_and_no_other_command() {
        let (write, read) = (Operation::write(EXTENT), Operation::read(EXTENT));
        assert!(list(&[(1, 512), (3, 1_536)]).fit(write));
        assert!(list(&[(1, 0), (3, 0)]).fit(read));
        assert!(!list(&[(1, 512), (3, 1_536)]).fit(read), "a read brings no bytes");
        assert!(!list(&[(1, 512), (3, 1_024)]).fit(write), "a part is short");
        assert!(!list(&[(1, 512), (2, 1_024)]).fit(write), "a sector is missing");
        assert!(!list(&[(0, 0), (4, 2_048)]).fit(write), "a part has no sector");
        assert!(!list(&[(1, 0), (3, 0)]).fit(Operation { op: Op::Trim, ..read }));
        assert!(Buffers::default().fit(read) && !Buffers::default().fit(write));
    }

    #[test]
    fn each_buffer_has_its_part_of_the_extent() {
        let mut data = list(&[(1, 512), (3, 1_536)]);
        let (first, second) = EXTENT.split_at(Sectors(1));
        assert!(data.parts(EXTENT).map(|(part, _)| part).eq([first, second]));
        let mut all = vec![0; 2_048];
        all[512..].fill(2);
        data.scatter(EXTENT, &all);
        assert!(data.parts(EXTENT).map(|(_, bytes)| bytes.len()).eq([512, 1_536]));
        let mut again = vec![9; 2_048];
        data.gather(EXTENT, &mut again);
        assert!(again == all && data.into_bytes() == all);
    }
}
