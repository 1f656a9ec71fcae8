//! Reads single blocks, and determines the phase of each: the basis of all geometry.
//!
//! A read from the media completes when its last sector has passed the head, plus the time of the
//! electronics, which is the same for one block everywhere. So the completion time modulo the
//! period is the angle of the block, up to a constant. A cache hit shows nothing; it is recognised
//! by its short service time, and excluded.

use std::collections::VecDeque;

use units::{Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, StopReason};
use crate::estimate::number::{floor, fraction, real};
use crate::layout::block::{Block, Sample};
use crate::layout::reference_pool::ReferencePool;
use crate::layout::track_layout::TrackLayout;
use crate::limits::REFERENCES_MAX;
use drive_profile::findings::Rotation;

/// The number of recent reads that are remembered: more than any drive has cache segments.
const RECENT_MAX: usize = 2 * REFERENCES_MAX as usize;
/// The longest read that avoids the cache by its early beginning, in blocks.
pub(crate) const LONG_MAX: u64 = 8_192;
/// The least time of a long read from the media, as a part of its media time.
const PASSED_MIN: f64 = 0.8;
/// The noise in revolutions up to which one read of each block suffices.
const NOISE_EASY: f64 = 0.0355;
/// The least assumed noise over minutes, in ns: the path latency varies by some tens of µs for
/// seconds at a time with the host's load, and a mean of many reads does not reduce that.
const NOISE_MIN: f64 = 100_000.0;
/// The noise that moves the means of a few reads as much as a wander of one does.
const OF_WANDER: f64 = 2.0;
/// The largest factor by which noise multiplies reads.
const EFFORT_MAX: u32 = 8;
/// The number of long reads after which their success counts are halved.
const LONG_READS_KEPT: u32 = 64;
/// The assumed time of a read elsewhere, in revolutions, until it is known.
const ELSEWHERE_FIRST: f64 = 0.7;
/// The number of evictions over which their time is averaged.
const ELSEWHERE_AVERAGED: f64 = 3.0;
/// Every this many cached blocks one is evicted instead of read by a long read, to know the cost.
const EVICT_EVERY: u32 = 8;
/// A drive with at most this many eviction reads is always made to evict.
const EVICTION_READS_FEW: u32 = 4;
/// Sectors between independent reads.
const FAR: u64 = 16_384;

