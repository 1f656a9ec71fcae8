//! A piece that a disk has completed.

use backend::Failure;
use checksum::crc64;
use crc_fast::CrcAlgorithm;
use units::Extent;
use volume::pool::flow::{Digest, PieceId};
use volume::pool::sums::{SUM_SECTORS, Sum, whole_sums};

/// What is made of the bytes that a piece reads. The disk's thread does it, so that the pool's lock
/// is not held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadData {
    pub(crate) of: ReadUse,
    /// Whether their checksums are computed: whole 4 KiB are read.
    pub(crate) is_summed: bool,
}

/// What becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadUse {
    /// They are delivered.
    Kept,
    /// Their digest is.
    Digested,
    /// Only that they could be read matters.
    Dropped,
}

impl ReadData {
    /// Without checksums.
    pub(crate) const fn of(of: ReadUse) -> Self {
        Self { of, is_summed: false }
    }
}

/// The checksum of 4 KiB: CRC-32C.
pub(crate) fn sum_of(bytes: &[u8]) -> Sum {
    let crc = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    Sum::of(u32::try_from(crc).expect("it has 32 bits"))
}

/// The checksums of the whole 4 KiB of an extent, of which these are the bytes.
pub(crate) fn sums_of(extent: Extent, bytes: &[u8]) -> Vec<Sum> {
    let (whole, len) = (whole_sums(extent), units::Sectors(SUM_SECTORS).bytes_usize());
    let skip = (whole.start * SUM_SECTORS).saturating_sub(extent.start.0);
    let bytes = bytes.get(units::Sectors(skip).bytes_usize()..).unwrap_or_default();
    let count = usize::try_from(whole.end - whole.start).expect("a piece is in memory");
    assert!(bytes.len() >= count * len, "the bytes are those of the extent");
    each_sum(&bytes[..count * len])
}

/// The checksums of these 4 KiB, one after the other.
fn each_sum(bytes: &[u8]) -> Vec<Sum> {
    bytes.chunks_exact(units::Sectors(SUM_SECTORS).bytes_usize()).map(sum_of).collect()
}

/// A piece that a disk has completed, with the bytes that it read, or their digest.
#[derive(Debug)]
pub(crate) struct PieceDone {
    pub(crate) piece: PieceId,
    pub(crate) result: Result<Vec<u8>, Failure>,
    pub(crate) digest: Digest,
    pub(crate) sums: Vec<Sum>,
    /// Whether checksums of what was read were known, and none differed.
    pub(crate) is_known: bool,
    /// Whether its disk keeps checksums, and some of what was read were not known.
    pub(crate) lacks_sums: bool,
}

impl PieceDone {
    pub(crate) fn new(
        piece: PieceId,
        read_data: ReadData,
        result: Result<Vec<u8>, Failure>,
    ) -> Self {
        let digest = match (&result, read_data.of) {
            (Ok(bytes), ReadUse::Digested) => Digest(crc64(bytes)),
            _ => Digest::default(),
        };
        let sums = match &result {
            Ok(bytes) if read_data.is_summed => each_sum(bytes),
            _ => Vec::new(),
        };
        let kept = |bytes| if read_data.of == ReadUse::Kept { bytes } else { Vec::new() };
        Self { piece, result: result.map(kept), digest, sums, is_known: false, lacks_sums: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_verified_are_dropped_and_their_digests_differ_where_they_do() {
        let done =
            |data, bytes: &[u8]| PieceDone::new(PieceId(1), ReadData::of(data), Ok(bytes.to_vec()));
        assert_eq!(done(ReadUse::Kept, b"abc").result, Ok(b"abc".to_vec()));
        let (one, other) = (done(ReadUse::Digested, b"abc"), done(ReadUse::Digested, b"abd"));
        assert!(one.digest != other.digest && one.result == Ok(Vec::new()));
        assert_eq!(done(ReadUse::Dropped, b"abc").result, Ok(Vec::new()));
        let failed = PieceDone::new(PieceId(1), ReadData::of(ReadUse::Digested), Err(Failure::Io));
        assert_eq!(failed.result, Err(Failure::Io));
    }

    #[test]
    fn checksums_are_of_whole_4_kib_wherever_the_extent_begins() {
        let bytes: Vec<u8> = (0..12_288_u32).map(|at| at.to_le_bytes()[0] ^ 7).collect();
        let extent = Extent::new(units::Lba(8), units::Sectors(24));
        let sums = sums_of(extent, &bytes);
        assert_eq!(sums.len(), 3);
        let part = Extent::new(units::Lba(9), units::Sectors(23));
        assert_eq!(sums_of(part, &bytes[512..]), sums[1..], "the first is written in part");
        assert_eq!(sum_of(b"123456789"), Sum(0xE306_9283), "the catalogue's check value");
    }
}
