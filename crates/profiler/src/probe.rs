//! Where the disk is when a sector has been read: the one thing that geometry is made of.
//!
//! A read off the media ends when its last sector has passed the head, plus what the electronics take, which is the
//! same for one block everywhere. So the instant of its end, taken modulo the period, is the angle of the block, but for a
//! constant. A read out of the drive's memory says nothing; it is told by how soon it ends, and left out.

use units::{Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, Halt};
use crate::circle::{part, real, whole};

/// Blocks are what addresses count here: the target's own, so that every address can be read.
pub(crate) type Block = u64;

/// One block that was read off the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Block,
    /// When its read ended, in ns since the probe began.
    pub(crate) time: f64,
}

/// Reads single blocks, and tells at which phase of the spindle they ended.
pub(crate) struct Probe<'b, 'a> {
    pub(crate) bench: &'b mut Bench<'a>,
    /// Sectors in a block.
    pub(crate) block: u64,
    /// Blocks on the target.
    pub(crate) blocks: u64,
    /// One turn, in ns; nothing until it is known.
    pub(crate) period: f64,
    /// The standard deviation of a phase, in turns.
    pub(crate) sigma: f64,
    /// A read that takes less, in ns, came out of the drive's memory.
    pub(crate) hit: f64,
    origin: Instant,
    sequence: u64,
}

impl<'b, 'a> Probe<'b, 'a> {
    pub(crate) fn new(bench: &'b mut Bench<'a>) -> Self {
        let (block, sectors) = (bench.facts().block.0.max(1), bench.facts().sectors.0);
        let origin = bench.now();
        Self {
            bench,
            block,
            blocks: sectors / block,
            period: 0.0,
            sigma: 0.0,
            hit: 0.0,
            origin,
            sequence: 0,
        }
    }

    /// The address of a block.
    pub(crate) fn lba(&self, at: Block) -> Lba {
        Lba(at * self.block)
    }

    /// The instant so many ns after the probe began.
    pub(crate) fn instant(&self, time: f64) -> Instant {
        self.origin + units::Duration::from_nanos(whole(time))
    }

    /// So many ns after the probe began it is now.
    pub(crate) fn now(&mut self) -> f64 {
        real(self.bench.now().since(self.origin).as_nanos())
    }

    /// Reads a block: what its read took, in ns, and when it ended. None if it failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn read(&mut self, at: Block) -> Result<Option<(f64, Sample)>, Halt> {
        let extent = Extent::new(self.lba(at), Sectors(self.block));
        let timed = self.bench.time(Operation::read(extent))?;
        if !timed.is_done() {
            return Ok(None);
        }
        let time = real(timed.completed.saturating_since(self.origin).as_nanos());
        Ok(Some((real(timed.took().as_nanos()), Sample { at, time })))
    }

    /// Reads a block off the media. None if it came out of memory, or failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample(&mut self, at: Block) -> Result<Option<Sample>, Halt> {
        Ok(self.read(at)?.filter(|(took, _)| *took >= self.hit).map(|(_, sample)| sample))
    }

    /// Reads `count` blocks off the media, which `draw` makes of evenly spread numbers under one; from the last to the
    /// first, which no read-ahead is ready for. Fewer if the drive's memory holds them again and again.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn samples(
        &mut self,
        count: u32,
        draw: impl Fn(f64) -> Block,
    ) -> Result<Vec<Sample>, Halt> {
        let mut found = Vec::new();
        for _ in 0..3 {
            let missing = count - u32::try_from(found.len()).unwrap_or(count);
            let all = self.blocks;
            let mut blocks: Vec<Block> = (0..missing)
                .map(|nth| draw((f64::from(nth) + self.even()) / f64::from(missing)))
                .filter(|at| *at < all)
                .collect();
            blocks.sort_unstable();
            for at in blocks.into_iter().rev() {
                found.extend(self.sample(at)?);
            }
            if found.len() >= count as usize {
                break;
            }
        }
        Ok(found)
    }

    /// The phase at which a sample ended.
    pub(crate) fn phase(&self, sample: &Sample) -> f64 {
        part(sample.time / self.period)
    }

    /// The next of a sequence that is evenly spread under one, the same for every target: places are chosen by it.
    pub(crate) fn even(&mut self) -> f64 {
        self.sequence = self.sequence.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.sequence;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        real((word ^ (word >> 31)) >> 11) / real(1 << 53)
    }
}
