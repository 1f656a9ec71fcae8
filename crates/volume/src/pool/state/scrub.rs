//! What a pool stores of its scrub: how far it has read, and what it has found.

use crate::pool::format::codec::{Malformed, Reader, Writer};
use crate::pool::format::fields::SCRUB_BYTES;
use crate::pool::names::{PoolVolumeId, VolumeBlock};

/// A time of day, in whole seconds since the beginning of 1970 (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub u64);

/// Whether a pool is scrubbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubPhase {
    /// It never was.
    #[default]
    Never,
    /// It is, or goes on with the next start.
    Running,
    /// An operator has stopped it.
    Stopped,
    /// All was read.
    Done,
}

/// How far a scrub has read, and what it has found. A crash loses what was read since it was
/// stored; that is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubRecord {
    /// Whether it goes on.
    pub phase: ScrubPhase,
    /// The next block to read.
    pub volume: PoolVolumeId,
    /// The same, in the volume.
    pub block: VolumeBlock,
    /// When it began.
    pub began: UnixTime,
    /// When all was read; zero before.
    pub ended: UnixTime,
    /// The blocks that were read, each copy by itself.
    pub read: u64,
    /// The copies that could not be read, were written again from another, and then were read.
    pub mended: u64,
    /// The copies that cannot be read although they were written again.
    pub unmended: u64,
    /// The blocks that can be read from no copy.
    pub lost: u64,
    /// The blocks whose copies differ.
    pub differing: u64,
}

impl Default for ScrubRecord {
    fn default() -> Self {
        Self {
            phase: ScrubPhase::Never,
            volume: PoolVolumeId(0),
            block: VolumeBlock(0),
            began: UnixTime(0),
            ended: UnixTime(0),
            read: 0,
            mended: 0,
            unmended: 0,
            lost: 0,
            differing: 0,
        }
    }
}

const fn phase_code(phase: ScrubPhase) -> u8 {
    match phase {
        ScrubPhase::Never => 0,
        ScrubPhase::Running => 1,
        ScrubPhase::Stopped => 2,
        ScrubPhase::Done => 3,
    }
}

impl ScrubRecord {
    pub(crate) fn write(&self, out: &mut Writer) {
        let before = out.0.len();
        let is_new = self.phase == ScrubPhase::Never;
        assert!(!is_new || *self == Self::default(), "a scrub that never was has found nothing");
        out.u8(phase_code(self.phase));
        out.padded(&[], 3);
        out.u32(self.volume.0);
        out.u32(self.block.0);
        out.padded(&[], 4);
        for value in [self.began.0, self.ended.0, self.read, self.mended] {
            out.u64(value);
        }
        for value in [self.unmended, self.lost, self.differing] {
            out.u64(value);
        }
        assert_eq!(out.0.len() - before, SCRUB_BYTES, "a scrub has its length");
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let phase = match from.u8()? {
            0 => ScrubPhase::Never,
            1 => ScrubPhase::Running,
            2 => ScrubPhase::Stopped,
            3 => ScrubPhase::Done,
            _ => return Err(from.refuse("a scrub in an unknown phase (0 to 3)")),
        };
        from.zeroes(3)?;
        let (volume, block) = (PoolVolumeId(from.u32()?), VolumeBlock(from.u32()?));
        from.zeroes(4)?;
        let (began, ended) = (UnixTime(from.u64()?), UnixTime(from.u64()?));
        let (read, mended, unmended) = (from.u64()?, from.u64()?, from.u64()?);
        let (lost, differing) = (from.u64()?, from.u64()?);
        let record =
            Self { phase, volume, block, began, ended, read, mended, unmended, lost, differing };
        if phase == ScrubPhase::Never && record != Self::default() {
            return Err(from.refuse("a scrub that never was and has found something"));
        }
        Ok(record)
    }

    /// The position.
    pub(crate) fn next(&self) -> (PoolVolumeId, VolumeBlock) {
        (self.volume, self.block)
    }
}

const _: () = assert!(phase_code(ScrubPhase::Never) == 0);
const _: () = assert!(phase_code(ScrubPhase::Running) == 1);
const _: () = assert!(phase_code(ScrubPhase::Stopped) == 2);
const _: () = assert!(phase_code(ScrubPhase::Done) == 3);
