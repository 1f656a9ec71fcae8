//! The rounds in which deep volumes alternate.
//!
//! A share is looked at over some seconds. A quantum is a large part of that: of two seconds 40 %
//! of hgst-7k8 in quanta of 333 ms are two or three of them, 33 or 50 %. So the quanta of all deep
//! volumes come in rounds of one length, of which two seconds hold a whole number, and in the same
//! order:
//!
//! ```text
//!            ├────────── round: 666 ms ──────────┤
//!  40 %      ▓▓▓▓▓▓▓▓▓▓▓▓▓▓                       ▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//!  30 %                    ▒▒▒▒▒▒▒▒▒▒▒                          ▒▒▒▒▒▒▒▒▒▒▒
//!  20 %                               ░░░░░░░                              ░░░░░░░
//!  slack                                     ····                                 ····
//! ```
//!
//! - A quantum on a reserve is what the reserve earns in a round. If that is less than
//!   [`Spindle::least_deep`], the volume has one in several rounds.
//! - Slack is not paid by a reserve: a volume that had some is due when it would be without. A
//!   quantum out of the slack ends when a deep volume is due, its own included.
//! - What is left of a round is not worth the switches of another quantum if it is short: the next
//!   volume is served a little before it is due, and has as much less to wait for in a later round.
//! - Volumes that are due at about the same time go in the order in which they went before.
//! - A quantum that begins early is shorter by what its reserve has not earned yet: what another
//!   volume does not use is not all the next one's.
//! - What no client waits for ([`Contract::is_background`](crate::Contract::is_background)) is not
//!   served at once but in its turn, however long it has been due, and has one turn in a round. It
//!   may have little more than a round's worth together: what a rebuild has not used is not taken
//!   from its neighbours later. Its place in the round is behind the volume that it followed. A
//!   relocation waits for the disk that it writes: one that was not ready by then does not put off
//!   the next volume, but has its place in the next round.
//!
//! Where emptying the drive's queue costs much ([`super::emptying`]), or the quanta of a volume
//! that stays deep would be short, a round is as long as the period: two seconds hold two. While
//! something in the background has turns, a round is a little shorter.

use units::{DiskTime, Duration, Instant};

use super::quantum::{After, Quantum, ROUND};
use super::volume::{Depth, Volume};
use super::{COMPARED, Spindle, State};
use crate::accounting::bucket::SignedInstant;
use crate::{Contract, VolumeId};

/// The time in which a volume with a small reserve has one quantum.
const SEVERAL_ROUNDS: DiskTime = DiskTime::from_millis(2_000);
/// Quanta shorter than this cost much positioning: those of 20 % of deskstar-34gxp, of 133 ms, had
/// 0.941 of what it gets alone beside 80 %; 0.959 with 200 ms.
const SHORT_QUANTUM: DiskTime = DiskTime::from_millis(150);
/// What a volume in the background may have together is what its reserve earns in this time: more
/// than in a round, so that one that was late for its turn has lost nothing. With a period's worth
/// and more, what a rebuild had not used gave it two quanta in a round: 40 % beside it lacked 3
/// points of two seconds, and 1.8 so.
pub(super) const BACKGROUND_CREDIT: DiskTime = DiskTime::from_nanos(ROUND.as_nanos() / 4 * 5);
/// A round while something in the background has turns. Its turns and the commits that it causes
/// take a little more or less than their part: of rounds of which three are two seconds, those with
/// more end after the window. What is left of a window beside whole rounds is a part of a quantum,
/// and more of ten seconds than of two. In the worst of 150 runs half of deskstar-34gxp beside a
/// relocation lacked 1.95 points of two seconds and had 0.92 beyond its half of ten with 660 ms;
/// 2.05 (the only one above 2) and 0.76 now.
const ROUND_BESIDE_BACKGROUND: DiskTime = DiskTime::from_millis(662);
/// Rounds are as long as beside the background for this number of periods after its last turn: they
/// change their length twice in a rebuild, and not with each of its pauses.
const BACKGROUND_PERIODS: u64 = 10;
/// Volumes that are due within this part of a period from now are so at about the same time as the
/// first, and go in their order; unless that one has been due for longer than the other part. One
/// that goes early leaves a window that begins behind its quantum short: with a tenth of a period
/// 40 % beside a rebuild lacked 3.2 points of two seconds in one of 24 runs, and 1.4 in the mean;
/// now 2.3 and 1.2.
const SOON_DIVISOR: u64 = 20;
const TIE_DIVISOR: u64 = 2;
/// A volume is due by then if it is within this part of the least quantum: less of a round is not
/// worth the switches of another quantum.
const SHORTEST_DIVISOR: i64 = 8;

