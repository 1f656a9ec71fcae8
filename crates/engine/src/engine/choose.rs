//! The choice among the requests of the volume that is served next.
//!
//! A volume's queue is a list in the order of arrival. The [chooser](crate::chooser) names the
//! request that goes, and that becomes the head: the policy hears of it, and all else is as in the
//! order of arrival.
//!
//! ```text
//! queue   │ A │ B │ C │ D │ E │      the heads of the disk are near D
//! then    │ D │ A │ B │ C │ E │
//! ```
//!
//! Beside guarantees by deadlines, a request goes in the place of the oldest one if it is of the
//! same kind and no longer: the slack that pays for the worst case of the one, wherever it is, pays
//! for the other. Requests of a volume with such a guarantee go in the order of arrival.

use core::hint::cold_path;

use units::{DiskTime, Instant, Operation, Sectors};

use super::pending::Slot;
use super::{Engine, NO_SLOT, Selection, Volume};
use crate::chooser::{Candidate, Choice, Chooser, PredictionStats, Pricing, Scan, conflicts};
use crate::request::Request;
use crate::{ChooserName, VolumeId};

impl Engine {
    /// The chooser of this disk's settings, and its predictions, if it makes any.
    pub fn chooser(&self) -> (ChooserName, Option<PredictionStats>) {
        let stats = self.chooser.as_ref().and_then(|chooser| chooser.stats());
        let name = self.settings.chooser;
        debug_assert!(stats.is_none() || name == ChooserName::Predicted, "only that one predicts");
        (name, stats)
    }

    pub(super) fn submit_deferred(&mut self, request: Request, now: Instant) {
        let slot = self.submit(request, now);
        debug_assert_eq!(self.pending(slot).request, request, "a slot holds its request");
        if let Some(chooser) = &mut self.chooser {
            chooser.defer(slot);
        }
    }

    /// Makes the request of `volume` that goes next the head of its queue.
    pub(super) fn choose_request(&mut self, volume: VolumeId, now: Instant) {
        let Some(chooser) = self.chooser.as_deref() else { return };
        let Some(first) = self.searched_queue(volume) else { return };
        let (oldest, guarded) = (self.pending(first).request.operation, self.guarded);
        let fits = |other: &Operation| {
            !guarded || other.op == oldest.op && other.extent.len <= oldest.extent.len
        };
        let scan = self.scan_alone(chooser, volume, chooser.pricing(now), now);
        let choice = self.scan_queue(scan, first, fits);
        self.take_choice(volume, choice, fits, now);
    }

