//! The places in a drive that serves commands in parallel, divided among the volumes that use it.
//!
//! Flash has no arm: a command costs its neighbours what they wait for the same die or channel. A
//! volume that keeps many requests would fill the drive's queue, and each request of a volume that
//! keeps few would wait for those. So a volume has at most its part of the *divided places* in the
//! drive: its reserve, and by weight what the volumes that use the drive have not reserved. It has
//! at least one.
//!
//! ```text
//! volume   reserve   outstanding   of 8 places          of 16
//! a        50 %      32            ▒▒▒▒                 ▒▒▒▒▒▒▒▒
//! b        50 %      1             ▒ + 3 that it leaves ▒ + 7
//! ```
//!
//! A volume is *light* while it keeps at most its part of the [least](Places::least) places, where
//! a request counts as commands of at most [`MERGED_MAX`], and its reserve pays for what it asks
//! for. Light volumes leave places unused; these are lent to others, by dividing more places than
//! the drive has, as long as the commands of light volumes take no more than one part in
//! [`SLOWER_MAX`] longer than beside few commands of others. How many that are is learnt: their
//! time is measured now and then, with few commands in the drive, for [`PROBE_MAX`] at most; all
//! are lent until it is known. No volume has fewer places than its reserve takes
//! ([`super::needed`]): how long commands take on a busy machine varies by more than that part, and
//! 32 reads of 4 KiB had 0.46 to 1.07 of half of samsung-870evo-1t beside one at a time.
//! Volumes with a stream or a bounded latency take no part: their commands are alone in the drive.
//!
//! Where no light volume uses the drive, nothing is divided. Between volumes that keep many
//! requests the order of their deadlines decides, as ever, and the drive takes no more than keeps
//! it busy ([`Charging::ByLength`](crate::Charging::ByLength)): with a part for each, 16 requests
//! of 128 KiB with a reserve of 80 % could not fill it, and had 69 % beside another 16.

use core::hint::cold_path;

use units::{DiskTime, Duration, Instant, Sectors, Share};

use super::activity::{Activity, SHARED_FOR};
use super::learned::{Lengths, Mean};
use super::needed::{FullDrive, Needed};
use crate::accounting::meter::weight_of;
use crate::limits::MERGED_MAX;
use crate::policy::indexed_heap::IndexedHeap;
use crate::{Contract, VolumeId};

/// The commands of light volumes take no more than one part in this number longer.
const SLOWER_MAX: i64 = 16;
/// At more than this many times that, the number of divided places is halved.
const FAR: i64 = 2;
/// The commands of light volumes after which the number of divided places is changed.
const WINDOW: u32 = 64;
/// The windows after which the time of light commands is measured again: a round.
const WINDOWS: u32 = 32;
/// The rounds after which what a full drive completes is measured again.
const ROUNDS: u32 = 16;
/// More places are divided again after at most as many windows. Each attempt that fails doubles
/// them: with one in each third window a writer of 128 KiB beside 16 such had 0.81 of what half of
/// the drive gives it.
const STAYS_MAX: u32 = 8;
/// The longest time in which others have few places, or all, so that something is measured.
const PROBE_MAX: Duration = Duration::from_millis(100);
/// The EWMA divisor of the time of light commands beside few others.
const UNDISTURBED_DIVISOR: i64 = 64;
/// The least places are the drive's divided by this.
const LEAST_DIVISOR: u32 = 4;
/// The most that are divided, in times of the drive's: a volume with a sixteenth may then fill it.
const MOST_FACTOR: u32 = 16;
/// One, as a ratio of times.
const ONE: i64 = 1 << 10;

/// What a volume keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Its requests, those in the drive included.
    pub(super) requests: u32,
    /// Its commands in the drive.
    pub(super) inside: u32,
    /// Whether its reserve pays for the next one, if it has a reserve.
    pub(super) is_paid: bool,
}

/// What is measured in a window, before the number of divided places is changed in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The time of light commands, while others have few in the drive.
    Undisturbed,
    /// What the drive completes while all places are lent.
    Full,
}

/// A volume's claim to places.
#[derive(Clone, Copy, Debug)]
struct Claim {
    reserve: Share,
    weight: u32,
    /// Whether it is counted: the volume uses the drive.
    uses: bool,
    lengths: Lengths,
    /// The time of its commands while others have few in the drive.
    undisturbed: Mean,
    /// The places that its reserve takes.
    needed: Needed,
}

