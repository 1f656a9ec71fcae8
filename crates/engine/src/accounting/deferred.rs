//! Charges for what a drive has answered from its own buffer and stores later.
//!
//! A flash drive answers a write when it is in its buffer. Storing it takes time that no command of
//! the volume shows as long as the buffer has room, so that a limit would hold for the answers
//! alone. Where the drive's rate of storing is known, each write is charged that time at least.
//! What a write was charged beyond it, as it waited for the buffer to drain, counts for the
//! volume's next ones.
//!
//! Invariants: a volume is charged no more for its writes than the longer of the time in which they
//! were answered and that in which they are stored. The disk's busy time grows by what is charged,
//! so that the charges add up to it.

use units::{DiskTime, Duration, Lba, Op, Operation, Sectors};

use crate::VolumeId;

/// The most that a volume's writes may have been charged beyond the time in which they are stored
/// and still have counted for later ones: about the time of a drive's whole buffer.
const CREDIT_MAX: Duration = Duration::from_millis(100);

/// The mean time in which a drive stores a number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRate {
    /// The time.
    pub time: Duration,
    /// The sectors that are stored in it: at least one.
    pub sectors: Sectors,
}

impl StoreRate {
    /// The time in which `len` are stored, in nanoseconds, rounded up.
    fn nanos(self, len: Sectors) -> i64 {
        debug_assert!(self.sectors > Sectors::ZERO, "checked settings");
        let product = u128::from(self.time.as_nanos()) * u128::from(len.0);
        let nanos = product.div_ceil(u128::from(self.sectors.0));
        i64::try_from(nanos).expect("a command is stored within 292 years")
    }
}

/// How fast a drive stores what it has answered from its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredWrites {
    /// A write that begins where the volume's last one ended.
    pub sequential: StoreRate,
    /// Any other write.
    pub random: StoreRate,
}

/// The writes of one volume.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Where the last one ended.
    end: Lba,
    /// What they were charged beyond the time in which they are stored.
    credit: i64,
}

/// The further charges of one disk.
#[derive(Debug)]
pub(crate) struct DeferredCharges {
    rates: DeferredWrites,
    volumes: Vec<Account>,
    charged: i64,
}

impl DeferredCharges {
    pub(crate) fn new(rates: DeferredWrites) -> Self {
        debug_assert!(rates.random.sectors > Sectors::ZERO, "checked settings");
        debug_assert!(rates.sequential.sectors > Sectors::ZERO, "checked settings");
        Self { rates, volumes: Vec::new(), charged: 0 }
    }

    /// All further charges.
    pub(crate) fn charged(&self) -> DiskTime {
        debug_assert!(self.charged >= 0, "what is charged is not taken back");
        DiskTime::from_nanos(self.charged)
    }

    /// The further charge of a command that was charged `charge`.
    pub(crate) fn charge(
        &mut self,
        volume: VolumeId,
        operation: &Operation,
        charge: DiskTime,
    ) -> DiskTime {
        debug_assert!(charge >= DiskTime::ZERO, "a charge is not negative");
        let index = volume.0 as usize;
        if index >= self.volumes.len() {
            self.volumes.resize(index + 1, Account::default());
        }
        let account = &mut self.volumes[index];
        let Operation { op, extent, .. } = *operation;
        let owed = match op {
            Op::Write if core::mem::replace(&mut account.end, extent.end()) == extent.start => {
                self.rates.sequential.nanos(extent.len)
            }
            Op::Write => self.rates.random.nanos(extent.len),
            // It waits until what was written is stored.
            Op::Flush => 0,
            Op::Read | Op::Trim | Op::WriteZeroes | Op::Seek => return DiskTime::ZERO,
        };
        let most = i64::try_from(CREDIT_MAX.as_nanos()).expect("a short time");
        let credit = account.credit + charge.as_nanos() - owed;
        account.credit = credit.clamp(0, most);
        let further = (-credit).max(0);
        self.charged += further;
        DiskTime::from_nanos(further)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Extent;

    use super::*;

    fn rate(micros: u64) -> StoreRate {
        StoreRate { time: Duration::from_micros(micros), sectors: Sectors(8) }
    }

    proptest! {
        /// The sum of the charges lies between what was stored and that with what was charged
        /// beyond it.
        #[test]
        fn writes_are_charged_the_time_in_which_they_are_stored_once(
            writes in proptest::collection::vec((0_u64..40, 1_u64..60), 1..200),
        ) {
            let rates = DeferredWrites { sequential: rate(5), random: rate(30) };
            let mut charges = DeferredCharges::new(rates);
            let (mut answered, mut stored, mut all) = (0, 0, 0);
            let mut end = None;
            for (start, micros) in writes {
                let extent = Extent::new(Lba(8 * start), Sectors(8));
                let charge = DiskTime::from_micros(micros.cast_signed());
                let more = charges.charge(VolumeId(0), &Operation::write(extent), charge);
                let first = end.is_none() && start == 0;
                stored += if first || end == Some(start) { 5_000 } else { 30_000 };
                end = Some(start + 1);
                answered += charge.as_nanos();
                all += (charge + more).as_nanos();
                prop_assert!(all >= stored, "{all} for {stored}");
            }
            prop_assert!(all <= answered + stored, "{all} for {stored}, {answered} without");
            prop_assert_eq!(charges.charged().as_nanos(), all - answered);
        }
    }

    #[test]
    fn a_drive_whose_buffer_is_full_is_charged_its_time_and_no_more() {
        let rates = DeferredWrites { sequential: rate(26), random: rate(26) };
        let mut charges = DeferredCharges::new(rates);
        let mut all = DiskTime::ZERO;
        for write in 0..1_000 {
            // Every fourth one waits for the buffer to drain.
            let took = DiskTime::from_micros(if write % 4 == 0 { 44 } else { 20 });
            let extent = Extent::new(Lba(write * 100), Sectors(8));
            all += took + charges.charge(VolumeId(0), &Operation::write(extent), took);
        }
        assert_eq!(all, DiskTime::from_micros(26_000));
    }
}
