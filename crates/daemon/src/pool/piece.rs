//! A piece that a disk has completed.

use backend::Failure;
use checksum::crc64;
use volume::pool::flow::{Digest, PieceId};

/// What is made of the bytes that a piece reads. The disk's thread does it, so that the pool's lock
/// is not held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadData {
    /// They are delivered.
    Kept,
    /// Their digest is.
    Digested,
    /// Only that they could be read matters.
    Dropped,
}

/// A piece that a disk has completed, with the bytes that it read, or their digest.
#[derive(Debug)]
pub(crate) struct PieceDone {
    pub(crate) piece: PieceId,
    pub(crate) result: Result<Vec<u8>, Failure>,
    pub(crate) digest: Digest,
}

impl PieceDone {
    pub(crate) fn new(
        piece: PieceId,
        read_data: ReadData,
        result: Result<Vec<u8>, Failure>,
    ) -> Self {
        let digest = match (&result, read_data) {
            (Ok(bytes), ReadData::Digested) => Digest(crc64(bytes)),
            _ => Digest::default(),
        };
        let kept = |bytes| if read_data == ReadData::Kept { bytes } else { Vec::new() };
        Self { piece, result: result.map(kept), digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_verified_are_dropped_and_their_digests_differ_where_they_do() {
        let done = |data, bytes: &[u8]| PieceDone::new(PieceId(1), data, Ok(bytes.to_vec()));
        assert_eq!(done(ReadData::Kept, b"abc").result, Ok(b"abc".to_vec()));
        let (one, other) = (done(ReadData::Digested, b"abc"), done(ReadData::Digested, b"abd"));
        assert!(one.digest != other.digest && one.result == Ok(Vec::new()));
        assert_eq!(done(ReadData::Dropped, b"abc").result, Ok(Vec::new()));
        let failed = PieceDone::new(PieceId(1), ReadData::Digested, Err(Failure::Io));
        assert_eq!(failed.result, Err(Failure::Io));
    }
}
