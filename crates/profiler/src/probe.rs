//! Where the disk is when a sector has been read: the one thing that geometry is made of.
//!
//! A read off the media ends when its last sector has passed the head, plus what the electronics take, which is the
//! same for one block everywhere. So the instant of its end, taken modulo the period, is the angle of the block, but for a
//! constant. A read out of the drive's memory says nothing; it is told by how soon it ends, and left out.

use std::collections::VecDeque;

use units::{Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, Halt};
use crate::circle::{part, real, whole};
use crate::lattice::Lattice;
use crate::limits::REFERENCES_MAX;
use crate::rotation::Rotation;

/// How many of the last reads are remembered: more than any drive keeps runs.
const RECENT_MAX: usize = 2 * REFERENCES_MAX as usize;
/// The longest read that is to come off the media because it begins before all others, in blocks.
const LONG_MAX: u64 = 8_192;
/// A long read that takes less than this part of what its blocks take to pass the head came out of memory.
const PASSED_MIN: f64 = 0.8;
/// One that takes longer than this many times that waited for the bus.
const SLOWLY: f64 = 1.5;
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
/// A drive that forgets after so many reads is made to forget.
const FORGETS_FEW: u32 = 4;
/// Sectors between reads that have nothing to do with one another.
const FAR: u64 = 16_384;

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
    /// When the sweep is to end, in ns since the probe began.
    pub(crate) until: f64,
    /// How many reads elsewhere make the drive forget a block.
    pub(crate) forgets: u32,
    origin: Instant,
    sequence: u64,
    /// Where the runs began that the drive may keep, the last used last.
    recent: VecDeque<Block>,
    /// Addresses whose lattice is known, to read from where the arm is about to be anyway.
    pub(crate) ground: Option<(Lattice, Block, Block)>,
    /// How soon a block there can be read, in ns.
    lead: f64,
    /// What became of long reads that were to come off the media.
    long: Long,
}

/// What became of long reads that were to come off the media.
#[derive(Clone, Copy, Debug, Default)]
struct Long {
    tried: u32,
    helped: u32,
    /// Those so long that they tell whether the bus is slower than the media, and those that say so: then a read ends when the
    /// bus has carried it, and not when its last block has passed.
    telling: u32,
    slow: u32,
}

impl Long {
    /// Whether another is worth its time.
    fn pays(&self) -> bool {
        self.tried < 2 * self.helped + 8 && self.slow < 2 + self.telling / 4
    }