impl Spindle {
    /// The least length of a deep volume's quantum on its reserve; zero where positioning costs
    /// nothing.
    pub(super) fn least_deep(&self) -> DiskTime {
        debug_assert!(self.batch_max >= DiskTime::ZERO, "a batch lasts no less than nothing");
        DiskTime::from_nanos(self.batch_max.as_nanos() / 4)
    }

    /// Whether `volume` has rounds, so that its reserve does not pay for slack.
    pub(super) fn has_rounds(&self, volume: VolumeId) -> bool {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.positions() && !self.volumes[volume.0 as usize].is_shallow()
    }

    /// The length of a quantum of a deep `volume` on its reserve.
    pub(super) fn deep_length(&self, volume: VolumeId) -> DiskTime {
        let entry = &self.volumes[volume.0 as usize];
        debug_assert!(entry.account.has_reserve(), "a quantum on a reserve is paid");
        let period = DiskTime::from(self.period);
        let round = if self.has_deep_rival(volume) { self.rounds.length } else { period };
        let round = round.min(period);
        let least = self.least_deep();
        let mut length = entry.account.reserved_of(round);
        if length < least {
            let several = (period + period).min(SEVERAL_ROUNDS).max(round);
            length = entry.account.reserved_of(several).max(least);
        }
        debug_assert!(length >= least, "a quantum is worth its switches: {length}");
        length - entry.overrun
    }

    /// `quantum` begins: how long rounds are from now on, and whether it is early. A volume that is
    /// deep for a few quanta alone, as a rebuild with a limit is, does not change rounds: those of
    /// both lengths in turns gave 40 % beside it 28 % of two seconds. Nor does what is in the
    /// background, which has its turns irregularly.
    pub(super) fn note_round(&mut self, quantum: &Quantum, now: Instant) {
        let volume = quantum.volume;
        let entry = &mut self.volumes[volume.0 as usize];
        let is_steady = entry.note_depth(quantum.depth);
        entry.begin_filling();
        if quantum.depth == Depth::Shallow {
            return;
        }
        let period = DiskTime::from(self.period);
        let entry = &self.volumes[volume.0 as usize];
        let is_short =
            entry.account.has_reserve() && entry.account.reserved_of(ROUND) < SHORT_QUANTUM;
        let empties_long = self.empties_long_in(volume, now < self.rounds.long_until);
        let is_long = is_short && is_steady && !entry.is_background || empties_long;
        if is_long && self.has_deep_rival(volume) {
            self.rounds.long_until = now + self.period + self.period;
        }
        if self.is_background(volume) {
            self.rounds.background_until = now + self.period * BACKGROUND_PERIODS;
        }
        self.rounds.length = if now < self.rounds.long_until {
            period
        } else if now < self.rounds.background_until {
            ROUND_BESIDE_BACKGROUND
        } else {
            ROUND
        };
        debug_assert!(self.rounds.length > DiskTime::ZERO, "a round takes time");
        if !quantum.from_slack && self.has_rounds(volume) {
            self.note_early(volume, now);
            self.pass_places(volume);
        }
    }

    /// A quantum of `volume` on its reserve begins: what is in the background and is not ready
    /// there has lost its place before it in this round, as if it had been served.
    fn pass_places(&mut self, volume: VolumeId) {
        let next = self.round_robin.last(volume);
        debug_assert!(self.positions(), "rounds are of disks whose heads move");
        let is_ready = |volume: &Volume| volume.account.state() == State::Ready;
        for index in 0..self.rounds.background.len() {
            let other = self.rounds.background[index];
            if self.round_robin.last(other) < next
                && (!is_ready(&self.volumes[other.0 as usize]) || self.came_late(other))
            {
                self.round_robin.started(other);
            }
        }
    }