/// Reads single blocks, and determines the phases at which they complete.
pub(crate) struct Probe<'b, 'a> {
    pub(crate) bench: &'b mut Bench<'a>,
    /// Sectors in a block.
    pub(crate) block: u64,
    /// Blocks on the target.
    pub(crate) blocks: u64,
    /// The rotation period in ns, and zero until it is known.
    pub(crate) period: f64,
    /// The standard deviation of a phase, in revolutions.
    pub(crate) sigma: f64,
    /// The longest service time of a cache hit, in ns.
    pub(crate) hit_max: f64,
    /// The end of the sweep, in ns since the probe began.
    pub(crate) until: f64,
    /// The number of reads elsewhere that evict a block.
    pub(crate) eviction_reads: u32,
    origin: Instant,
    sequence: u64,
    /// The first blocks of runs that may be cached, the most recently used last.
    recent: VecDeque<Block>,
    /// Addresses with a known layout, for reads with a short rotational wait.
    pub(crate) known_layout: Option<(TrackLayout, Block, Block)>,
    /// The time until a block elsewhere can be read, in ns.
    pub(crate) lead: f64,
    /// The last block read there, and the time until one beside it can be read, in ns.
    last_read: Block,
    lead_near: f64,
    /// Blocks that are read in turn to evict others, where no layout is known.
    pub(crate) pool: ReferencePool,
    /// The longest read that completes when its last block has passed the head, in blocks.
    pub(crate) long_max: u64,
    /// Blocks on a track near the current reads, approximately, and zero until it is known.
    pub(crate) track: f64,
    /// The mean time of a read elsewhere, in ns.
    elsewhere_time: f64,
    /// The number of blocks that were cached when they were to be read from the media.
    cached_count: u32,
    /// The observed length of a cached run, in blocks.
    cached_run: Block,
    /// The number of long reads, and of those that came from the media.
    long_reads: (u32, u32),
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
            hit_max: 0.0,
            until: f64::INFINITY,
            eviction_reads: 1,
            origin,
            sequence: 0,
            recent: VecDeque::new(),
            known_layout: None,
            lead: 2e6,
            pool: ReferencePool::default(),
            long_max: 0,
            last_read: 0,
            lead_near: 2e6,
            track: 0.0,
            elsewhere_time: 0.0,
            cached_count: 0,
            cached_run: 0,
            long_reads: (0, 0),
        }
    }

    /// A probe of a drive with a known rotation.
    pub(crate) fn of(bench: &'b mut Bench<'a>, rotation: &Rotation) -> Self {
        let mut probe = Self::new(bench);
        probe.period = real(rotation.period_picos) / 1e3;
        let wander = OF_WANDER * real(rotation.wander.as_nanos());
        probe.sigma = real(rotation.noise.as_nanos()).max(wander).max(NOISE_MIN) / probe.period;
        probe.hit_max = real(rotation.cache_hit_max.as_nanos());
        probe.eviction_reads = rotation.eviction_reads;
        probe.elsewhere_time = ELSEWHERE_FIRST * probe.period;
        probe
    }

    /// The reads needed where one suffices for a noise of a twenty-eighth of a revolution.
    pub(crate) fn effort(&self) -> u32 {
        let times = (self.sigma / NOISE_EASY).powi(2);
        u32::try_from(floor(times.ceil())).unwrap_or(EFFORT_MAX).clamp(1, EFFORT_MAX)
    }

    /// The logical block address of a block.
    pub(crate) fn lba(&self, at: Block) -> Lba {
        Lba(at * self.block)
    }

    /// The instant `time` ns after the probe began.
    pub(crate) fn instant(&self, time: f64) -> Instant {
        self.origin + units::Duration::from_nanos(floor(time))
    }

    /// The time since the probe began, in ns.
    pub(crate) fn now(&mut self) -> f64 {
        real(self.bench.now().since(self.origin).as_nanos())
    }

    /// Reads the blocks from `from` to `at`, both included: the service time in ns, and the sample.
    /// `None` if the read failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn read_from(
        &mut self,
        from: Block,
        at: Block,
    ) -> Result<Option<(f64, Sample)>, StopReason> {
        let extent = Extent::new(self.lba(from), Sectors((at + 1 - from) * self.block));
        let timed = self.bench.time(Operation::read(extent))?;
        let took = real(timed.took().as_nanos());
        if took >= self.hit_max + self.passing(at - from) {
            self.recent.push_back(from);
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        } else {
            self.record_hit(at);
        }
        if !timed.is_done() {
            return Ok(None);
        }
        let time = real(timed.completed.saturating_since(self.origin).as_nanos());
        Ok(Some((took, Sample { at, time })))
    }

    /// Records a cache hit: the drive keeps the runs that hold the block for longer, but which they
    /// are is not known.
    fn record_hit(&mut self, at: Block) {
        let holds = |from: &Block| (at.saturating_sub(LONG_MAX)..=at).contains(from);
        let (used, others): (Vec<Block>, Vec<Block>) = self.recent.iter().partition(|f| holds(f));
        self.recent = others.into_iter().chain(used).collect();
    }

    /// The least additional media time of a read with `more` blocks than one, in ns. Zero as long
    /// as no track length is known.
    fn passing(&self, more: u64) -> f64 {
        let track = self.known_layout.map_or(self.track, |(layout, _, _)| real(layout.spt));
        if track > 0.0 { PASSED_MIN * real(more) / track * self.period } else { 0.0 }
    }

    /// Reads a block: its service time in ns, and the sample. `None` if the read failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn read(&mut self, at: Block) -> Result<Option<(f64, Sample)>, StopReason> {
        self.read_from(at, at)
    }

    /// Reads a block from the media. `None` if it was cached, or the read failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample(&mut self, at: Block) -> Result<Option<Sample>, StopReason> {
        Ok(self.read(at)?.filter(|(took, _)| *took >= self.hit_max).map(|(_, sample)| sample))
    }

    /// Reads a block from the media although it may be cached. `None` if that failed.
    ///
    /// A cached run begins where a read began, so a read that begins before all cached runs comes
    /// from the media, and completes when the block has passed. On drives with a small cache the
    /// block is evicted instead.
    ///
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample_again(&mut self, at: Block) -> Result<Option<Sample>, StopReason> {
        if let Some(sample) = self.sample(at)? {
            return Ok(Some(sample));
        }
        if let Some(from) = self.long_read_start(at) {
            let least = self.hit_max + self.passing(at - from);
            if self.long_reads.0 >= LONG_READS_KEPT {
                self.long_reads = (self.long_reads.0 / 2, self.long_reads.1 / 2);
            }
            self.long_reads.0 += 1;
            let read = self.read_from(from, at)?;
            if let Some((_, sample)) = read.filter(|(took, _)| *took >= least) {
                self.long_reads.1 += 1;
                return Ok(Some(sample));
            }
            // The cached run begins earlier.
            self.cached_run = (2 * self.cached_run).min(LONG_MAX);
        }
        self.evict(at)?;
        self.sample(at)
    }

    /// Where a read begins that comes from the media up to a cached block, if there is one that
    /// completes when the block has passed and takes no longer than an eviction.
    fn long_read_start(&mut self, at: Block) -> Option<Block> {
        self.cached_count += 1;
        let pays = self.long_reads.0 < 2 * self.long_reads.1 + 8
            && !self.cached_count.is_multiple_of(EVICT_EVERY);
        if !self.evicts_slowly() || self.track <= 0.0 || !pays {
            return None;
        }
        let cheap =
            floor(self.elsewhere_time * f64::from(self.eviction_reads) / self.period * self.track);
        self.cached_run = self.cached_run.max(floor(self.track));
        let low = (at + 2).saturating_sub(self.long_max.min(cheap).min(self.cached_run)).max(1);
        let near = self.recent.iter().filter(|from| (low..=at).contains(from)).min();
        near.map(|near| near - 1)
    }

    /// Evicts a block, and other blocks with it.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn evict(&mut self, at: Block) -> Result<(), StopReason> {
        let began = self.now();
        for nth in 0..self.eviction_reads {
            self.read_elsewhere(at, u64::from(nth) + 1)?;
        }
        let away = (self.now() - began) / f64::from(self.eviction_reads.max(1));
        self.elsewhere_time += (away - self.elsewhere_time) / ELSEWHERE_AVERAGED;
        Ok(())
    }

    /// Whether an eviction takes many reads.
    pub(crate) const fn evicts_slowly(&self) -> bool {
        self.eviction_reads > EVICTION_READS_FEW
    }

    /// Reads a block away from `at`: one that soon passes under the head, where enough of the
    /// layout is known.
    fn read_elsewhere(&mut self, at: Block, nth: u64) -> Result<(), StopReason> {
        let Some((layout, from, to)) = self.known_layout else {
            if self.evicts_slowly() && self.read_pool_block(at)? {
                return Ok(());
            }
            let far = (at + nth * self.far() + self.recent.len() as u64) % self.blocks;
            let _ = self.read(far)?;
            return Ok(());
        };
        // Each block is a little before the last one, and is not used again soon: seeks are short,
        // and none of the blocks is cached.
        let stride = ((to - from) / (u64::from(self.eviction_reads) + 2)).max(4 * layout.spt);
        if !(from + stride..=to).contains(&self.last_read) {
            self.last_read = to;
        }
        let low = self.last_read - stride;
        let now = self.now();
        // The first of them needs a longer seek.
        let lead = if nth > 1 { self.lead_near } else { self.lead };
        let mut best = (f64::INFINITY, low);
        for _ in 0..24 {
            let block = low + floor(self.next_random() * real(stride - 2 * layout.spt));
            let wait = fraction(layout.at(block) - (now + lead) / self.period);
            if wait < best.0 && block.abs_diff(at) > 2 * layout.spt {
                best = (wait, block);
            }
        }
        self.last_read = best.1;
        let expected = lead + best.0 * self.period;
        if let Some((took, _)) = self.read(best.1)? {
            let missed = took > expected + self.period / 2.0;
            if nth > 1 {
                self.lead_near = self.lead_after(lead, missed);
            } else {
                self.lead_missed(missed);
            }
        }
        Ok(())
    }

    /// Adapts the lead: it grows when a block missed its revolution, and shrinks when it did not,
    /// so that it stays near its minimum.
    pub(crate) fn lead_missed(&mut self, missed: bool) {
        self.lead = self.lead_after(self.lead, missed);
    }

    fn lead_after(&self, lead: f64, missed: bool) -> f64 {
        (lead * if missed { 1.2 } else { 0.99 }).clamp(self.period / 20.0, self.period)
    }

    /// The distance of independent reads, in blocks.
    fn far(&self) -> u64 {
        (FAR / self.block).min(self.blocks / u64::from(REFERENCES_MAX + 1)).max(1)
    }

    /// Reads `count` blocks from the media, which `draw` maps from evenly distributed numbers in
    /// [0, 1), in descending order, so that none is read ahead.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn samples(
        &mut self,
        count: u32,
        draw: impl Fn(f64) -> Block,
    ) -> Result<Vec<Sample>, StopReason> {
        let all = self.blocks;
        let mut blocks: Vec<Block> = (0..count)
            .map(|nth| draw((f64::from(nth) + self.next_random()) / f64::from(count)))
            .filter(|at| *at < all)
            .collect();
        blocks.sort_unstable();
        blocks.reverse();
        self.samples_of(blocks)
    }

    /// The phase at which a sample completed.
    pub(crate) fn phase(&self, sample: &Sample) -> f64 {
        fraction(sample.time / self.period)
    }

    /// The next of a pseudo-random sequence in [0, 1), the same for every target.
    pub(crate) fn next_random(&mut self) -> f64 {
        self.sequence = self.sequence.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.sequence;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        real((word ^ (word >> 31)) >> 11) / real(1 << 53)
    }
}
