//! What it costs to make writes durable in each way past a drive's write buffer, as values:
//! [`durable`](crate::durable) measures them.

use core::fmt;

use units::Duration;

/// A way past a drive's write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheBypass {
    /// Writes are forced (FUA). Those longer than a command go to the buffer, and a flush follows.
    Forced,
    /// The buffer is switched off.
    Off,
    /// Writes go to the buffer, and a flush follows those of one volume.
    Flushed,
}

impl CacheBypass {
    /// All of them, in the order that is taken where no costs are known: that of the library's
    /// drives with a buffer of 16 MiB or more.
    pub const ALL: [Self; 3] = [Self::Forced, Self::Flushed, Self::Off];
}

impl fmt::Display for CacheBypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forced => "forced writes",
            Self::Off => "off while served",
            Self::Flushed => "a flush after forced writes",
        })
    }
}

/// What durable writes cost in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableCost {
    /// One write of 4 KiB anywhere on the disk, alone.
    pub short: Duration,
    /// 32 of them that are outstanding at once, together.
    pub batch: Duration,
    /// 16 MiB in order, in commands of 1 MiB.
    pub long: Duration,
}

impl DurableCost {
    /// The mean of the three, each as a part of that of `base`, in thousandths.
    pub fn relative_to(&self, base: &Self) -> u64 {
        let part = |own: Duration, base: Duration| {
            debug_assert!(base > Duration::ZERO, "a write takes time");
            own.as_nanos() * 1_000 / base.as_nanos().max(1)
        };
        let three = [(self.short, base.short), (self.batch, base.batch), (self.long, base.long)];
        three.map(|(own, base)| part(own, base)).iter().sum::<u64>() / 3
    }

    fn slowed(&self, stretch: impl Fn(Duration) -> Duration) -> Self {
        debug_assert!(stretch(self.short) >= self.short, "a slowed drive is slower");
        Self { short: stretch(self.short), batch: stretch(self.batch), long: stretch(self.long) }
    }
}

/// What durable writes cost in each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableCosts {
    /// Of [`CacheBypass::Forced`].
    pub forced: DurableCost,
    /// Of [`CacheBypass::Off`].
    pub off: DurableCost,
    /// Of [`CacheBypass::Flushed`].
    pub flushed: DurableCost,
}

/// By how much a way has to be cheaper, in thousandths of the cost of forced writes, to be
/// preferred: less is within what drives of one kind differ by, and other volumes wait for a flush.
pub const CHEAPER_BY: u64 = 50;
impl DurableCosts {
    /// The costs of one way.
    pub fn way(&self, way: CacheBypass) -> DurableCost {
        match way {
            CacheBypass::Forced => self.forced,
            CacheBypass::Off => self.off,
            CacheBypass::Flushed => self.flushed,
        }
    }

    /// The mean cost of one way, in thousandths of that of forced writes.
    pub fn relative(&self, way: CacheBypass) -> u64 {
        let relative = self.way(way).relative_to(&self.forced);
        debug_assert!(way != CacheBypass::Forced || relative == 1_000, "it is the base");
        relative
    }

    /// All ways, the cheapest first. One that costs less than those before it in
    /// [`CacheBypass::ALL`] by under [`CHEAPER_BY`] is not put before them.
    pub fn order(&self) -> [CacheBypass; 3] {
        let mut order = CacheBypass::ALL;
        for place in 1..order.len() {
            let mut at = place;
            while at > 0 && self.is_cheaper(order[at], order[at - 1]) {
                order.swap(at, at - 1);
                at -= 1;
            }
        }
        debug_assert!(!self.is_cheaper(order[1], order[0]), "in order");
        order
    }

    /// Whether a write and a flush take longer than a forced write by a tenth or more.
    pub fn flushes_cost(&self) -> bool {
        let (forced, flushed) = (self.forced.short.as_nanos(), self.flushed.short.as_nanos());
        debug_assert!(forced > 0, "a write takes time");
        flushed - flushed / 11 >= forced
    }

    fn is_cheaper(&self, way: CacheBypass, than: CacheBypass) -> bool {
        self.relative(way) + CHEAPER_BY <= self.relative(than)
    }

    /// The costs of the drive whose times are stretched so.
    #[must_use]
    pub fn slowed(&self, stretch: impl Fn(Duration) -> Duration) -> Self {
        Self {
            forced: self.forced.slowed(&stretch),
            off: self.off.slowed(&stretch),
            flushed: self.flushed.slowed(&stretch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CacheBypass::{Flushed, Forced, Off};
    use super::*;

    #[test]
    fn a_way_is_preferred_that_is_cheaper_by_more_than_drives_differ_by() {
        let cost = |short, batch, long| {
            let [short, batch, long] = [short, batch, long].map(Duration::from_millis);
            DurableCost { short, batch, long }
        };
        let forced = cost(10, 200, 100);
        let order = |off, flushed| DurableCosts { forced, off, flushed }.order();
        // 4.7 % less, and 8 %.
        assert_eq!(order(forced, cost(10, 172, 100)), [Forced, Flushed, Off]);
        assert_eq!(order(forced, cost(10, 150, 100)), [Flushed, Forced, Off]);
        // Where it loses a revolution with each command.
        assert_eq!(order(cost(10, 200, 200), cost(11, 210, 100)), [Forced, Flushed, Off]);
        assert_eq!(order(cost(10, 200, 100), cost(20, 210, 100)), [Forced, Off, Flushed]);
    }
}
