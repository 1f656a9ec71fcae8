//! The bus that several disks share, by their sequential reads alone and together (Clockwise, RTAS
//! 2000 §3.1: the influence of a disk on the performance of other disks).
//!
//! A disk is on the bus if it reads more slowly together with the others than alone. What such
//! disks read together is the bus's bandwidth, if it is less than what they read alone: the bus is
//! then what they wait for. Where each keeps its rate, the bus carries all that they can read.

use units::{Bytes, Duration, Extent, Lba, Operation, Sectors};

use crate::target::{Outcome, Tag, Target};

/// The least part of its rate alone that a disk keeps which shares no bus, in percent: sequential
/// reads of one disk vary by a few percent.
pub const KEPT_PERCENT: u64 = 90;
/// The length of a read: 512 KiB.
const LEN: Sectors = Sectors(1_024);
/// Reads in flight: the bus is asked for the next one while the disk reads on.
const DEPTH: u32 = 2;

/// The rates at which a disk reads sequentially, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequentialRates {
    /// With nothing else on the bus.
    pub alone: Bytes,
    /// While all of the other disks read, too.
    pub together: Bytes,
}

/// A bus that disks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBus {
    /// The disks that wait for it, by their places among those that were measured: two at least.
    pub disks: Vec<usize>,
    /// Bytes a second that it carries for all of them.
    pub bandwidth: Bytes,
}

/// A read of a sequential run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFailed {
    /// The first sector of the read.
    pub lba: Lba,
}

impl core::fmt::Display for ReadFailed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a read at {} failed: a disk is measured that answers its reads", self.lba)
    }
}

impl core::error::Error for ReadFailed {}

/// The bus that disks of these rates share; `None` if each of them keeps its rate, or one alone
/// does not.
pub fn find_bus(rates: &[SequentialRates]) -> Option<FoundBus> {
    let is_slower = |rates: &SequentialRates| {
        u128::from(rates.together.0) * 100 < u128::from(rates.alone.0) * u128::from(KEPT_PERCENT)
    };
    let slower = rates.iter().enumerate().filter(|(_, rates)| is_slower(rates));
    let disks: Vec<usize> = slower.map(|(index, _)| index).collect();
    if disks.len() < 2 {
        return None;
    }
    let bandwidth = disks.iter().map(|index| rates[*index].together.0).sum();
    Some(FoundBus { disks, bandwidth: Bytes(bandwidth) })
}

/// The bytes a second of sequential reads from the beginning of the device, over `time`.
///
/// # Errors
/// A read fails. Nothing is in flight then.
pub fn sequential_rate(target: &mut dyn Target, time: Duration) -> Result<Bytes, ReadFailed> {
    let facts = target.facts();
    let len = LEN.min(facts.sectors);
    let count = facts.sectors.0 / len.0;
    let place = |nth: u64| Lba(nth % count * len.0);
    let end = target.now() + time;
    let (mut sent, mut failed, mut completions) = (0, None, Vec::new());
    let depth = u64::from(DEPTH.min(facts.depth_max));
    loop {
        let is_open = target.now() < end && failed.is_none();
        while is_open && sent - (completions.len() as u64) < depth {
            target.submit(Tag(sent), Operation::read(Extent::new(place(sent), len)));
            sent += 1;
        }
        if sent == completions.len() as u64 {
            break;
        }
        let done = target.complete();
        if done.outcome == Outcome::Failed {
            failed = failed.or(Some(ReadFailed { lba: place(done.tag.0) }));
        }
        completions.push(done.completed);
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    let (first, last) = (completions[0], completions[completions.len() - 1]);
    let moved = u128::from(len.bytes().0) * (completions.len() as u128 - 1);
    let rate = moved * 1_000_000_000 / u128::from(last.since(first).as_nanos().max(1));
    Ok(Bytes(u64::try_from(rate).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rates: &[(u64, u64)]) -> Option<(Vec<usize>, u64)> {
        let rates: Vec<_> = rates
            .iter()
            .map(|(alone, together)| SequentialRates {
                alone: Bytes(*alone),
                together: Bytes(*together),
            })
            .collect();
        find_bus(&rates).map(|bus| (bus.disks, bus.bandwidth.0))
    }

    #[test]
    fn disks_that_are_slower_together_share_what_they_read_then() {
        assert_eq!(found(&[(100, 34), (100, 33), (80, 33)]), Some((vec![0, 1, 2], 100)));
        // The third has a bus of its own.
        assert_eq!(found(&[(100, 50), (100, 50), (80, 79)]), Some((vec![0, 1], 100)));
    }

    #[test]
    fn disks_that_keep_their_rates_share_nothing_and_one_disk_shares_with_none() {
        assert_eq!(found(&[(100, 90), (100, 97), (80, 81)]), None);
        assert_eq!(found(&[(100, 40), (100, 99)]), None);
        assert_eq!(found(&[(100, 40)]), None);
    }
}
