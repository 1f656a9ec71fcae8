//! The selector under the guard: decisions on a disk that has streams.

use core::hint::cold_path;

use units::{DiskTime, Instant, Operation};

use super::quantum::Switch;
use super::{Spindle, State};
use crate::policy::interface::{Dispatch, DispatchRecord, GuardedAs, Pick};
use crate::stream::Granularity;
use crate::{Contract, VolumeId};

impl Spindle {
    /// Gives `volume` the promises of its contract in place of its previous ones.
    pub(super) fn replace_promises(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let entry = &self.volumes[volume.0 as usize];
        let queued = (entry.queued, entry.head.map(|head| self.worst.of(&head)));
        self.guard.replace(volume, contract, queued, now);
        self.update_withheld(volume, now);
        debug_assert_eq!(self.guard.has_stream(volume), contract.stream.is_some(), "as agreed");
    }

    /// Promised requests, and all beside them, are served at `granularity` from now on, if none is
    /// real time.
    pub(super) fn change_promised(&mut self, granularity: Granularity, now: Instant) -> bool {
        assert_eq!(self.in_drive, 0, "the drive is idle");
        while let Some(volume) = self.guard.next_released(now) {
            self.update_withheld(volume, now);
        }
        self.guard.change_granularity(granularity)
    }

    /// A request arrives while the disk has promises.
    pub(super) fn on_promised_arrival(
        &mut self,
        volume: VolumeId,
        operation: &Operation,
        now: Instant,
    ) {
        self.guard.note_activity(volume, now);
        if !self.guard.has_promise(volume) {
            return;
        }
        self.guard.on_arrival(volume, operation, now);
        self.update_head(volume, now);
        debug_assert!(self.volume(volume).head.is_some(), "a queued request gives a head");
    }

    /// Informs the guard of the head of a volume with a promise.
    pub(super) fn update_head(&mut self, volume: VolumeId, now: Instant) {
        debug_assert!(self.guard.has_promise(volume), "the volume has a promise");
        self.guard.set_head(volume, self.head_cost(volume), now);
        self.update_withheld(volume, now);
    }

    /// The worst case of `volume`'s next command.
    fn head_cost(&self, volume: VolumeId) -> Option<DiskTime> {
        let head = self.volumes[volume.0 as usize].head?;
        let operation = self.guard.gathered(volume).unwrap_or(head);
        // Another request, of the same kind and no longer, may go in its place.
        let worst = if self.reorders && !self.guard.has_promise(volume) {
            self.worst.anywhere(&operation)
        } else {
            self.worst.of(&operation)
        };
        debug_assert!(worst >= DiskTime::ZERO, "a worst case is not negative: {worst}");
        Some(worst)
    }

    /// Takes `volume`'s head from the selector if it is withheld, or gives it back.
    fn update_withheld(&mut self, volume: VolumeId, now: Instant) {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.withhold(volume, self.guard.is_withheld(volume), now);
    }

    fn withhold(&mut self, volume: VolumeId, is_withheld: bool, now: Instant) {
        let entry = self.volume(volume);
        if core::mem::replace(&mut entry.is_withheld, is_withheld) == is_withheld {
            return;
        }
        if is_withheld {
            entry.account.set_empty();
        } else if entry.head.is_some() {
            entry.account.set_ready();
        }
        debug_assert!(!is_withheld || entry.head.is_some(), "what is withheld is queued");
        self.place(volume, now);
    }

    /// Notes what is released at `now`, and what may be activated, if the drive is idle.
    fn update_guard(&mut self, now: Instant) {
        while let Some(volume) = self.guard.next_released(now) {
            self.update_withheld(volume, now);
        }
        if self.in_drive == 0 {
            for volume in self.guard.on_idle(now) {
                self.update_withheld(volume, now);
            }
        }
        debug_assert!(self.guard.next_change().is_none_or(|at| at > now), "what is due is noted");
    }

    /// Whether the head of `volume` may go before the real-time blocks, beside what is in the
    /// drive.
    fn permits(&mut self, volume: VolumeId, now: Instant) -> bool {
        let entry = &self.volumes[volume.0 as usize];
        debug_assert_eq!(entry.account.state(), State::Ready, "a ready volume has a head");
        let ready = self.orders.ready() + entry.queued.max(1) as usize - 1;
        let worst = self.head_cost(volume).expect("a ready volume has a head");
        if self.in_drive == 0 {
            return self.guard.permits(worst, ready, now);
        }
        // Commands that went before there was a promise are unknown to the guard.
        let is_known = self.guard.in_drive() == self.in_drive;
        is_known && !self.guard.is_exclusive(volume) && self.guard.permits_beside(worst, now)
    }

    /// Whether `volume` is ready, and may go before the real-time blocks.
    pub(super) fn is_permitted(&mut self, volume: VolumeId, now: Instant) -> bool {
        debug_assert!(!self.guard.is_vacuous(), "there is something to guard");
        self.update_guard(now);
        self.volume(volume).account.state() == State::Ready && self.permits(volume, now)
    }