    /// `volume` has this contract from now on.
    pub(super) fn note_contract(&mut self, volume: VolumeId, contract: &Contract) {
        self.places.set_contract(volume, contract);
        let listed = &mut self.rounds.background;
        match listed.binary_search(&volume) {
            Err(at) if contract.is_background => listed.insert(at, volume),
            Ok(at) if !contract.is_background => drop(listed.remove(at)),
            Ok(_) | Err(_) => {}
        }
        debug_assert!(self.rounds.background.is_sorted(), "they are listed by their numbers");
    }

    /// Whether `volume`, in the background, was not ready when its place in the round began.
    fn came_late(&self, volume: VolumeId) -> bool {
        debug_assert!(self.is_background(volume), "others are served whenever they are due");
        self.volumes[volume.0 as usize].waiting_since > self.rounds.turn_ended
    }

    /// Whether a turn of `volume` in the background would put off one that clients wait for, which
    /// is due within `ahead`: it came late, and most of its turn would be in that one's time.
    fn puts_off(&self, volume: VolumeId, ahead: DiskTime) -> bool {
        debug_assert!(self.has_rounds(volume), "deep volumes have turns");
        self.is_background(volume)
            && self.came_late(volume)
            && ahead + ahead < self.deep_length(volume)
    }

    /// A quantum of a deep `volume` on its reserve begins: it is shorter by what the reserve has
    /// not earned yet. Without that the first of several had all that another did not use, until it
    /// was far ahead: then another went twice before it, and it lacked 16 % of two seconds.
    fn note_early(&mut self, volume: VolumeId, now: Instant) {
        let own = self.early_deep().find(|(_, other)| *other == volume);
        let Some(early) = own.map(|(moment, _)| Self::ahead(moment, now)) else { return };
        if early > DiskTime::ZERO {
            let entry = &mut self.volumes[volume.0 as usize];
            let unearned = entry.account.reserved_of(early);
            debug_assert!(unearned <= early, "a share is at most the whole");
            entry.overrun += unearned;
        }
    }

    /// A turn of a deep volume has ended. The next one of a volume in the background begins when
    /// most of a round has passed since it began. One that had ended early, as there was nothing
    /// left to do, was followed by another one, of what was not used, in the middle of a round.
    pub(super) fn note_turn(&mut self, quantum: Quantum, now: Instant) {
        if quantum.from_slack || !self.positions() || !self.has_deep_rival(quantum.volume) {
            return;
        }
        if !self.is_background(quantum.volume) {
            self.rounds.turn_ended = now;
            return;
        }
        let least = self.rounds.length.as_nanos() / 4 * 3 - quantum.spent.as_nanos();
        debug_assert!(quantum.spent >= DiskTime::ZERO, "a quantum takes time");
        let least = Duration::from_nanos(least.max(0).unsigned_abs());
        self.volumes[quantum.volume.0 as usize].next_turn = now + least;
    }

    /// The time by which `moment` is ahead of `now`; negative if it has passed.
    fn ahead(moment: SignedInstant, now: Instant) -> DiskTime {
        DiskTime::from_nanos(moment.0.saturating_sub(SignedInstant::at(now).0))
    }

