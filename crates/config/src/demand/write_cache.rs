//! The way past the write cache of a disk's drive, and what each way costs.

use std::sync::Arc;

use drive::{AnyModel, CacheBypass, DurableCosts, Spec};
use engine::{Execution, ForcedWrites};

use crate::plan::{Disk, WriteCache};

impl Disk {
    /// What durable writes cost in each way past the drive's write cache, by its parameters or its
    /// measured profile; `None` if they are not known, or there is no cache.
    pub fn durable_costs(&self) -> Option<DurableCosts> {
        let costs = self.drive.model.mechanical()?.durable_costs()?;
        Some(costs.slowed(|time| self.slowed.stretched(time)))
    }

    /// The ways past the write cache, the one first that is taken if the drive has it.
    pub fn bypass_order(&self) -> [CacheBypass; 3] {
        if !self.is_executed_whole() {
            // Each forced write has a flush of its own.
            return [CacheBypass::Forced, CacheBypass::Off, CacheBypass::Flushed];
        }
        self.durable_costs().map_or(CacheBypass::ALL, |costs| costs.order())
    }

    /// The way past the write cache of a drive of which the config decides it: that of an emulated
    /// or simulated disk; of a real one unless it is "auto". `None`: the cache is left as it is, or
    /// what the drive has decides.
    pub fn cache_bypass(&self) -> Option<CacheBypass> {
        let is_real = self.backing.capabilities().is_real;
        let has_cache = || self.drive.model.mechanical().is_some_and(|m| m.spec().write_cache);
        match self.write_cache {
            _ if !is_real && !has_cache() => None,
            WriteCache::Auto if is_real || self.write_buffer.is_none() => None,
            WriteCache::Auto => Some(self.bypass_order()[0]),
            WriteCache::Forced => Some(CacheBypass::Forced),
            WriteCache::Off => Some(CacheBypass::Off),
            WriteCache::Flushed => Some(CacheBypass::Flushed),
        }
    }

    /// How the engine has forced writes made durable. Where it does not see to it, and the drive's
    /// FUA is not used, the backend flushes after each.
    pub(crate) fn forced_writes(&self) -> ForcedWrites {
        let is_flushed = self.cache_bypass() == Some(CacheBypass::Flushed);
        if !is_flushed || self.write_buffer.is_none() || !self.is_executed_whole() {
            return ForcedWrites::Fua;
        }
        match self.durable_costs() {
            Some(costs) if costs.flushes_cost() => ForcedWrites::FlushedTogether,
            Some(_) | None => ForcedWrites::FlushedInPairs,
        }
    }

    fn is_executed_whole(&self) -> bool {
        self.execution == Execution::Whole { split: None }
    }

    /// The drive that is emulated or simulated: without its write cache if that is off.
    pub fn served_model(&self) -> AnyModel {
        let Some(model) = self.drive.model.mechanical() else { return self.drive.model.clone() };
        if self.cache_bypass() != Some(CacheBypass::Off) || !model.spec().write_cache {
            return self.drive.model.clone();
        }
        let spec = Spec { write_cache: false, ..model.spec().clone() };
        AnyModel::Mechanical(Arc::new(spec.check().expect("it was sound with a write cache")))
    }
}
