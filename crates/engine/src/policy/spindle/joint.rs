//! Joint quanta: requests of several volumes that lie among each other are chosen from together.
//!
//! Volumes of a pool are interleaved on its disks. In a quantum of one of them the heads pass over
//! requests of the others, and each choice would be the better the more requests it is made among.
//! So in a quantum of a deep volume the next request may be one of another deep volume whose
//! commands lie where its own do ([`Region`](super::region::Region)), as long as no volume is ahead
//! of the others by more than [`LAG_MAX`]. Where volumes lie apart a choice among them would cost a
//! long seek after every few commands: there quanta stay exclusive.
//!
//! ```text
//! quantum of     A                       B                       A
//! commands of    A B B A A B A B B A A B B A B A A B B A B A B A ...
//! ahead          A by at most LAG_MAX, or B
//! ```
//!
//! **Which volume is ahead.** In a quantum on a reserve a member's *lag* is what its bucket holds
//! beyond its part, by reserve, of what the buckets of all members hold. A member goes unless its
//! lag is below −[`LAG_MAX`]. The buckets are those of exclusive quanta, so that a difference that
//! arose before, or in several quanta, is made up for. Out of the slack a member goes unless its
//! recent usage exceeds that of another one by more than [`LAG_MAX`]. Commands in the drive count
//! with their estimate in the buckets; usage counts what has completed.
//!
//! A command is debited from, and charged to, its own volume. It counts for the quantum in which it
//! goes, whose length is that of its holder: volumes that are no members wait no longer than
//! without.

use core::hint::cold_path;

use units::{DiskTime, Instant};

use super::quantum::Joint;
use super::volume::Depth;
use super::{Spindle, State};
use crate::VolumeId;
use crate::limits::JOINT_VOLUMES_MAX;
use crate::policy::interface::Candidates;

/// The most that a volume is ahead of what is its part of a joint quantum. Over two seconds its
/// share is off by twice of that: one and a half points, and a command.
const LAG_MAX: DiskTime = DiskTime::from_millis(15);
/// The number of volumes that are looked at for members.
const COMPARED: usize = 16;

impl Spindle {
    /// Of `volume`, which was picked, and the volumes that share its quantum, those whose requests
    /// may go next. None: its own.
    pub(super) fn joint_candidates(&mut self, volume: VolumeId, now: Instant) -> Candidates {
        self.joint = None;
        let entry = &self.volumes[volume.0 as usize];
        let depth = self.quantum_of(volume).map_or(entry.depth, |quantum| quantum.depth);
        if depth != Depth::Deep || !self.positions() || !self.guard.is_vacuous() {
            return Candidates::default();
        }
        let current = self.quantum_of(volume).map(|quantum| quantum.from_slack);
        let is_slack = current.unwrap_or_else(|| self.begins_slack(volume, now));
        let from_slack = !entry.account.has_reserve() || is_slack;
        let members = self.members(volume, from_slack);
        if members.count() < 2 {
            return Candidates::default();
        }
        let candidates = if from_slack {
            self.least_used_of(&members, now)
        } else {
            self.not_ahead_of(&members, now)
        };
        debug_assert!(candidates.count() > 0, "not all of them are ahead");
        self.joint = Some(Joint { holder: volume, candidates, from_slack });
        candidates
    }

    /// The decision of which `volume` was a candidate, if it was one of the last one.
    pub(super) fn take_joint(&mut self, volume: VolumeId) -> Option<Joint> {
        let joint = self.joint.take()?;
        cold_path();
        debug_assert!(self.guard.is_vacuous(), "none beside guarantees");
        Some(joint).filter(|joint| joint.candidates.iter().any(|candidate| candidate == volume))
    }

    /// Whether the requests of `one` and of `other`, both deep, lie among each other.
    pub(super) fn are_interleaved(&self, one: VolumeId, other: VolumeId) -> bool {
        let (one, other) = (&self.volumes[one.0 as usize], &self.volumes[other.0 as usize]);
        let is_deep = one.depth == Depth::Deep && other.depth == Depth::Deep;
        is_deep && one.region.is_interleaved(&other.region)
    }

    /// `holder`, and ready volumes that may share its quantum.
    fn members(&self, holder: VolumeId, from_slack: bool) -> Candidates {
        let mut members = Candidates::default();
        members.push(holder);
        let is_member = |volume: &VolumeId| {
            *volume != holder
                && self.are_interleaved(holder, *volume)
                && !self.volumes[volume.0 as usize].is_withheld
        };
        let others = JOINT_VOLUMES_MAX - 1;
        if from_slack {
            let early = self.orders.early_used(COMPARED);
            early.filter(is_member).take(others).for_each(|volume| members.push(volume));
        } else {
            let early = self.orders.deadlines.early(COMPARED).map(|(_, volume)| volume);
            early.filter(is_member).take(others).for_each(|volume| members.push(volume));
        }
        debug_assert!(members.count() <= JOINT_VOLUMES_MAX, "members are bounded");
        members
    }

    /// The members that are not ahead of what is their part of all that the members' buckets hold.
    fn not_ahead_of(&mut self, members: &Candidates, now: Instant) -> Candidates {
        let (mut levels, mut shares) = (0_i128, 0_i128);
        for volume in members.iter() {
            let account = &mut self.volume(volume).account;
            debug_assert!(account.has_reserve(), "members of a quantum on the reserve have one");
            levels += i128::from(account.reserve_level(now).as_nanos());
            shares += i128::from(account.paying_share().ppb());
        }
        let lag = |spindle: &mut Self, volume: VolumeId| {
            let account = &mut spindle.volume(volume).account;
            let part = levels * i128::from(account.paying_share().ppb()) / shares;
            i128::from(account.reserve_level(now).as_nanos()) - part
        };
        let least = -i128::from(LAG_MAX.as_nanos());
        let mut candidates = Candidates::default();
        for volume in members.iter() {
            if lag(self, volume) >= least {
                candidates.push(volume);
            }
        }
        candidates
    }

    /// The members whose recent usage is not beyond that of another one by more than the lag.
    fn least_used_of(&self, members: &Candidates, now: Instant) -> Candidates {
        let account = |volume: VolumeId| &self.volumes[volume.0 as usize].account;
        let is_ahead = |volume: VolumeId| {
            members
                .iter()
                .any(|other| self.orders.is_behind((account(other), LAG_MAX), account(volume), now))
        };
        let mut candidates = Candidates::default();
        for volume in members.iter().filter(|volume| !is_ahead(*volume)) {
            debug_assert_eq!(account(volume).state(), State::Ready, "a member has a head");
            candidates.push(volume);
        }
        candidates
    }
}

const _: () = assert!(JOINT_VOLUMES_MAX > 1 && JOINT_VOLUMES_MAX <= COMPARED);
