//! Media streams as in Clockwise (RTAS 2000, §4): Motion-JPEG video and CD-quality audio, in
//! blocks.
//!
//! An encoder emits frames; a block is requested when the frames that fill it are complete. Audio
//! has a constant rate. The size of a video frame depends on its content: between 0.5 and 1.5 times
//! the mean here, which is not published. The encoder controls its rate: the excess of the frames
//! so far over the mean is taken from those of the next second.

use units::{Bytes, Duration};

use crate::SeededRng;

/// Video frames a second (PAL).
const FRAMES_A_SECOND: u64 = 25;
const SECOND: u64 = 1_000_000_000;

/// The pacing of a stream's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At a constant rate.
    Even,
    /// In frames of different sizes.
    Frames,
}

/// One stream: the times at which its blocks are complete.
#[derive(Clone, Debug)]
pub struct Media {
    pace: Pace,
    /// In bytes a second.
    rate: Bytes,
    block: Bytes,
    rng: SeededRng,
    /// Frames so far, and their bytes.
    frames: u64,
    bytes: u64,
    /// Blocks so far.
    blocks: u64,
}

impl Media {
    /// A stream of `rate` bytes a second in blocks of `block`.
    ///
    /// # Panics
    /// If the block is empty, or a frame would have no byte.
    pub fn new(pace: Pace, rate: Bytes, block: Bytes, rng: SeededRng) -> Self {
        assert!(rate.0 >= FRAMES_A_SECOND * 2 && block.0 > 0, "a frame and a block hold something");
        Self { pace, rate, block, rng, frames: 0, bytes: 0, blocks: 0 }
    }

    /// The mean time between blocks: the period with which Clockwise admits the stream on one disk,
    /// `b / B`.
    pub fn period(&self) -> Duration {
        time_of(self.block.0, self.rate)
    }

    /// The time at which the next block is complete, from the start of the stream.
    pub fn next_block(&mut self) -> Duration {
        self.blocks += 1;
        let wanted = self.blocks * self.block.0;
        if self.pace == Pace::Even {
            return time_of(wanted, self.rate);
        }
        while self.bytes < wanted {
            self.bytes += self.frame();
            self.frames += 1;
        }
        Duration::from_nanos(self.frames * (SECOND / FRAMES_A_SECOND))
    }

    /// The size of the next frame in bytes.
    fn frame(&mut self) -> u64 {
        let mean = self.rate.0 / FRAMES_A_SECOND;
        let drawn = mean / 2 + self.rng.below(mean + 1);
        // The bytes of all frames so far at the nominal rate, against their actual bytes.
        let fair = self.rate.0 * self.frames / FRAMES_A_SECOND;
        let (over, under) = (self.bytes.saturating_sub(fair), fair.saturating_sub(self.bytes));
        let kept = drawn + under / FRAMES_A_SECOND;
        kept.saturating_sub(over / FRAMES_A_SECOND).max(1)
    }
}

/// The time of a number of bytes at a rate, rounded down.
fn time_of(bytes: u64, rate: Bytes) -> Duration {
    let nanos = u128::from(bytes) * u128::from(SECOND) / u128::from(rate.0);
    Duration::from_nanos(u64::try_from(nanos).expect("streams are no longer than centuries"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(pace: Pace, seed: u64) -> Media {
        let (rate, block) = match pace {
            Pace::Even => (Bytes(172 << 10), Bytes(256 << 10)),
            Pace::Frames => (Bytes(817 << 10), Bytes(1 << 20)),
        };
        Media::new(pace, rate, block, SeededRng::new(seed, 0))
    }

    #[test]
    fn sound_comes_evenly_at_its_rate() {
        let mut audio = media(Pace::Even, 1);
        let blocks: Vec<u64> = (0..1_000).map(|_| audio.next_block().as_nanos()).collect();
        let period = audio.period().as_nanos();
        assert_eq!(period, 256 * SECOND / 172);
        for pair in blocks.windows(2) {
            assert!((pair[1] - pair[0]).abs_diff(period) <= 1, "{pair:?} apart by {period}");
        }
    }

    #[test]
    fn a_video_keeps_its_rate_though_no_two_blocks_take_as_long() {
        for seed in 0..20 {
            let mut video = media(Pace::Frames, seed);
            let period = video.period().as_millis_f64();
            let blocks: Vec<f64> = (0..500).map(|_| video.next_block().as_millis_f64()).collect();
            let mean = blocks[499] / 500.0;
            assert!((mean / period - 1.0).abs() < 0.001, "seed {seed}: {mean} ms for {period}");
            let apart = blocks.windows(2).map(|pair| pair[1] - pair[0]);
            let (least, most) =
                apart.fold((f64::MAX, 0.0_f64), |(l, m), gap| (l.min(gap), m.max(gap)));
            assert!(most - least >= 40.0, "seed {seed}: blocks {least} to {most} ms apart");
            // The rate holds throughout: each block is within half a second of the nominal time.
            for (block, at) in (1_u32..).zip(&blocks) {
                let off = (at - period * f64::from(block)).abs();
                assert!(off < 500.0, "seed {seed}: block {block} is off by {off} ms");
            }
        }
    }

    #[test]
    fn one_seed_gives_one_stream() {
        let blocks = |seed| {
            let mut video = media(Pace::Frames, seed);
            (0..50).map(|_| video.next_block()).collect::<Vec<_>>()
        };
        assert_eq!(blocks(3), blocks(3));
        assert_ne!(blocks(3), blocks(4));
    }
}