/// The places of one drive.
#[derive(Debug)]
pub(super) struct Places {
    depth: u32,
    claims: Vec<Claim>,
    /// The volumes that use the drive, and the sums over them.
    users: u32,
    reserved: u64,
    weights: u64,
    /// Those of them that have no request, by when they stop to count.
    quiet: IndexedHeap<Instant>,
    /// The number of divided places while light volumes use the drive.
    divided: u32,
    /// The light volumes that had a request last.
    light: Activity,
    /// The commands of light volumes in this window, those whose undisturbed time is known, and the
    /// sum of the times of these relative to that.
    commands: u32,
    compared: u32,
    slower: i64,
    windows: u32,
    /// Whether more places were divided after the last window than before.
    tries: bool,
    /// The windows after which more places are divided again, and how many these were last.
    more_in: u32,
    stays_for: u32,
    /// When the first light request came in the window in which something is measured.
    probing_since: Option<Instant>,
    full: FullDrive,
}

impl Places {
    /// The places of a drive that takes `depth` commands.
    pub(super) fn new(depth: u32) -> Self {
        assert!(depth > 0, "a drive takes a command");
        Self {
            depth,
            claims: Vec::new(),
            users: 0,
            reserved: 0,
            weights: 0,
            quiet: IndexedHeap::new(),
            divided: depth * MOST_FACTOR,
            light: Activity::default(),
            commands: 0,
            compared: 0,
            slower: 0,
            windows: 0,
            tries: false,
            more_in: 0,
            stays_for: 0,
            probing_since: None,
            full: FullDrive::default(),
        }
    }

    /// `volume` has this contract from now on.
    pub(super) fn set_contract(&mut self, volume: VolumeId, contract: &Contract) {
        let index = volume.0 as usize;
        debug_assert!(index <= self.claims.len(), "volumes are numbered in order");
        let (reserve, weight) = (contract.reserve, contract.weight.as_u32());
        let (lengths, undisturbed, needed) = Default::default();
        let fresh = Claim { reserve, weight, uses: false, lengths, undisturbed, needed };
        if index == self.claims.len() {
            self.claims.push(fresh);
            return;
        }
        let uses = self.claims[index].uses;
        self.count(volume, false);
        let claim = &mut self.claims[index];
        (claim.reserve, claim.weight) = (reserve, weight);
        self.count(volume, uses);
    }

    /// Counts `volume` among those that use the drive, or does not.
    fn count(&mut self, volume: VolumeId, uses: bool) {
        let claim = &mut self.claims[volume.0 as usize];
        if core::mem::replace(&mut claim.uses, uses) == uses {
            return;
        }
        let (reserve, weight) = (u64::from(claim.reserve.ppb()), u64::from(claim.weight));
        self.users = if uses { self.users + 1 } else { self.users - 1 };
        if uses {
            (self.reserved, self.weights) = (self.reserved + reserve, self.weights + weight);
        } else {
            (self.reserved, self.weights) = (self.reserved - reserve, self.weights - weight);
        }
        debug_assert!(self.weights > 0 || self.reserved == 0, "each claim has a weight");
    }

    /// Whether several volumes use the drive.
    pub(super) fn are_shared(&self) -> bool {
        debug_assert!(self.users as usize <= self.claims.len(), "each is counted once");
        self.users > 1
    }

    /// `volume` has a request of this length, and keeps this many with it.
    pub(super) fn on_arrival(
        &mut self,
        volume: VolumeId,
        (kept, length): (Kept, Sectors),
        now: Instant,
    ) {
        debug_assert!(kept.requests > 0, "the request is one");
        self.quiet.remove(volume);
        self.count(volume, true);
        self.claims[volume.0 as usize].lengths.learn(length);
        if self.is_light(volume, kept) {
            self.light.note(volume, now);
            if self.due_probe().is_some() {
                self.probing_since.get_or_insert(now);
            }
        } else {
            self.light.forget(volume);
        }
    }

    /// `volume` has no request left.
    pub(super) fn on_idle(&mut self, volume: VolumeId, now: Instant) {
        if self.claims[volume.0 as usize].uses {
            self.quiet.set(volume, now + SHARED_FOR);
        }
        debug_assert!(self.quiet.len() <= self.claims.len(), "a volume is quiet once");
    }

    /// Stops to count volumes that have had no request for long.
    pub(super) fn expire(&mut self, now: Instant) {
        debug_assert!(self.quiet.len() <= self.claims.len(), "a volume is quiet once");
        while let Some((_, volume)) = self.quiet.first().filter(|(at, _)| *at <= now) {
            cold_path();
            self.quiet.remove(volume);
            self.count(volume, false);
        }
    }

