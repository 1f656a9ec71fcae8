//! Evicts a block from the drive's cache, so that it can be read from the media again.
//!
//! A read that begins before all cached sectors is served from the media as well, if it completes
//! when its last block has passed the head. Whether it does is measured: a bus slower than the
//! media prolongs it, and a drive that reads from the first passing sector on may end with another.
//!
//! Otherwise as many blocks elsewhere are read as the cache has segments. Their angles are not
//! known yet, but a block that was read once passes at the same phase again: the next block of a
//! pool is the one that passes soonest.

use crate::bench::StopReason;
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, real};
use crate::layout::block::{Block, Sample};
use crate::layout::probe::{LONG_MAX, Probe};
use crate::layout::reference_pool::{BLOCKS_PER_EVICTION, Known};

/// The initial distance of these blocks: it grows where the drive caches as much from one read.
const APART: u64 = 1_024;
/// The locations at which long reads are tested.
const PLACES: u32 = 24;
/// The same in a quick profile.
const PLACES_QUICK: u32 = 8;
/// The ratio of the lengths of consecutive tests.
const LONGER: u64 = 4;
/// The most consecutive evictions without effect.
const INEFFECTIVE_MAX: u32 = 3;
/// The most mean deviation of the ends of longer reads, in its standard deviations.
const OFF_MAX: f64 = 2.8;

impl Probe<'_, '_> {
    /// Finds the longest read that completes when its last block has passed the head.
    ///
    /// # Errors
    /// As [`crate::Bench::check`].
    pub(crate) fn calibrate_long_reads(&mut self) -> Result<(), StopReason> {
        let room = self.blocks.saturating_sub(LONG_MAX + 1);
        if room == 0 || !self.evicts_slowly() {
            return Ok(());
        }
        let places = if self.bench.budget().quick { PLACES_QUICK } else { PLACES };
        let off_max = OFF_MAX * self.sigma * (2.0 / f64::from(places)).sqrt();
        let mut alone = Vec::new();
        for nth in 0..places {
            let even = (f64::from(nth) + self.next_random()) / f64::from(places);
            alone.extend(self.sample(LONG_MAX + floor(even * real(room)))?);
        }
        let mut longer = 2;
        while longer <= LONG_MAX {
            let mut off = Vec::new();
            for one in &alone {
                let read = self.read_from(one.at.saturating_sub(longer - 1), one.at)?;
                let off_media = read.filter(|(took, _)| *took >= self.hit_max);
                off.extend(off_media.map(|(_, end)| wrap(self.phase(&end) - self.phase(one))));
            }
            let reach = 5.0 * self.sigma;
            let near: Vec<f64> = off.into_iter().filter(|off| off.abs() < reach).collect();
            let mean = centre(&near, reach).map_or(1.0, |centre| wrap(centre.mean).abs());
            // Some completions are observed late.
            if near.len() * 4 < alone.len() * 3 || mean > off_max {
                break;
            }
            self.long_max = longer;
            longer *= LONGER;
        }
        Ok(())
    }

    /// Reads blocks from the media, in the given order, which is descending.
    ///
    /// Blocks that are cached wait for a common eviction, where longer reads do not help.
    ///
    ///
    /// # Errors
    /// As [`crate::Bench::check`].
    pub(crate) fn samples_of(&mut self, mut blocks: Vec<Block>) -> Result<Vec<Sample>, StopReason> {
        let mut found = Vec::new();
        if !self.evicts_slowly() || self.long_max == LONG_MAX {
            for at in blocks {
                found.extend(self.sample_again(at)?);
            }
            return Ok(found);
        }
        let mut ineffective = 0;
        while ineffective < INEFFECTIVE_MAX {
            let (before, mut kept) = (found.len(), Vec::new());
            for at in blocks {
                match self.read(at)? {
                    Some((took, sample)) if took >= self.hit_max => found.push(sample),
                    Some(_) => kept.push(at),
                    None => {}
                }
            }
            let Some(first) = kept.first() else { break };
            ineffective = if found.len() > before { 0 } else { ineffective + 1 };
            self.evict(*first)?;
            blocks = kept;
        }
        found.sort_by_key(|sample| core::cmp::Reverse(sample.at));
        Ok(found)
    }

    /// Reads a block of the pool, away from `at`. Whether there was one.
    ///
    /// # Errors
    /// As [`crate::Bench::check`].
    pub(crate) fn read_pool_block(&mut self, at: Block) -> Result<bool, StopReason> {
        let (eviction_reads, most) = (u64::from(self.eviction_reads), self.blocks / 4);
        let size = BLOCKS_PER_EVICTION * eviction_reads;
        if self.pool.apart == 0 {
            self.pool.clear(APART);
        }
        if size * self.pool.apart > most {
            return Ok(false);
        }
        let len = self.pool.known.len() as u64;
        if len == 0 {
            // The pool is near the blocks that are measured, so that seeks are short.
            self.pool.from = (at + 2 * self.pool.apart).min(self.blocks - size * self.pool.apart);
        }
        self.pool.reads += 1;
        let read = self.pool.reads;
        if len < size {
            let block = self.pool.from + len * self.pool.apart;
            let Some((took, sample)) = self.read(block)? else { return Ok(false) };
            if took < self.hit_max {
                let apart = 2 * self.pool.apart;
                self.pool.clear(apart);
            } else {
                let phase = self.phase(&sample);
                self.pool.known.push(Known { at: block, phase, read });
            }
            return Ok(true);
        }
        let ready = (self.now() + self.lead) / self.period;
        let Some((nth, wait)) = self.pool.soonest(at, ready, eviction_reads) else {
            return Ok(false);
        };
        let expected = self.lead + wait * self.period;
        if let Some((took, sample)) = self.read(self.pool.known[nth].at)? {
            self.lead_missed(took > expected + self.period / 2.0);
            let phase = self.phase(&sample);
            let known = &mut self.pool.known[nth];
            known.read = read;
            if took >= self.hit_max {
                known.phase = phase;
            }
        }
        Ok(true)
    }
}
