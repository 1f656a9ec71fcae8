//! Streams that hold for a span of time: the schedule of contract changes.
//!
//! An engine knows the contracts that hold now. Its driver asks the schedule for the next beginning
//! or end of a contract and informs the engine then, so that a span that has not begun takes
//! nothing from other volumes.

use units::Instant;

use crate::stream::Span;
use crate::{Contract, StreamContract, VolumeId};

/// Contract changes by time, earliest first.
#[derive(Clone, Debug, Default)]
pub struct ContractSchedule {
    due: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    volume: VolumeId,
    stream: Option<StreamContract>,
}

impl ContractSchedule {
    /// Schedules a volume's contract, whose stream holds over `span`, in place of its earlier
    /// entries. Returns the contract as it holds at `now`.
    pub fn schedule(
        &mut self,
        volume: VolumeId,
        contract: Contract,
        span: Span,
        now: Instant,
    ) -> Contract {
        self.remove(volume);
        let Some(stream) = contract.stream else { return contract };
        let mut enter = |at, stream| {
            // Ends precede beginnings at one instant: the freed disk time may be guaranteed to
            // others from then on.
            let rank = |at: Instant, stream: &Option<StreamContract>| (at, stream.is_some());
            let here = rank(at, &stream);
            let place = self.due.partition_point(|entry| rank(entry.at, &entry.stream) <= here);
            self.due.insert(place, Entry { at, volume, stream });
        };
        assert!(span.start <= span.end, "a span does not end before it begins");
        if now < span.start {
            enter(span.start, Some(stream));
        }
        if now < span.end && span.end < Instant::FAR_FUTURE {
            enter(span.end, None);
        }
        debug_assert!(self.due.is_sorted_by_key(|entry| entry.at), "changes are in order");
        let mut own = self.due.iter().filter(|entry| entry.volume == volume);
        debug_assert!(own.clone().count() <= 2, "a span has two ends");
        debug_assert!(own.all(|entry| entry.at > now), "a scheduled change is in the future");
        Contract { stream: Some(stream).filter(|_| span.contains(now)), ..contract }
    }

    /// Removes the entries of a volume.
    pub fn remove(&mut self, volume: VolumeId) {
        self.due.retain(|entry| entry.volume != volume);
        debug_assert!(self.due.is_sorted_by_key(|entry| entry.at), "changes are in order");
    }

    /// When the next change is due.
    pub fn next_change(&self) -> Option<Instant> {
        self.due.first().map(|entry| entry.at)
    }

    /// Removes and returns the next change that is due at `now`: the volume, and the stream that
    /// holds from now on.
    pub fn take_due(&mut self, now: Instant) -> Option<(VolumeId, Option<StreamContract>)> {
        self.next_change().filter(|at| *at <= now)?;
        let Entry { at, volume, stream } = self.due.remove(0);
        debug_assert!(at <= now, "a change is not made early");
        debug_assert!(self.next_change().is_none_or(|next| next >= at), "the earliest is taken");
        debug_assert!(self.due.is_sorted_by_key(|entry| entry.at), "changes are in order");
        Some((volume, stream))
    }
}

#[cfg(test)]
mod tests {
    use units::{DiskTime, Duration, Sectors};

    use super::*;
    use crate::stream::Task;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn contract() -> Contract {
        let task = Task::whole(Duration::from_secs(1), DiskTime::from_millis(50)).expect("a task");
        Contract::stream(StreamContract { task, block: Sectors(2_048), range: None })
    }

    #[test]
    fn a_stream_holds_from_its_start_to_its_end() {
        let mut schedule = ContractSchedule::default();
        let (volume, span) = (VolumeId(3), Span { start: at(10), end: at(20) });
        let now = schedule.schedule(volume, contract(), span, at(0));
        assert_eq!((now.stream, schedule.next_change()), (None, Some(at(10))));
        assert_eq!(schedule.take_due(at(9)), None);
        assert_eq!(schedule.take_due(at(10)), Some((volume, contract().stream)));
        assert_eq!(schedule.next_change(), Some(at(20)));
        assert_eq!(schedule.take_due(at(25)), Some((volume, None)));
        assert_eq!(schedule.next_change(), None);
    }

    #[test]
    fn a_stream_begins_at_the_instant_at_which_another_ends() {
        let mut schedule = ContractSchedule::default();
        schedule.schedule(VolumeId(0), contract(), Span { start: at(10), end: at(20) }, at(0));
        schedule.schedule(VolumeId(1), contract(), Span { start: at(0), end: at(10) }, at(0));
        assert_eq!(schedule.take_due(at(10)), Some((VolumeId(1), None)));
        assert_eq!(schedule.take_due(at(10)), Some((VolumeId(0), contract().stream)));
    }

    #[test]
    fn a_contract_replaces_the_previous_one() {
        let mut schedule = ContractSchedule::default();
        schedule.schedule(VolumeId(0), contract(), Span { start: at(5), end: at(9) }, at(0));
        let now = schedule.schedule(VolumeId(0), contract(), Span::ALWAYS, at(1));
        assert_eq!((now, schedule.next_change()), (contract(), None));
        let best_effort =
            schedule.schedule(VolumeId(0), Contract::BEST_EFFORT, Span::ALWAYS, at(1));
        assert_eq!(best_effort, Contract::BEST_EFFORT);
    }
}