    /// The part of `places` that is `volume`'s, rounded up; at least one.
    fn part(&self, volume: VolumeId, places: u32) -> u32 {
        const ALL: u64 = Share::ALL.ppb() as u64;
        let claim = &self.claims[volume.0 as usize];
        let (weight, weights) = (u64::from(claim.weight), self.weights.max(1));
        let unreserved = ALL.saturating_sub(self.reserved) * weight / weights;
        let share = (u64::from(claim.reserve.ppb()) + unreserved).min(ALL);
        let part = (share * u64::from(places)).div_ceil(ALL).max(1);
        debug_assert!(part <= u64::from(places.max(1)), "a part is at most the whole");
        u32::try_from(part).expect("at most all places")
    }

    /// The places that are divided when light volumes are to be disturbed least.
    fn least(&self) -> u32 {
        self.depth.div_ceil(LEAST_DIVISOR)
    }

    /// Whether a volume that keeps these requests uses no more than its part of the least places,
    /// and of its reserve.
    fn is_light(&self, volume: VolumeId, kept: Kept) -> bool {
        kept.is_paid && self.commands(volume, kept) <= u64::from(self.part(volume, self.least()))
    }

    /// The commands of a volume that keeps these requests.
    fn commands(&self, volume: VolumeId, kept: Kept) -> u64 {
        let mean = self.claims[volume.0 as usize].lengths.mean();
        let each = mean.0.div_ceil(MERGED_MAX.0).max(1);
        debug_assert!(each > 0, "a request is a command");
        u64::from(kept.requests) * each
    }

    /// Whether a light volume beside `volume` uses the drive.
    fn is_beside_light(&self, volume: VolumeId, now: Instant) -> bool {
        let at = self.light.of_others(volume);
        debug_assert!(at.is_none_or(|at| at <= now), "requests came in the past");
        at.is_some_and(|at| now.since(at) < SHARED_FOR)
    }

    /// What this window measures.
    fn due_probe(&self) -> Option<Probe> {
        debug_assert!(self.windows < WINDOWS * ROUNDS, "windows are counted from 0");
        match self.windows {
            1 => Some(Probe::Full),
            windows if windows % WINDOWS == 0 => Some(Probe::Undisturbed),
            _ => None,
        }
    }

    /// What is being measured.
    fn probe(&self, now: Instant) -> Option<Probe> {
        let since = self.probing_since?;
        debug_assert!(self.due_probe().is_some(), "a window that measures nothing has no start");
        self.due_probe().filter(|_| now < since + PROBE_MAX)
    }

    /// The most commands that `volume`, which keeps these requests, has in the drive now.
    pub(super) fn most(&self, volume: VolumeId, kept: Kept, now: Instant) -> u32 {
        if !self.is_beside_light(volume, now) {
            return self.depth;
        }
        match self.probe(now) {
            _ if self.is_light(volume, kept) => self.part(volume, self.depth),
            Some(Probe::Undisturbed) => self.part(volume, 1),
            Some(Probe::Full) => self.depth,
            None => self.lent(volume),
        }
    }

    /// The places of `volume`, which is not light, beside one that is.
    fn lent(&self, volume: VolumeId) -> u32 {
        let needed = self.claims[volume.0 as usize].needed.places();
        debug_assert!(needed <= self.depth, "a reserve takes no more places than there are");
        self.part(volume, self.divided).max(needed).min(self.depth)
    }

    /// A command of `volume`, which kept these requests, was in the drive for `time`.
    pub(super) fn on_completion(
        &mut self,
        volume: VolumeId,
        (kept, time): (Kept, Duration),
        now: Instant,
    ) {
        debug_assert!(kept.requests > 0, "it had a command in the drive");
        let probe = self.probe(now);
        if probe == Some(Probe::Full) {
            self.full.add(self.weight(volume), now);
        }
        if !self.is_light(volume, kept) {
            self.learn_needed(volume, (kept, probe), now);
            return;
        }
        self.light.note(volume, now);
        let undisturbed = &mut self.claims[volume.0 as usize].undisturbed;
        if probe == Some(Probe::Undisturbed) {
            undisturbed.learn::<UNDISTURBED_DIVISOR>(DiskTime::from(time));
        }
        let Some(usual) = undisturbed.time() else { return self.end_window() };
        let usual = usual.as_nanos().max(1);
        let ratio = DiskTime::from(time).as_nanos().saturating_mul(ONE) / usual;
        self.slower = self.slower.saturating_add(ratio);
        self.compared += 1;
        self.end_window();
    }