    /// One was tried; whether it helped, and whether it was slow, if that can be told.
    fn tried(&mut self, helped: bool, slow: Option<bool>) {
        if self.tried >= LONG_REMEMBERED {
            let Self { tried, helped, telling, slow } = *self;
            *self =
                Self { tried: tried / 2, helped: helped / 2, telling: telling / 2, slow: slow / 2 };
        }
        self.tried += 1;
        self.helped += u32::from(helped);
        self.telling += u32::from(slow.is_some());
        self.slow += u32::from(slow == Some(true));
    }
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
            long: Long::default(),
        }
    }

    /// A probe of a drive whose spindle is known.
    pub(crate) fn of(bench: &'b mut Bench<'a>, rotation: &Rotation) -> Self {
        let mut probe = Self::new(bench);
        probe.period = real(rotation.period_picos) / 1e3;
        let wander = OF_WANDER * real(rotation.wander.as_nanos());
        probe.sigma = real(rotation.noise.as_nanos()).max(wander).max(NOISE_MIN) / probe.period;
        probe.hit = real(rotation.hit_below.as_nanos());
        probe.forgets = rotation.forgets;
        probe
    }

    /// How many reads it takes where one did if noise were a fortieth of a turn.
    pub(crate) fn effort(&self) -> u32 {
        let times = (self.sigma / NOISE_EASY).powi(4);
        u32::try_from(whole(times.ceil())).unwrap_or(EFFORT_MAX).clamp(1, EFFORT_MAX)
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

    /// Reads blocks up to and with `at`, from `from` on: what the read took, in ns, and when it ended. None if it failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn read_from(
        &mut self,
        from: Block,
        at: Block,
    ) -> Result<Option<(f64, Sample)>, Halt> {
        let extent = Extent::new(self.lba(from), Sectors((at + 1 - from) * self.block));
        let timed = self.bench.time(Operation::read(extent))?;
        let took = real(timed.took().as_nanos());
        if took >= self.hit + PASSED_MIN * self.passing(at - from) {
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

    /// What so many blocks take to pass the head, in ns; nothing as long as no track is known.
    fn passing(&self, blocks: u64) -> f64 {
        self.ground.map_or(0.0, |(lattice, _, _)| real(blocks) / real(lattice.spt) * self.period)
    }

    /// Reads a block: what its read took, in ns, and when it ended. None if it failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn read(&mut self, at: Block) -> Result<Option<(f64, Sample)>, Halt> {
        self.read_from(at, at)
    }

    /// Reads a block off the media. None if it came out of memory, or failed.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample(&mut self, at: Block) -> Result<Option<Sample>, Halt> {
        Ok(self.read(at)?.filter(|(took, _)| *took >= self.hit).map(|(_, sample)| sample))
    }

    /// Reads a block off the media though the drive may have read it not long ago. None if that did not help.
    ///
    /// What a drive keeps begins where it was asked to read, so a read that begins before all of them comes off the
    /// media, and ends when the block has passed. Drives that keep little are made to forget instead.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub(crate) fn sample_again(&mut self, at: Block) -> Result<Option<Sample>, Halt> {
        if let Some(sample) = self.sample(at)? {
            return Ok(Some(sample));
        }
        let low = at.saturating_sub(LONG_MAX);
        let near = self.recent.iter().filter(|from| (low..=at).contains(from)).min();
        let from = near.map_or(at, |near| near.saturating_sub(1));
        if self.forgets > FORGETS_FEW
            && from > 0
            && self.long.pays()
            && self.passing(at - from) < f64::from(self.forgets) * self.period
        {
            let found = self.long(from, at)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        for nth in 0..self.forgets {
            self.elsewhere(at, u64::from(nth) + 1)?;
        }
        self.sample(at)
    }

    /// Reads a block off the media by a read that begins before all that the drive may keep. None if that did not help.
    fn long(&mut self, from: Block, at: Block) -> Result<Option<Sample>, Halt> {
        let passing = self.passing(at - from);
        let read = self.read_from(from, at)?;
        let helped = read.filter(|(took, _)| *took >= self.hit + PASSED_MIN * passing);
        // To get there takes two turns at most, nearly always.
        let forgetting = f64::from(self.forgets) * self.period;
        let slowly = if passing > 0.0 { 2.0 * self.period + SLOWLY * passing } else { forgetting };
        let slow = helped.is_some_and(|(took, _)| took > slowly.min(forgetting));
        let tells = slow || passing > self.period / 2.0;
        let found = helped.filter(|_| !slow).map(|(_, sample)| sample);
        self.long.tried(found.is_some(), tells.then_some(slow));
        Ok(found)
    }

    /// Reads a block that has nothing to do with `at`: on known ground one that comes under the head soon.
    fn elsewhere(&mut self, at: Block, nth: u64) -> Result<(), Halt> {
        let Some((lattice, from, to)) = self.ground else {
            let far = (at + nth * self.far() + self.recent.len() as u64) % self.blocks;
            let _ = self.read(far)?;
            return Ok(());
        };
        let now = self.now();
        let mut best = (f64::INFINITY, from);
        for _ in 0..24 {
            let block = from + whole(self.even() * real(to - from));
            let wait = part(lattice.at(block) - (now + self.lead) / self.period);
            if wait < best.0 && block.abs_diff(at) > 2 * lattice.spt {
                best = (wait, block);
            }
        }
        let expected = self.lead + best.0 * self.period;
        if let Some((took, _)) = self.read(best.1)? {
            // A turn too late: the lead was too short. So it stays about as short as it can be.
            let missed = took > expected + self.period / 2.0;
            let lead = self.lead * if missed { 1.2 } else { 0.99 };
            self.lead = lead.clamp(self.period / 20.0, self.period);
        }
        Ok(())
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
    ) -> Result<Vec<Sample>, Halt> {
        let all = self.blocks;
        let mut blocks: Vec<Block> = (0..count)
            .map(|nth| draw((f64::from(nth) + self.even()) / f64::from(count)))
            .filter(|at| *at < all)
            .collect();
        blocks.sort_unstable();
        let mut found = Vec::new();
        for at in blocks.into_iter().rev() {
            found.extend(self.sample_again(at)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reads_are_left_where_they_seldom_help_or_wait_for_the_bus() {
        let mut helping = Long::default();
        let mut slow = Long::default();
        for _ in 0..1_000 {
            helping.tried(true, Some(false));
        }
        assert!(helping.pays(), "{helping:?}");
        // One that comes late is not the bus.
        helping.tried(false, Some(true));
        helping.tried(false, Some(true));
        assert!(helping.pays(), "{helping:?}");
        slow.tried(false, Some(true));
        assert!(slow.pays(), "{slow:?}");
        slow.tried(false, Some(true));
        slow.tried(false, Some(true));
        assert!(!slow.pays(), "{slow:?}");
        let mut useless = Long::default();
        (0..8).for_each(|_| useless.tried(false, None));
        assert!(!useless.pays(), "{useless:?}");
    }
}
