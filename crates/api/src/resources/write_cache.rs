//! The write cache of a disk's drive, and what each way past it costs.

use config::{CacheBypass, DurableCosts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What it costs to make writes durable in each way past the write cache of a drive, by its
/// parameters or its measured profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteCacheCosts {
    /// Writes are forced (FUA); those longer than a command have a flush.
    pub forced: WriteCacheCost,
    /// A flush follows the forced writes of a volume.
    pub flushed: WriteCacheCost,
    /// The cache is off.
    pub off: WriteCacheCost,
}

/// What durable writes cost in one way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteCacheCost {
    /// One random write of 4 KiB, alone.
    pub short_ms: f64,
    /// 32 random writes of 4 KiB that are outstanding at once, together.
    pub batch_ms: f64,
    /// 16 MiB in order.
    pub long_ms: f64,
    /// The mean of the three, each as a part of that of forced writes.
    pub relative: f64,
}

impl WriteCacheCosts {
    /// The ways, each with its cost, in the order in which ways of equal cost are preferred.
    pub fn ways(&self) -> [(&'static str, WriteCacheCost); 3] {
        [("forced", self.forced), ("flushed", self.flushed), ("off", self.off)]
    }
}

impl From<DurableCosts> for WriteCacheCosts {
    fn from(costs: DurableCosts) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let cost = |way| {
            let own = costs.way(way);
            WriteCacheCost {
                short_ms: own.short.as_millis_f64(),
                batch_ms: own.batch.as_millis_f64(),
                long_ms: own.long.as_millis_f64(),
                relative: costs.relative(way) as f64 / 1e3,
            }
        };
        let [forced, flushed, off] =
            [CacheBypass::Forced, CacheBypass::Flushed, CacheBypass::Off].map(cost);
        debug_assert!(forced.short_ms > 0.0, "a write takes time");
        Self { forced, flushed, off }
    }
}