    /// The weight of a command of `volume`, in the mean.
    fn weight(&self, volume: VolumeId) -> u64 {
        let mean = self.claims[volume.0 as usize].lengths.mean();
        debug_assert!(self.depth > 0, "a drive takes a command");
        weight_of(mean.min(MERGED_MAX))
    }

    /// A command of `volume`, which is not light, completes: what its reserve takes follows while
    /// it keeps more requests than it has places.
    fn learn_needed(
        &mut self,
        volume: VolumeId,
        (kept, probe): (Kept, Option<Probe>),
        now: Instant,
    ) {
        debug_assert!(kept.requests > 0, "it had a command in the drive");
        let is_held = probe.is_none()
            && self.is_beside_light(volume, now)
            && self.commands(volume, kept) > u64::from(self.lent(volume));
        let Some(full) = self.full.known().filter(|_| is_held) else {
            return self.claims[volume.0 as usize].needed.interrupt();
        };
        let (weight, most) = (self.weight(volume), self.part(volume, self.depth));
        let claim = &mut self.claims[volume.0 as usize];
        claim.needed.add(weight, (kept.inside, most), (claim.reserve, full), now);
    }

    /// A command of a light volume has completed: after some of them the number of divided places
    /// follows from their times.
    fn end_window(&mut self) {
        self.commands += 1;
        if self.commands < WINDOW {
            return;
        }
        let is_probe = self.probing_since.take().is_some();
        let mean = self.slower.checked_div(i64::from(self.compared)).unwrap_or(ONE);
        (self.commands, self.compared, self.slower) = (0, 0, 0);
        self.windows = (self.windows + 1) % (WINDOWS * ROUNDS);
        if self.due_probe() == Some(Probe::Full) {
            self.full.restart();
        }
        if is_probe {
            return;
        }
        let slower = (mean - ONE).max(0) * SLOWER_MAX / ONE;
        let step = (self.divided / if slower > FAR { 2 } else { 4 }).max(1);
        let tried = core::mem::take(&mut self.tries);
        if slower >= 1 {
            self.stays_for = if tried { (2 * self.stays_for).clamp(1, STAYS_MAX) } else { 0 };
            self.more_in = self.stays_for;
            self.divided = (self.divided - step).max(1);
        } else if self.more_in > 0 {
            self.more_in -= 1;
        } else {
            self.tries = true;
            self.divided = (self.divided + step).min(self.depth * MOST_FACTOR);
        }
    }

