//! Reserves and limits as shares of a disk: their text, and their sum on each disk.

use engine::{Admission, Contract, Priority};
use units::{Instant, Share};

use crate::plan::{Disk, DiskIndex, Plan, PoolVolume, Volume};

impl Disk {
    /// A share of this disk as a volume's `reserve` or `limit` is written: of its time, or under
    /// [`engine::PolicyName::Throughput`] requests a second, rounded down to a thousandth.
    pub fn share_text(&self, share: Share) -> String {
        if !self.policy.has_nominal_rate() {
            return share.to_string();
        }
        // Compensates for the rounding when a rate is read: 7/s is written as 7/s, and each written
        // rate fits when it is read.
        let slip = if share.is_none() { 0 } else { MILLIONTH - SLIP - 1 };
        let ppb = u128::from(share.ppb()) + slip;
        let thousandths = ppb * 1_000 / u128::from(self.nominal.interval.as_nanos());
        let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
        let text = format!("{whole}.{part:03}");
        format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

pub(crate) const WHOLE: u128 = Share::ALL.ppb() as u128;
pub(crate) const MILLIONTH: u128 = 1_000;
/// In 10⁻⁹: the effect of a nanosecond on the shortest interval that disks have.
pub(crate) const SLIP: u128 = 50;

impl Volume {
    /// The share beyond its reserve that it can take before other volumes, because of its class.
    pub fn beyond_reserve(&self, disk: &Disk) -> Share {
        beyond_reserve(self.contract, self.priority, disk)
    }
}

impl Plan {
    /// The sum of the contracts on a disk: reserves, and what volumes of high priority can take
    /// beyond them. Streams are admitted separately ([`Plan::admission_headroom`]).
    ///
    /// # Panics
    /// Never: the plan's reserves fit.
    pub fn promised(&self, disk: DiskIndex) -> Admission {
        let there = &self.disks[disk.0];
        let own = self.volumes.iter().filter(|volume| volume.disk == disk);
        let mut promises: Vec<_> = own.map(|volume| (volume.contract, volume.priority)).collect();
        if let Some(pool) = self.pool.as_ref().filter(|pool| pool.disks.contains(&disk)) {
            let own = pool.own_contracts(there);
            promises.extend(own.map(|(_, contract)| (contract, Priority::Normal)));
            let of = |volume: &PoolVolume| (volume.contract(disk), volume.priority);
            promises.extend(pool.volumes.iter().map(of));
        }
        let mut admission = Admission::with_headroom(there.reserve_headroom);
        for (contract, priority) in promises {
            let beyond = beyond_reserve(contract, priority, there);
            for contract in [Contract { stream: None, ..contract }, Contract::reserve(beyond)] {
                admission.admit(contract).expect("the plan's reserves fit");
            }
        }
        admission
    }
}

impl Plan {
    /// The share of a disk's time that its streams reserve at `now`: a block's worst case in each
    /// of its periods.
    pub fn reserved_by_streams(&self, disk: DiskIndex, now: Instant) -> Share {
        let own = self.volumes.iter().filter(|volume| volume.disk == disk);
        let own = own.map(|volume| (volume.contract, volume.span()));
        let pooled = self.pool.iter().flat_map(|pool| &pool.volumes);
        let pooled = pooled.map(|volume| (volume.contract(disk), volume.span_on(disk)));
        let in_force = own.chain(pooled).filter(|(_, span)| span.contains(now));
        let streams = in_force.filter_map(|(contract, _)| contract.stream);
        streams
            .fold(Share::NONE, |sum, stream| sum.checked_add(stream.share()).unwrap_or(Share::ALL))
    }

    /// The share of a disk's time that no reserve, no stream at `now` and no server for best effort
    /// has: no larger reserve is admitted.
    pub fn unreserved(&self, disk: DiskIndex, now: Instant) -> Share {
        let server = self.disks[disk.0].best_effort.map_or(Share::NONE, |server| server.share);
        let beside = self.reserved_by_streams(disk, now).checked_add(server).unwrap_or(Share::ALL);
        self.promised(disk).available().saturating_sub(beside)
    }
}

pub(crate) fn beyond_reserve(contract: Contract, priority: Priority, disk: &Disk) -> Share {
    // First come, first served guarantees no shares.
    if priority == Priority::Normal || !disk.policy.keeps_contracts() {
        return Share::NONE;
    }
    contract.limit.saturating_sub(contract.reserve)
}