    /// The volume that goes next: the selector's, if its command leaves enough slack; else the one
    /// whose block is due first.
    pub(super) fn guarded_pick(&mut self, now: Instant) -> Pick {
        self.update_guard(now);
        self.guard.pick(None);
        let running = self.in_drive as usize;
        let selected = self.select(running, now);
        if running > 0 {
            // A real-time block is alone in the drive.
            return match selected {
                Pick::Volume(volume) if !self.permits(volume, now) => Pick::Nothing,
                _ => selected,
            };
        }
        let real = self.guard.first_real();
        let change = self.guard.next_change();
        debug_assert!(change.is_none_or(|at| at > now), "what is due is noted");
        match selected {
            Pick::Volume(volume) if self.permits(volume, now) => selected,
            // The slack grows when a block is released or served.
            Pick::Volume(_) | Pick::Nothing => match real {
                Some(volume) => self.pick_real(volume, now),
                None => change.map_or(Pick::Nothing, Pick::Wait),
            },
            Pick::Wait(until) => {
                let lingers = self.quantum.is_some_and(|quantum| quantum.lingering);
                if let Some(volume) = real
                    && !(lingers && self.guard.permits_idling(until.since(now), now))
                {
                    return self.pick_real(volume, now);
                }
                Pick::Wait(change.map_or(until, |change| change.min(until)))
            }
        }
    }

    /// Picks `volume`'s head as a real-time block.
    fn pick_real(&mut self, volume: VolumeId, now: Instant) -> Pick {
        self.withhold(volume, true, now);
        self.guard.pick(Some(volume));
        debug_assert_eq!(self.volume(volume).account.state(), State::Empty, "not the selector's");
        Pick::Volume(volume)
    }

    /// A head goes to the drive while the disk has streams.
    pub(super) fn guarded_dispatch(
        &mut self,
        dispatch: Dispatch<'_>,
        now: Instant,
    ) -> DispatchRecord {
        let (volume, worst) = (dispatch.volume, self.worst.of(dispatch.command));
        self.guard.note_activity(volume, now);
        let command = (volume, dispatch.command);
        let guarded = self.guard.on_dispatch(command, (worst, dispatch.ended), now);
        let record = match guarded {
            GuardedAs::Alone { is_real: true } => self.dispatch_real(&dispatch, worst),
            _ => self.dispatch_displaced(dispatch, now),
        };
        if self.guard.has_promise(volume) {
            self.update_head(volume, now);
        }
        debug_assert!(record.estimate >= DiskTime::ZERO, "an estimate is not negative");
        DispatchRecord { guarded, ..record }
    }

    /// Informs the guard of a completion.
    pub(super) fn guarded_completion(
        &mut self,
        volume: VolumeId,
        (guarded, took): (GuardedAs, DiskTime),
        now: Instant,
    ) {
        match guarded {
            GuardedAs::Nothing => {}
            GuardedAs::Slack { worst } => {
                cold_path();
                self.guard.on_completion_beside(worst, now);
            }
            GuardedAs::Alone { .. } => {
                cold_path();
                self.guard.on_completion(volume, took, &self.worst, now);
            }
        }
        debug_assert!(self.guard.in_drive() <= self.in_drive, "what is known is in the drive");
        if self.guard.has_promise(volume) {
            self.update_head(volume, now);
        }
    }

    /// A command that the selector chose. All volumes share its return to where its volume was
    /// before real-time blocks were served.
    fn dispatch_displaced(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let to = dispatch.volume;
        let on_run = self.volumes[to.0 as usize].sequential;
        let record = self.dispatch_selected(dispatch, now);
        let displaced = core::mem::take(&mut self.displaced);
        if displaced && self.switch.is_none() && self.positions() {
            let switch = Switch { to, arrival: None, departure: None, shared: true, on_run };
            self.switch = Some(switch);
        }
        debug_assert!(!self.displaced, "a return is made once");
        record
    }

    /// A real-time command: it is charged to its volume, and to no bucket.
    fn dispatch_real(&mut self, dispatch: &Dispatch<'_>, worst: DiskTime) -> DispatchRecord {
        if let Some(quantum) = &mut self.quantum {
            quantum.lingering = false;
        }
        let entry = self.volume(dispatch.volume);
        debug_assert_eq!(entry.account.state(), State::Empty, "the selector does not serve it");
        entry.enter_drive();
        entry.queued -= dispatch.ended;
        entry.note_command(dispatch.command, dispatch.next);
        entry.head = dispatch.next.copied();
        let end = entry.last_end;
        self.last_end = end.or(self.last_end);
        self.distances = None;
        self.displaced = true;
        DispatchRecord::new(worst, false)
    }

    /// A real-time command had the service time `took`. Returns what its volume is charged.
    pub(super) fn complete_real(
        &mut self,
        volume: VolumeId,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        let actual = self.ledger.charge(took);
        let positions = self.positions();
        let entry = &mut self.volumes[volume.0 as usize];
        entry.account.spend(actual, now, &self.orders.clock);
        if self.guard.has_stream(volume) {
            entry.account.debit_reserve(actual, now);
        }
        self.leave_drive(volume, now);
        self.volume(volume).update_depth(positions);
        self.place(volume, now);
        actual
    }
}