    /// Panics if the sums are not those of the volumes that use the drive.
    pub(super) fn invariants(&self) {
        let used = || self.claims.iter().filter(|claim| claim.uses);
        let reserved: u64 = used().map(|claim| u64::from(claim.reserve.ppb())).sum();
        let weights: u64 = used().map(|claim| u64::from(claim.weight)).sum();
        assert_eq!((reserved, weights), (self.reserved, self.weights), "claims are counted once");
        assert_eq!(used().count(), self.users as usize, "so are volumes");
        assert!(self.divided > 0, "a place is divided");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::COMMAND_MAX;

    const MANY: Kept = Kept { requests: 100, inside: 1, is_paid: true };
    const ONE_KEPT: Kept = Kept { requests: 1, ..MANY };
    const LENGTH: Sectors = Sectors(8);

    fn places(depth: u32, reserves: &[u32]) -> Places {
        let mut places = Places::new(depth);
        for (volume, percent) in (0..).map(VolumeId).zip(reserves) {
            places.set_contract(volume, &Contract::reserve(Share::from_percent(*percent)));
        }
        places
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn places_are_divided_by_share_among_the_volumes_that_use_the_drive() {
        let mut places = places(32, &[50, 20, 0]);
        let part = |places: &Places, volume| places.part(VolumeId(volume), 32);
        places.on_arrival(VolumeId(0), (MANY, LENGTH), at(0));
        assert_eq!(part(&places, 0), 32);
        assert!(!places.are_shared());
        places.on_arrival(VolumeId(1), (MANY, LENGTH), at(0));
        assert!(places.are_shared());
        // A half and a fifth, and a half each of what is not reserved.
        assert_eq!([part(&places, 0), part(&places, 1)], [21, 12]);
        places.on_arrival(VolumeId(2), (MANY, LENGTH), at(0));
        assert_eq!([0, 1, 2].map(|volume| part(&places, volume)), [20, 10, 4]);
        places.invariants();
        places.on_idle(VolumeId(0), at(1));
        places.expire(at(100));
        assert_eq!(part(&places, 1), 10, "a pause gives no place away");
        places.expire(at(101));
        assert_eq!(part(&places, 1), 20);
        places.invariants();
    }

    /// The places of a volume with many requests beside one whose commands take `time` with as many
    /// commands in the drive, after many of them.
    fn lent(time: impl Fn(u32) -> Duration) -> u32 {
        let mut places = places(32, &[50, 50]);
        let (many, few) = (VolumeId(0), VolumeId(1));
        places.on_arrival(many, (MANY, LENGTH), at(0));
        for millis in 0..4_000 {
            places.on_arrival(few, (ONE_KEPT, LENGTH), at(millis));
            let inside = places.most(many, MANY, at(millis));
            places.on_completion(few, (ONE_KEPT, time(inside)), at(millis));
        }
        places.most(many, MANY, at(4_000))
    }

    /// The places of a volume with many requests beside one that keeps these.
    fn beside(kept: Kept, length: Sectors) -> u32 {
        let mut places = places(32, &[50, 50]);
        places.on_arrival(VolumeId(0), (MANY, LENGTH), at(0));
        places.on_arrival(VolumeId(1), (kept, length), at(0));
        places.most(VolumeId(0), MANY, at(0))
    }

    #[test]
    fn a_volume_is_light_with_few_short_requests_that_its_reserve_pays_for() {
        let several = Kept { requests: 4, ..MANY };
        // While the time of light commands is measured, one place is divided.
        assert_eq!(beside(several, LENGTH), 1);
        assert_eq!(beside(several, MERGED_MAX), 1);
        assert_eq!(beside(several, COMMAND_MAX), 32);
        assert_eq!(beside(ONE_KEPT, COMMAND_MAX), 32);
        assert_eq!(beside(Kept { requests: 5, ..MANY }, LENGTH), 32);
        assert_eq!(beside(Kept { is_paid: false, ..ONE_KEPT }, LENGTH), 32);
    }

    #[test]
    fn a_volume_whose_reserve_is_spent_is_light_no_more() {
        let mut places = places(32, &[50, 50, 0]);
        let (many, few, other) = (VolumeId(0), VolumeId(1), VolumeId(2));
        places.on_arrival(many, (MANY, LENGTH), at(0));
        places.on_arrival(few, (ONE_KEPT, LENGTH), at(0));
        places.on_arrival(other, (ONE_KEPT, LENGTH), at(0));
        assert_eq!(places.most(many, MANY, at(1)), 1);
        let unpaid = Kept { is_paid: false, ..ONE_KEPT };
        places.on_arrival(other, (unpaid, LENGTH), at(1));
        assert_eq!(places.most(many, MANY, at(1)), 1, "one of two");
        places.on_arrival(few, (unpaid, LENGTH), at(1));
        assert_eq!(places.most(many, MANY, at(1)), 32);
    }

    #[test]
    fn places_are_lent_as_long_as_light_volumes_are_not_slowed_down() {
        let micros = Duration::from_micros;
        assert_eq!(lent(|_| micros(100)), 32);
        // A command of the other volume costs a hundredth: six of them a sixteenth.
        let slowed = lent(|inside| micros(100) + micros(1) * u64::from(inside));
        assert!((4..=8).contains(&slowed), "{slowed}");
        // The last window may have tried a second one.
        assert!(lent(|inside| micros(100) * u64::from(inside)) <= 2);
    }

    /// The commands of the one volume in the drive, in the mean of the last second, beside another
    /// that needs four of 32 places for its half, where the time of light commands varies for other
    /// reasons than these.
    #[test]
    fn a_share_is_kept_where_light_commands_take_longer_for_other_reasons() {
        let mut places = places(32, &[50, 50]);
        let (many, few) = (VolumeId(0), VolumeId(1));
        places.on_arrival(many, (MANY, LENGTH), at(0));
        let mut done = 0;
        for millis in 0..4_000 {
            let inside = places.most(many, MANY, at(millis));
            let kept = Kept { inside, ..MANY };
            for _ in 0..(12 * inside).min(94) {
                places.on_completion(many, (kept, Duration::from_micros(100)), at(millis));
                done += u32::from(millis >= 3_000);
            }
            let is_probe = places.probe(at(millis)) == Some(Probe::Undisturbed);
            let time = Duration::from_micros(if is_probe { 80 } else { 100 });
            for _ in 0..8 {
                places.on_arrival(few, (ONE_KEPT, LENGTH), at(millis));
                places.on_completion(few, (ONE_KEPT, time), at(millis));
            }
        }
        assert!(done >= 44_000, "{done} of 47,000");
    }
}