    /// The deep volumes with early deadlines.
    fn early_deep(&self) -> impl Iterator<Item = (SignedInstant, VolumeId)> + '_ {
        let is_deep = |volume: VolumeId| !self.volumes[volume.0 as usize].is_shallow();
        debug_assert!(self.shallow.len() <= self.orders.deadlines.len(), "shallow ones are listed");
        self.orders.deadlines.early(COMPARED).filter(move |(_, volume)| is_deep(*volume))
    }

    /// The deep volume that goes next on its reserve, if one is due, or is before a quantum out of
    /// the slack would be worth its switches: of those that are due at about the same time, the one
    /// that was served least recently.
    ///
    /// A volume in the background is one of them once it is due, however long it has been so, and
    /// no other goes early for the order because it is: a rebuild that was due again soon after its
    /// turn had its neighbours go 42 ms early in each round, and 40 % lacked 3 points.
    /// Where it came late for its place and gives way, what it would put off goes at once.
    pub(super) fn next_deep(&self, now: Instant) -> Option<VolumeId> {
        let part = |divisor: u64| DiskTime::from(self.period / divisor);
        let shortest = DiskTime::from_nanos(self.least_deep().as_nanos() / SHORTEST_DIVISOR);
        let earliest = self.early_deep().map(|(moment, _)| moment).min()?;
        if Self::ahead(earliest, now) > shortest {
            return None;
        }
        let early = || self.early_deep().map(|(moment, volume)| (Self::ahead(moment, now), volume));
        let waited_for = early().filter(|(_, volume)| !self.is_background(*volume));
        let first = waited_for.map(|(ahead, _)| ahead).min();
        let gives_way = |volume: VolumeId| first.is_some_and(|first| self.puts_off(volume, first));
        let is_put_off = early().any(|(ahead, volume)| ahead <= shortest && gives_way(volume));
        let first = first.filter(|first| is_put_off || *first <= shortest);
        let soon = part(SOON_DIVISOR).max(shortest);
        debug_assert!(soon >= shortest, "what is due at once is due soon");
        let latest = first.map(|first| soon.max(first).min(first + part(TIE_DIVISOR)));
        let has_turn = |(ahead, volume): &(DiskTime, VolumeId)| {
            let latest = if self.is_background(*volume) { Some(shortest) } else { latest };
            latest.is_some_and(|latest| *ahead <= latest) && !gives_way(*volume)
        };
        let ties = early().filter(has_turn).map(|(_, volume)| volume);
        let next = ties.min_by_key(|volume| self.round_robin.last(*volume));
        debug_assert!(next.is_some(), "the earliest is one of them");
        next
    }

    /// Whether no client waits for `volume`'s requests.
    fn is_background(&self, volume: VolumeId) -> bool {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.volumes[volume.0 as usize].is_background
    }

    /// Of the deep volumes that have been due since `by`, the one that has been for longest; but
    /// none in the background.
    #[cold]
    #[inline(never)]
    pub(super) fn overdue_waited_for(&self, by: SignedInstant) -> Option<VolumeId> {
        let early = self.early_deep();
        let overdue = early.filter(|(due, volume)| *due <= by && !self.is_background(*volume));
        let first = overdue.min().map(|(_, volume)| volume);
        debug_assert!(first.is_none_or(|first| !self.is_background(first)), "one waits for it");
        first
    }

    /// Whether a quantum of `volume` that begins now is slack: no volume is due, or soon enough.
    pub(super) fn begins_slack(&self, volume: VolumeId, now: Instant) -> bool {
        debug_assert!(self.volumes[volume.0 as usize].head.is_some(), "a quantum has a request");
        let is_deep = self.has_rounds(volume);
        self.orders.due(now).is_none() && !(is_deep && self.next_deep(now) == Some(volume))
    }

    /// The time until a deep volume is due for which `quantum` ends, beside what its volume has in
    /// the drive: of those with early deadlines. Slack is what no volume is due for.
    pub(super) fn until_other(&self, quantum: Quantum, now: Instant) -> Option<DiskTime> {
        let is_slack = quantum.from_slack && quantum.depth == Depth::Deep && self.positions();
        if quantum.after == After::Other && !is_slack {
            return None;
        }
        debug_assert_eq!(quantum.depth, Depth::Deep, "shallow quanta have a length of their own");
        let is_other = |volume: VolumeId| is_slack || volume != quantum.volume;
        let others = self.early_deep().filter(|(_, volume)| is_other(*volume));
        let deadline = others.map(|(deadline, _)| deadline).min()?;
        let entry = &self.volumes[quantum.volume.0 as usize];
        let drain = entry.drains.drain(entry.running, self.estimates.random);
        debug_assert!(drain >= DiskTime::ZERO, "a drain takes time");
        Some(Self::ahead(deadline, now) - drain)
    }
}

const _: () = assert!(ROUND_BESIDE_BACKGROUND.as_nanos() < ROUND.as_nanos());
const _: () = assert!(SOON_DIVISOR > TIE_DIVISOR && SEVERAL_ROUNDS.as_nanos() > ROUND.as_nanos());