    /// A decision among the requests of `volume` alone, whose quantum ends with those that fit.
    fn scan_alone<'a>(
        &self,
        chooser: &'a Chooser,
        volume: VolumeId,
        pricing: Option<Pricing<'a>>,
        now: Instant,
    ) -> Scan<'a> {
        let charged = self.volumes[volume.0 as usize].account.disk_time;
        debug_assert!(charged >= DiskTime::ZERO, "what is charged is no less than nothing");
        let is_change = pricing.is_some() && self.policy.changes_to(volume);
        let pricing = if is_change { pricing.map(Pricing::careful) } else { pricing };
        let scan = chooser.scan(volume, charged, pricing);
        let inside = (self.meter.running(), self.settings.depth);
        let scan = scan.beside(inside, || self.policy.fills_drive(now));
        scan.within(|| self.policy.time_left(volume, now))
    }

    /// The head of `volume`'s queue, if another request of it may go first.
    fn searched_queue(&self, volume: VolumeId) -> Option<Slot> {
        let contract = &self.contracts[volume.0 as usize];
        if contract.stream.is_some() || contract.latency.is_some() {
            return None;
        }
        let first = self.volumes[volume.0 as usize].first;
        debug_assert_ne!(first, NO_SLOT, "a selected volume has a head");
        let head = self.pending(first);
        (head.issued == Sectors::ZERO && head.next_in_queue.is_some()).then_some(first)
    }

    /// Of the volumes of which one goes in the place of the selected one, the one whose request is
    /// chosen among those of all: that becomes the head of its queue.
    pub(super) fn choose_volume(&mut self, selection: Selection, now: Instant) -> Selection {
        let Some(chooser) = self.chooser.as_deref() else { return selection };
        cold_path();
        let is_plain = !selection.urgent && !self.guarded && self.active.is_none();
        let Some(pricing) = is_plain.then(|| chooser.pricing(now)).flatten() else {
            self.choose_request(selection.volume, now);
            return selection;
        };
        let candidates = self.policy.candidates(selection.volume, now);
        let mut best: Option<(VolumeId, Choice)> = None;
        for volume in candidates.iter() {
            let Volume { first, account, .. } = &self.volumes[volume.0 as usize];
            debug_assert_ne!(*first, NO_SLOT, "a candidate has a head");
            if self.pending(*first).issued > Sectors::ZERO {
                // A request that has begun goes on.
                return Selection { volume, ..selection };
            }
            let scan = chooser.scan_of((volume, candidates.count()), account.disk_time, pricing);
            let choice = self.scan_queue(scan, *first, |_| true);
            if best.is_none_or(|(_, best)| choice.rank < best.rank) {
                best = Some((volume, choice));
            }
        }
        let own = || {
            let volume = selection.volume;
            let first = self.searched_queue(volume)?;
            let scan = self.scan_alone(chooser, volume, Some(pricing), now);
            Some((volume, self.scan_queue(scan, first, |_| true)))
        };
        let Some((volume, choice)) = best.or_else(own) else { return selection };
        self.take_choice(volume, choice, |_| true, now);
        Selection { volume, ..selection }
    }

    /// The request that goes of the queue that begins with `first`, of those that fit.
    fn scan_queue(
        &self,
        mut scan: Scan<'_>,
        first: Slot,
        fits: impl Fn(&Operation) -> bool,
    ) -> Choice {
        debug_assert_ne!(first, NO_SLOT, "a queue that is searched has a head");
        let mut candidate = Candidate { before: None, slot: first };
        let mut operation = self.pending(first).request.operation;
        while scan.consider(candidate, &operation, fits(&operation)) {
            let Some((next, of_next)) = self.pending(candidate.slot).next_in_queue else { break };
            candidate = Candidate { before: Some(candidate.slot), slot: next };
            operation = of_next;
        }
        scan.best()
    }

    /// Makes the chosen request of `volume`, or one that has to go before it, the head.
    fn take_choice(
        &mut self,
        volume: VolumeId,
        choice: Choice,
        fits: impl Fn(&Operation) -> bool,
        now: Instant,
    ) {
        let first = self.volumes[volume.0 as usize].first;
        debug_assert_ne!(first, NO_SLOT, "a request of the queue is chosen");
        let mut chosen = choice.candidate;
        if choice.changes {
            chosen = self.unblocked(first, chosen);
        }
        if let Some(before) = chosen.before
            && fits(&self.pending(chosen.slot).request.operation)
        {
            self.make_head(volume, (before, chosen.slot));
            let head = self.next_piece(chosen.slot);
            self.policy.head_changed(volume, &head, now);
        }
    }

    /// The `chosen` request of the queue that begins with `first`, or the first one that has to go
    /// before it.
    fn unblocked(&self, first: Slot, mut chosen: Candidate) -> Candidate {
        let mut walked = 0;
        loop {
            let operation = self.pending(chosen.slot).request.operation;
            let mut at = Candidate { before: None, slot: first };
            while at.slot != chosen.slot {
                let pending = self.pending(at.slot);
                if conflicts(&pending.request.operation, &operation) {
                    break;
                }
                let (next, _) = pending.next_in_queue.expect("the chosen one is in the queue");
                at = Candidate { before: Some(at.slot), slot: next };
            }
            if at == chosen {
                return chosen;
            }
            chosen = at;
            walked += 1;
            debug_assert!(walked <= crate::limits::CANDIDATES_MAX, "each is before the last");
        }
    }

    /// Moves the request in `slot`, which follows the one in `before`, to the front of the queue.
    pub(super) fn make_head(&mut self, volume: VolumeId, (before, slot): (Slot, Slot)) {
        let first = self.volumes[volume.0 as usize].first;
        assert_ne!(first, slot, "another one was the head");
        let operation = self.pending(first).request.operation;
        let link = Some((first, operation));
        let behind = core::mem::replace(&mut self.pending_mut(slot).next_in_queue, link);
        self.pending_mut(before).next_in_queue = behind;
        let entry = &mut self.volumes[volume.0 as usize];
        entry.first = slot;
        if behind.is_none() {
            debug_assert_eq!(entry.last, slot, "the last one has none behind it");
            entry.last = before;
        }
    }
}
