//! Where the disk is when a sector has been read: the one thing that geometry is made of.
//!
//! A read off the media ends when its last sector has passed the head, plus what the electronics take, which is the
//! same for one block everywhere. So the instant of its end, taken modulo the period, is the angle of the block, but for a
//! constant. A read out of the drive's memory says nothing; it is told by how soon it ends, and left out.

use std::collections::VecDeque;

use units::{Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, StopReason};
use crate::estimate::number::{floor, fraction, real};
use crate::layout::block::{Block, Sample};
use crate::layout::reference_pool::ReferencePool;
use crate::layout::track_layout::TrackLayout;
use crate::limits::REFERENCES_MAX;
use drive_profile::findings::Rotation;

/// How many of the last reads are remembered: more than any drive keeps runs.
const RECENT_MAX: usize = 2 * REFERENCES_MAX as usize;
/// The longest read that is to come off the media because it begins before all others, in blocks.
pub(crate) const LONG_MAX: u64 = 8_192;
/// A long read that takes less than this part of what its blocks take to pass the head came out of memory.
const PASSED_MIN: f64 = 0.8;
/// Noise, in turns, under which nothing has to be read more often than once.
const NOISE_EASY: f64 = 0.0355;
/// Nothing is timed more exactly for minutes, in ns: what lies between drive and host takes some tens of µs more or less as
/// the host's other work has it, for seconds each time, and a mean of many reads does not become better by them.
const NOISE_MIN: f64 = 100_000.0;
/// As much noise would bring the means of a few reads as far apart as this much wandering does.
const OF_WANDER: f64 = 2.0;
/// The most that noise multiplies reads by.
const EFFORT_MAX: u32 = 8;
/// Of so many long reads it is remembered whether they helped.
const LONG_REMEMBERED: u32 = 64;
/// What a read elsewhere takes until that is known, in turns.
const AWAY: f64 = 0.7;
/// Of so many times that the drive was made to forget it is remembered what they took.
const AWAY_REMEMBERED: f64 = 3.0;
/// Each so many times that a block is kept the drive is made to forget, to know what that takes.
const AWAY_EACH: u32 = 8;
/// A drive that forgets after so many reads is made to forget.
const FORGETS_FEW: u32 = 4;
/// Sectors between reads that have nothing to do with one another.
const FAR: u64 = 16_384;

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
    /// When the sweep is to end, in ns since the probe began.
    pub(crate) until: f64,
    /// How many reads elsewhere make the drive forget a block.
    pub(crate) forgets: u32,
    origin: Instant,
    sequence: u64,
    /// Where the runs began that the drive may keep, the last used last.
    recent: VecDeque<Block>,
    /// Addresses whose lattice is known, to read from where the arm is about to be anyway.
    pub(crate) ground: Option<(TrackLayout, Block, Block)>,
    /// How soon a block elsewhere can be read, in ns.
    pub(crate) lead: f64,
    /// The block of known ground that was read last, and how soon one beside it can be read.
    walked: Block,
    lead_beside: f64,
    /// Blocks that are read in turn to make the drive forget, where no ground is known.
    pub(crate) pool: ReferencePool,
    /// How long a read may be, in blocks, that ends when its last block has passed the head.
    pub(crate) long_max: u64,
    /// Blocks on a track where it reads, roughly; nothing until that is known.
    pub(crate) track: f64,
    /// What a read elsewhere takes, in ns.
    away: f64,
    /// How often a block was kept that was to be read off the media.
    again: u32,
    /// Blocks of a run that the drive keeps, as far as that shows.
    run: Block,
    /// How many long reads were tried to come off the media, and how many did.
    long: (u32, u32),
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
            until: f64::INFINITY,
            forgets: 1,
            origin,
            sequence: 0,
            recent: VecDeque::new(),
            ground: None,
            lead: 2e6,
            pool: ReferencePool::default(),
            long_max: 0,
            walked: 0,
            lead_beside: 2e6,
            track: 0.0,
            away: 0.0,
            again: 0,
            run: 0,
            long: (0, 0),
        }
    }

    /// A probe of a drive whose spindle is known.
    pub(crate) fn of(bench: &'b mut Bench<'a>, rotation: &Rotation) -> Self {
        let mut probe = Self::new(bench);
        probe.period = real(rotation.period_picos) / 1e3;
        let wander = OF_WANDER * real(rotation.wander.as_nanos());
        probe.sigma = real(rotation.noise.as_nanos()).max(wander).max(NOISE_MIN) / probe.period;
        probe.hit = real(rotation.hit_below.as_nanos());
        probe.forgets = rotation.eviction_reads;
        probe.away = AWAY * probe.period;
        probe
    }

    /// How many reads it takes where one did if noise were a fortieth of a turn.
    pub(crate) fn effort(&self) -> u32 {
        let times = (self.sigma / NOISE_EASY).powi(2);
        u32::try_from(floor(times.ceil())).unwrap_or(EFFORT_MAX).clamp(1, EFFORT_MAX)
    }

    /// The address of a block.
    pub(crate) fn lba(&self, at: Block) -> Lba {
        Lba(at * self.block)
    }

    /// The instant so many ns after the probe began.
    pub(crate) fn instant(&self, time: f64) -> Instant {
        self.origin + units::Duration::from_nanos(floor(time))
    }

    /// So many ns after the probe began it is now.
    pub(crate) fn now(&mut self) -> f64 {
        real(self.bench.now().since(self.origin).as_nanos())
    }

    /// Reads blocks up to and with `at`, from `from` on: what the read took, in ns, and when it ended. None if it failed.
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
        if took >= self.hit + self.passing(at - from) {
            self.recent.push_back(from);
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        } else {
            self.used(at);
        }
        if !timed.is_done() {
            return Ok(None);
        }
        let time = real(timed.completed.saturating_since(self.origin).as_nanos());
        Ok(Some((took, Sample { at, time })))
    }

    /// A block came out of memory: the drive keeps the runs that hold it for longer, and which they are is not known.
    fn used(&mut self, at: Block) {
        let holds = |from: &Block| (at.saturating_sub(LONG_MAX)..=at).contains(from);
        let (used, others): (Vec<Block>, Vec<Block>) = self.recent.iter().partition(|f| holds(f));
        self.recent = others.into_iter().chain(used).collect();
    }

    /// What a read of so many blocks more than one takes longer at least if they pass the head, in ns; nothing as long as
    /// no track is known.
    fn passing(&self, more: u64) -> f64 {
        let track = self.ground.map_or(self.track, |(layout, _, _)| real(layout.spt));
        if track > 0.0 { PASSED_MIN * real(more) / track * self.period } else { 0.0 }
    }

    /// Reads a block: what its read took, in ns, and when it ended. None if it failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn read(&mut self, at: Block) -> Result<Option<(f64, Sample)>, StopReason> {
        self.read_from(at, at)
    }

    /// Reads a block off the media. None if it came out of memory, or failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample(&mut self, at: Block) -> Result<Option<Sample>, StopReason> {
        Ok(self.read(at)?.filter(|(took, _)| *took >= self.hit).map(|(_, sample)| sample))
    }

    /// Reads a block off the media though the drive may have read it not long ago. None if that did not help.
    ///
    /// What a drive keeps begins where it was asked to read, so a read that begins before all of them comes off the
    /// media, and ends when the block has passed. Drives that keep little are made to forget instead.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample_again(&mut self, at: Block) -> Result<Option<Sample>, StopReason> {
        if let Some(sample) = self.sample(at)? {
            return Ok(Some(sample));
        }
        if let Some(from) = self.before_kept(at) {
            let least = self.hit + self.passing(at - from);
            if self.long.0 >= LONG_REMEMBERED {
                self.long = (self.long.0 / 2, self.long.1 / 2);
            }
            self.long.0 += 1;
            let read = self.read_from(from, at)?;
            if let Some((_, sample)) = read.filter(|(took, _)| *took >= least) {
                self.long.1 += 1;
                return Ok(Some(sample));
            }
            // What the drive keeps begins earlier.
            self.run = (2 * self.run).min(LONG_MAX);
        }
        self.forget(at)?;
        self.sample(at)
    }

    /// Where a read begins that comes off the media up to a block that the drive has kept, if there is one that ends when the
    /// block has passed and takes no longer than to make the drive forget.
    fn before_kept(&mut self, at: Block) -> Option<Block> {
        self.again += 1;
        let pays = self.long.0 < 2 * self.long.1 + 8 && !self.again.is_multiple_of(AWAY_EACH);
        if !self.forgets_late() || self.track <= 0.0 || !pays {
            return None;
        }
        let cheap = floor(self.away * f64::from(self.forgets) / self.period * self.track);
        self.run = self.run.max(floor(self.track));
        let low = (at + 2).saturating_sub(self.long_max.min(cheap).min(self.run)).max(1);
        let near = self.recent.iter().filter(|from| (low..=at).contains(from)).min();
        near.map(|near| near - 1)
    }

    /// Makes the drive forget a block, and what it keeps besides.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn forget(&mut self, at: Block) -> Result<(), StopReason> {
        let began = self.now();
        for nth in 0..self.forgets {
            self.elsewhere(at, u64::from(nth) + 1)?;
        }
        let away = (self.now() - began) / f64::from(self.forgets.max(1));
        self.away += (away - self.away) / AWAY_REMEMBERED;
        Ok(())
    }

    /// Whether it takes many reads to make the drive forget.
    pub(crate) const fn forgets_late(&self) -> bool {
        self.forgets > FORGETS_FEW
    }

    /// Reads a block that has nothing to do with `at`: one that comes under the head soon, where that is known of enough.
    fn elsewhere(&mut self, at: Block, nth: u64) -> Result<(), StopReason> {
        let Some((layout, from, to)) = self.ground else {
            if self.forgets_late() && self.in_turn(at)? {
                return Ok(());
            }
            let far = (at + nth * self.far() + self.recent.len() as u64) % self.blocks;
            let _ = self.read(far)?;
            return Ok(());
        };
        // Each a little before the one before it, and none soon again: so ways are short, and nothing is still kept.
        let stride = ((to - from) / (u64::from(self.forgets) + 2)).max(4 * layout.spt);
        if !(from + stride..=to).contains(&self.walked) {
            self.walked = to;
        }
        let low = self.walked - stride;
        let now = self.now();
        // There is a longer way to the first of them.
        let lead = if nth > 1 { self.lead_beside } else { self.lead };
        let mut best = (f64::INFINITY, low);
        for _ in 0..24 {
            let block = low + floor(self.even() * real(stride - 2 * layout.spt));
            let wait = fraction(layout.at(block) - (now + lead) / self.period);
            if wait < best.0 && block.abs_diff(at) > 2 * layout.spt {
                best = (wait, block);
            }
        }
        self.walked = best.1;
        let expected = lead + best.0 * self.period;
        if let Some((took, _)) = self.read(best.1)? {
            let missed = took > expected + self.period / 2.0;
            if nth > 1 {
                self.lead_beside = self.lead_after(lead, missed);
            } else {
                self.lead_missed(missed);
            }
        }
        Ok(())
    }

    /// A block came a turn too late: the lead was too short. Or it did not. So it stays about as short as it can be.
    pub(crate) fn lead_missed(&mut self, missed: bool) {
        self.lead = self.lead_after(self.lead, missed);
    }

    fn lead_after(&self, lead: f64, missed: bool) -> f64 {
        (lead * if missed { 1.2 } else { 0.99 }).clamp(self.period / 20.0, self.period)
    }

    /// How far away a read has nothing to do with a block.
    fn far(&self) -> u64 {
        (FAR / self.block).min(self.blocks / u64::from(REFERENCES_MAX + 1)).max(1)
    }

    /// Reads `count` blocks off the media, which `draw` makes of evenly spread numbers under one; from the last to the
    /// first, which no read-ahead is ready for.
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
            .map(|nth| draw((f64::from(nth) + self.even()) / f64::from(count)))
            .filter(|at| *at < all)
            .collect();
        blocks.sort_unstable();
        blocks.reverse();
        self.samples_of(blocks)
    }

    /// The phase at which a sample ended.
    pub(crate) fn phase(&self, sample: &Sample) -> f64 {
        fraction(sample.time / self.period)
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
