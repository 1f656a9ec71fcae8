//! The workload generator of Zygaria (RTAS 2008, §4.1): the location and the arrival time of the
//! next request.

use core::num::NonZeroU32;

use config::{Access, Arrival, Mix, Synthetic, ThinkTime};
use units::{Duration, Extent, Lba, Op, Operation, Sectors};

use crate::SeededRng;

/// Generates the requests of one workload, in the volume's own addresses.
#[derive(Clone, Debug)]
pub struct Generator {
    mix: Mix,
    access: Access,
    block: Sectors,
    /// The start of the first block, and the number of blocks.
    first: Lba,
    blocks: u64,
    /// The next block of a sequential run, and the number of blocks left in the run.
    run_block: u64,
    run_left: Option<u64>,
    arrival: Arrival,
    /// Writes between two flushes, and the number of them left before the next flush.
    flush_every: Option<NonZeroU32>,
    writes_left: u32,
    /// Blocks that the elevator has not visited yet in this batch, the next one last.
    sorted: Vec<u64>,
    rng: SeededRng,
}

impl Generator {
    /// A generator of these requests on a volume of `size`.
    ///
    /// # Panics
    /// If a block does not fit the volume: the config's check refuses that.
    pub fn new(drawn: &Synthetic, size: Sectors, rng: SeededRng) -> Self {
        let block = drawn.block.sectors_exact().expect("blocks are whole sectors");
        let (first, length) = match drawn.access {
            Access::Within { range } => (range.start, range.len),
            _ => (Lba(0), size),
        };
        let blocks = length.0 / block.0;
        assert!(blocks > 0, "a block fits the volume");
        let run_left = match drawn.access {
            Access::Sequential { run } => run.map(|_| 0),
            Access::Within { .. } | Access::Random | Access::Elevator { .. } => None,
        };
        let (mix, access, arrival) = (drawn.mix, drawn.access, drawn.arrival);
        let flush_every = drawn.flush_every;
        Self {
            mix,
            access,
            block,
            first,
            blocks,
            run_block: 0,
            run_left,
            arrival,
            flush_every,
            writes_left: flush_every.map_or(0, NonZeroU32::get),
            sorted: Vec::new(),
            rng,
        }
    }

    /// The next request.
    pub fn operation(&mut self) -> Operation {
        if self.is_flush_next() {
            self.writes_left = self.flush_every.map_or(0, NonZeroU32::get);
            return Operation::flush();
        }
        self.writes_left = self.writes_left.saturating_sub(1);
        let block = self.next_block();
        let extent = Extent::new(self.first + Sectors(block * self.block.0), self.block);
        let reads = match self.mix {
            Mix::Read => true,
            Mix::Write => false,
            Mix::Mix { read_share } => self.rng.chance(read_share),
        };
        Operation { op: if reads { Op::Read } else { Op::Write }, extent, fua: false }
    }

    /// Whether all writes before a flush have been sent.
    fn is_flush_next(&self) -> bool {
        self.flush_every.is_some() && self.writes_left == 0
    }

    /// The number of outstanding requests, or of requests of a burst; `None` in an open loop.
    pub fn outstanding(&self) -> Option<u32> {
        self.arrival.outstanding()
    }

    /// The time before the next request: after an answer in a closed loop, after the previous
    /// request in an open loop. A client sends a flush without thinking.
    pub fn pause(&mut self) -> Duration {
        if self.is_flush_next() {
            return Duration::ZERO;
        }
        match self.arrival {
            Arrival::Closed { think, .. } | Arrival::Bursts { think, .. } => match think {
                ThinkTime::Fixed(time) => time,
                ThinkTime::Exponential { mean } => self.rng.exponential(mean),
            },
            Arrival::Open { interval } => interval,
            Arrival::Poisson { interval } => self.rng.exponential(interval),
        }
    }

    /// The requests that follow an answer in a closed loop, after which `in_flight` requests are
    /// left: their number, and the think time before them. `None` in an open loop, and before the
    /// last answer of a burst.
    pub fn after_answer(&mut self, in_flight: u32) -> Option<(u32, Duration)> {
        let count = match self.arrival {
            Arrival::Closed { .. } => 1,
            Arrival::Bursts { size, .. } if in_flight == 0 => size,
            Arrival::Bursts { .. } | Arrival::Open { .. } | Arrival::Poisson { .. } => return None,
        };
        Some((count, self.pause()))
    }

    fn next_block(&mut self) -> u64 {
        let run = match self.access {
            Access::Sequential { run } => run,
            Access::Within { .. } => None,
            Access::Random => return self.rng.below(self.blocks),
            Access::Elevator { batch } => return self.next_of_sweep(batch.get()),
        };
        if self.run_left == Some(0) {
            self.run_block = self.rng.below(self.blocks);
            self.run_left = run.map(core::num::NonZeroU64::get);
        }
        if let Some(left) = &mut self.run_left {
            *left -= 1;
        }
        let block = self.run_block;
        self.run_block = (block + 1) % self.blocks;
        block
    }

