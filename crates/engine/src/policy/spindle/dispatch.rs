//! What changes when a command that the selector named goes to the drive, and when it is paid.

use core::hint::cold_path;

use units::{DiskTime, Instant};

use super::positioning::Distance;
use super::{Spindle, State};
use crate::VolumeId;
use crate::limits::DEPTH_MAX;
use crate::policy::interface::{Dispatch, DispatchRecord};

/// The time whose share is the deepest debt that slack leaves a shallow volume.
const SLACK_DEBT: DiskTime = DiskTime::from_millis(100);

impl Spindle {
    /// The head that [`Self::select`] named goes to the drive.
    pub(super) fn dispatch_selected(
        &mut self,
        dispatch: Dispatch<'_>,
        now: Instant,
    ) -> DispatchRecord {
        let Dispatch { volume, command, ended, next, urgent, .. } = dispatch;
        let joint = self.take_joint(volume).filter(|_| !urgent);
        let holder = joint.map_or(volume, |joint| joint.holder);
        if self.quantum_of(holder).is_none() {
            if urgent {
                cold_path();
                if let Some(quantum) = &mut self.quantum {
                    quantum.lingering = false;
                }
            } else {
                self.start_quantum(holder, now);
            }
        }
        let joins = holder != volume;
        let is_current = joins || self.quantum_of(volume).is_some();
        let entry = &self.volumes[volume.0 as usize];
        let (estimate, class) = self.estimator.dispatch(command, entry.sequential && is_current);
        let inside = (entry.running + 1).min(DEPTH_MAX);
        let is_among_several = inside > 1 && self.positions();
        let learned = if is_among_several { entry.drains.service(inside) } else { None };
        let estimate = learned.unwrap_or(estimate);
        let from_slack = match joint {
            Some(joint) => joint.from_slack,
            None if urgent => self.orders.due(now).is_none(),
            None => self.is_slack(volume, now),
        };
        let entry = self.volume(volume);
        assert_ne!(entry.account.state(), State::Empty, "a dispatched volume has a head");
        entry.account.debit(estimate, now);
        entry.enter_drive();
        entry.queued -= ended;
        let own_end = entry.last_end;
        entry.note_command(command, next);
        entry.head = next.copied();
        if next.is_none() {
            entry.account.set_empty();
        }
        // The positioning of one of several commands in the drive is not known.
        self.distances = None;
        if !command.extent.is_empty() {
            let distance = |from| Distance::between(from, command.extent.start);
            let distances = (distance(self.last_end), distance(own_end.or(self.last_end)));
            self.distances = (self.in_drive == 0).then_some(distances);
            self.last_end = Some(command.extent.end());
        }
        // With one command at a time the next decision follows its completion.
        let one_at_a_time = self.queue_depth == 1 && self.positions();
        if next.is_none() || !one_at_a_time || self.quantum_of(volume).is_none() {
            self.place(volume, now);
        }
        DispatchRecord { class, at: now, joins, ..DispatchRecord::new(estimate, from_slack) }
    }

    /// Counts `amount` as spent by `volume`, of which `estimate` was debited.
    pub(super) fn settle(
        &mut self,
        volume: VolumeId,
        (slack, joins): (bool, bool),
        debited: (DiskTime, DiskTime),
        now: Instant,
    ) {
        let (estimate, amount) = debited;
        let is_unpaid = slack && self.has_rounds(volume);
        let entry = &mut self.volumes[volume.0 as usize];
        entry.account.spend(amount, now, &self.orders.clock);
        if is_unpaid {
            entry.account.settle_unpaid((estimate, amount), now);
        } else {
            let slack_debt = slack.then(|| entry.account.reserved_of(SLACK_DEBT));
            entry.account.settle(slack_debt, (estimate, amount), now);
        }
        if let Some(quantum) = &mut self.quantum
            && (quantum.volume == volume || joins)
        {
            quantum.spent += amount;
        }
    }
}