    /// The next block of an elevator that sweeps upwards over `batch` blocks at a time.
    fn next_of_sweep(&mut self, batch: u64) -> u64 {
        if self.sorted.is_empty() {
            let (rng, blocks) = (&mut self.rng, self.blocks);
            self.sorted.extend((0..batch).map(|_| rng.below(blocks)));
            self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.sorted.pop().expect("a batch has blocks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU64;
    use units::{Bytes, Share};

    fn generator(access: Access, mix: Mix) -> Generator {
        let arrival = Arrival::closed(1);
        let drawn = Synthetic { mix, access, block: Bytes(4_096), arrival, flush_every: None };
        Generator::new(&drawn, Sectors(8 * 1_000), SeededRng::new(1, 0))
    }

    #[test]
    fn exponential_think_times_have_their_mean() {
        let think = ThinkTime::Exponential { mean: Duration::from_millis(2) };
        let arrival = Arrival::Closed { outstanding: 1, think };
        let (mix, access) = (Mix::Read, Access::Random);
        let drawn = Synthetic { mix, access, block: Bytes(4_096), arrival, flush_every: None };
        let mut generator = Generator::new(&drawn, Sectors(8_000), SeededRng::new(1, 0));
        let sum: f64 = (0..100_000).map(|_| generator.pause().as_millis_f64()).sum();
        let mean = sum / 1e5;
        assert!((mean - 2.0).abs() < 0.02, "{mean} ms");
    }

    #[test]
    fn a_flush_follows_each_of_so_many_writes_at_once() {
        let think = ThinkTime::Fixed(Duration::from_millis(2));
        let arrival = Arrival::Closed { outstanding: 1, think };
        let (mix, access) = (Mix::Write, Access::Sequential { run: None });
        let flush_every = NonZeroU32::new(2);
        let drawn = Synthetic { mix, access, block: Bytes(4_096), arrival, flush_every };
        let mut generator = Generator::new(&drawn, Sectors(8_000), SeededRng::new(1, 0));
        let sent: Vec<(Duration, Op)> =
            (0..6).map(|_| (generator.pause(), generator.operation().op)).collect();
        let (pause, none) = (Duration::from_millis(2), Duration::ZERO);
        let round = [(pause, Op::Write), (pause, Op::Write), (none, Op::Flush)];
        assert_eq!(sent, [round, round].concat());
        assert_eq!(generator.operation().extent.start, Lba(32), "the writes go on in order");
    }

    #[test]
    fn a_run_is_contiguous_and_as_long_as_asked() {
        let run = NonZeroU64::new(16);
        let mut generator = generator(Access::Sequential { run }, Mix::Read);
        let starts: Vec<u64> = (0..160).map(|_| generator.operation().extent.start.0 / 8).collect();
        for run in starts.chunks(16) {
            assert!(run.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 1_000), "{run:?}");
        }
        let jumps = starts.windows(2).filter(|pair| pair[1] != (pair[0] + 1) % 1_000).count();
        assert_eq!(jumps, 9);
    }

    #[test]
    fn a_run_without_end_wraps_at_the_end_of_the_volume() {
        let mut generator = generator(Access::Sequential { run: None }, Mix::Write);
        let last = (0..1_001).map(|_| generator.operation()).last().expect("some");
        assert_eq!((last.extent.start, last.op), (Lba(0), Op::Write));
    }

    #[test]
    fn a_stream_plays_its_range_over_and_over() {
        let range = Extent::new(Lba(80), Sectors(24));
        let mut generator = generator(Access::Within { range }, Mix::Write);
        let starts: Vec<u64> = (0..5).map(|_| generator.operation().extent.start.0).collect();
        assert_eq!(starts, [80, 88, 96, 80, 88]);
    }

    #[test]
    fn an_elevator_sweeps_up_over_a_batch_and_starts_again() {
        let batch = NonZeroU64::new(40).expect("some");
        let mut generator = generator(Access::Elevator { batch }, Mix::Read);
        let blocks: Vec<u64> = (0..400).map(|_| generator.operation().extent.start.0).collect();
        for batch in blocks.chunks(40) {
            assert!(batch.is_sorted(), "{batch:?}");
        }
        assert_eq!(blocks.windows(2).filter(|pair| pair[1] < pair[0]).count(), 9);
    }

    #[test]
    fn random_requests_reach_the_whole_volume_in_the_mix_asked_for() {
        let mix = Mix::Mix { read_share: Share::from_percent(70) };
        let mut generator = generator(Access::Random, mix);
        let all: Vec<_> = (0..20_000).map(|_| generator.operation()).collect();
        let reads = all.iter().filter(|operation| operation.op == Op::Read).count();
        assert!((13_700..14_300).contains(&reads), "{reads} of 20,000 read");
        let (least, most) = (
            all.iter().map(|o| o.extent.start.0).min(),
            all.iter().map(|o| o.extent.end().0).max(),
        );
        assert_eq!((least, most), (Some(0), Some(8_000)));
    }
}
