//! Commands that cover several requests.
//!
//! ```text
//! queue      │ A 8 sectors │ B 8 │ C 8 │ D 8 │        contiguous on the disk
//! command    │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ │               20 sectors: A, B, and half of C
//! next       ░░░░░░░░░░░░░░░░░░░░░░░░ │ ▒▒▒▒▒▒ │      the rest of C, and D
//! ```
//!
//! A policy lets the commands of a volume gather ([`Policy::gather`](crate::policy::Policy)), or
//! its neighbours are [merged](super::merge). Then one command covers queued requests of one kind
//! that follow each other on the disk, in the order of the queue; a gathered one may end inside a
//! request. A request is answered when all of its pieces have completed. A command that fails
//! fails every request that it covers, or its parts are issued again ([`super::merge`]).
//!
//! Requests of one command stay linked in the order of the queue until they are answered, so that
//! nothing is allocated for a command. With preemptible or split execution nothing is gathered:
//! there a request is the unit that is preempted.

use core::hint::cold_path;

use units::{DiskTime, Extent, Instant, Op, Operation, Sectors};

use super::pending::{OwnFlush, Remainder, Slot};
use super::{Engine, Issued};
use crate::limits::MERGED_MAX;
use crate::request::{Command, Outcome};
use crate::{Execution, Purpose, VolumeId};

/// The requests that a command covers, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered {
    slot: Slot,
    /// Where the piece begins in its request.
    offset: Sectors,
    rest: Sectors,
    left: u32,
}

impl Covered {
    pub(super) fn of(issued: &Issued) -> Self {
        debug_assert!(issued.covered > 0, "a command covers a request");
        let Issued { slot, covered: left, offset, operation, .. } = *issued;
        Self { slot, offset, rest: operation.extent.len, left }
    }

    /// The next request, with the offset and the length of its piece. The one before may have been
    /// answered since.
    pub(super) fn next(&mut self, engine: &Engine) -> Option<(Slot, Sectors, Sectors)> {
        self.left = self.left.checked_sub(1)?;
        let (slot, offset) = (self.slot, self.offset);
        let pending = engine.pending(slot);
        let len = if self.left == 0 {
            self.rest
        } else {
            // All but the last piece end with their request.
            self.slot = pending.next_in_queue.expect("covered requests are linked").0;
            pending.request.operation.extent.len - offset
        };
        self.offset = Sectors::ZERO;
        self.rest = self.rest - len;
        debug_assert!(self.left > 0 || self.rest == Sectors::ZERO, "the pieces are the command");
        Some((slot, offset, len))
    }
}

/// The pieces of single requests of which a command consists, in their order on the disk.
#[derive(Clone, Debug)]
pub struct CommandPieces<'a> {
    engine: &'a Engine,
    command: Command,
    covered: Covered,
}

impl Iterator for CommandPieces<'_> {
    type Item = Command;

    fn next(&mut self) -> Option<Command> {
        let (slot, offset, len) = self.covered.next(self.engine)?;
        let Command { operation, .. } = self.command;
        let (extent, rest) = operation.extent.split_at(len);
        self.command.operation = Operation { extent: rest, ..operation };
        let request = self.engine.pending(slot).request.id;
        let operation = Operation { extent, ..operation };
        debug_assert!(rest.len == self.covered.rest, "pieces follow each other");
        Some(Command { request, operation, offset, ..self.command })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.covered.left as usize;
        debug_assert!(left <= self.engine.requests(), "a command covers requests");
        (left, Some(left))
    }
}

impl ExactSizeIterator for CommandPieces<'_> {
    fn len(&self) -> usize {
        debug_assert_eq!(self.size_hint().0, self.covered.left as usize, "an exact size");
        self.covered.left as usize
    }
}

/// The part of `total` that falls to the sectors up to `until` of `len`, rounded down.
fn part(total: DiskTime, until: Sectors, len: Sectors) -> DiskTime {
    debug_assert!(until <= len, "a part is at most the whole");
    if until == len {
        return total;
    }
    let wide = i128::from(total.as_nanos()) * i128::from(until.0) / i128::from(len.0);
    DiskTime::from_nanos(i64::try_from(wide).expect("a part is at most the whole"))
}

impl Engine {
    /// The pieces of `command`, which is in flight: a command each, of the same id, in place of
    /// their sum. One for a command of one request.
    ///
    /// # Panics
    /// If the command is not in flight.
    pub fn command_pieces(&self, command: &Command) -> CommandPieces<'_> {
        let issued = self.issued.iter().find(|issued| issued.id == command.id);
        let covered = Covered::of(issued.expect("the command is in flight"));
        debug_assert_eq!(covered.offset, command.offset, "the command was not changed");
        CommandPieces { engine: self, command: *command, covered }
    }

    /// The next command of `volume`, whose first request is in `slot`, and the number of requests
    /// that it covers.
    pub(super) fn gather(&self, volume: VolumeId, slot: Slot) -> (Operation, u32) {
        let piece = self.next_piece(slot);
        let Execution::Whole { split: None } = self.settings.execution else { return (piece, 1) };
        let first = self.pending(slot);
        let cut = self.policy.gather(volume);
        let limit = match cut {
            Some(limit) => limit.min(self.settings.command_max),
            None if self.merges() && !first.own_flush.is_owed() => MERGED_MAX.max(piece.extent.len),
            None => return (piece, 1),
        };
        if cut.is_none() && piece.extent.len >= MERGED_MAX {
            // It is long enough by itself.
            return (piece, 1);
        }
        if !matches!(piece.op, Op::Read | Op::Write) {
            return (piece, 1);
        }
        assert!(limit > Sectors::ZERO, "a command has sectors");
        let (op, fua) = (first.request.operation.op, first.request.operation.fua);
        let (mut extent, _) = piece.extent.split_at(limit.min(piece.extent.len));
        let (mut covered, mut end) = (1, first.request.operation.extent.end());
        let mut link = first.next_in_queue;
        while extent.end() == end
            && extent.len < limit
            && let Some((next, operation)) = link
            && (operation.op, operation.fua) == (op, fua)
            && operation.extent.start == end
        {
            let len = operation.extent.len.min(limit - extent.len);
            if cut.is_none() && len < operation.extent.len {
                // A merged command ends with a request.
                break;
            }
            extent = Extent::new(extent.start, extent.len + len);
            (covered, end) = (covered + 1, operation.extent.end());
            link = self.pending(next).next_in_queue;
        }
        debug_assert!(extent.len <= limit, "a command is at most as long as the policy says");
        (Operation { extent, ..piece }, covered)
    }

    /// Marks what `issued` covers as issued. Returns the number of requests whose last command it
    /// is, and the next head.
    pub(super) fn start(&mut self, issued: &Issued, now: Instant) -> (u32, Option<Operation>) {
        let mut covered = Covered::of(issued);
        let (mut ended, mut last) = (0, None);
        while let Some((slot, _, len)) = covered.next(self) {
            let pending = self.pending_mut(slot);
            debug_assert!(!pending.issued_whole(), "a head has commands to issue");
            pending.issued += len;
            let whole = pending.request.operation.extent.len;
            assert!(pending.issued <= whole, "no sector is issued twice");
            pending.own_flush =
                pending.own_flush.after(issued.operation.op, pending.issued == whole);
            pending.running += 1;
            pending.preemptions = 0;
            pending.started.get_or_insert(now);
            if !pending.issued_whole() {
                cold_path();
                debug_assert_eq!(covered.left, 0, "only the last request goes on");
                return (ended, Some(self.next_piece(slot)));
            }
            let next = pending.next_in_queue.as_ref().map(|(slot, _)| *slot);
            let (volume, urgent) = (pending.request.volume, pending.urgent);
            self.end((volume, urgent), next);
            (ended, last) = (ended + 1, Some(slot));
        }
        (ended, last.and_then(|last| self.head_behind(last)))
    }

    /// The next command of the request behind the one in `slot`, which has left its queue.
    fn head_behind(&self, slot: Slot) -> Option<Operation> {
        let pending = self.pending(slot);
        debug_assert!(pending.issued_whole(), "the next one is the head");
        let (next, operation) = pending.next_in_queue.as_ref()?;
        if self.is_guarded() {
            cold_path();
            // One that another went ahead of may have begun.
            return Some(self.next_piece(*next));
        }
        // Derived from the list link: the request itself is cold.
        let own_flush = OwnFlush::new(self.owes_flush(operation));
        let remainder = Remainder { operation: *operation, issued: Sectors::ZERO, own_flush };
        Some(remainder.piece(&self.pieces(pending.request.volume, operation)))
    }

    /// Divides the estimate of a command among its requests, by sectors.
    pub(super) fn share_estimate(&mut self, issued: &Issued, estimate: DiskTime) {
        let (len, mut covered) = (issued.operation.extent.len, Covered::of(issued));
        let mut before = DiskTime::ZERO;
        while let Some((slot, ..)) = covered.next(self) {
            let until = part(estimate, len - covered.rest, len);
            self.pending_mut(slot).estimate += until - before;
            before = until;
        }
        debug_assert_eq!(before, estimate, "the parts add up to the whole");
    }

    /// Notes the completion of a command with its requests; its service time `took` is divided
    /// among them by sectors.
    pub(super) fn share_service(&mut self, issued: &Issued, took: DiskTime, outcome: Outcome) {
        let (len, mut covered) = (issued.operation.extent.len, Covered::of(issued));
        let is_failed = outcome == Outcome::Failed && issued.purpose == Purpose::Transfer;
        let mut before = DiskTime::ZERO;
        while let Some((slot, ..)) = covered.next(self) {
            let until = part(took, len - covered.rest, len);
            let pending = self.pending_mut(slot);
            assert!(pending.running > 0, "a completed command was in flight");
            pending.running -= 1;
            pending.disk_time += until - before;
            // An auxiliary command was not requested: the transfer shows whether sectors fail.
            if is_failed {
                cold_path();
                pending.outcome = Outcome::Failed;
            }
            before = until;
        }
        debug_assert_eq!(before, took, "the parts add up to the whole");
    }

    pub(super) fn invariants_of(&self, issued: &Issued) {
        let mut covered = Covered::of(issued);
        while let Some((slot, ..)) = covered.next(self) {
            assert!(self.pending(slot).running > 0, "a request knows its commands in flight");
        }
    }

    /// Answers the requests whose last command in flight was `issued`.
    pub(super) fn reply_ended(&mut self, issued: &Issued, now: Instant) {
        let mut covered = Covered::of(issued);
        while let Some((slot, ..)) = covered.next(self) {
            let pending = self.pending(slot);
            debug_assert!(pending.submitted <= now, "a request was submitted in the past");
            if pending.issued_whole() && pending.running == 0 {
                self.reply(slot, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Duration, Lba};

    use super::*;
    use crate::policy::{Dispatch, DispatchRecord, Pick, Policy};
    use crate::request::{Action, Event, Request, RequestId};
    use crate::{Contract, Settings};

    /// Serves volumes in the order of their arrival, in commands of at most `limit`.
    #[derive(Debug)]
    struct Gathering {
        queued: u32,
        limit: Option<Sectors>,
    }

    impl Policy for Gathering {
        fn add_volume(&mut self, _: Contract, _: Instant) {}
        fn change_contract(&mut self, _: VolumeId, _: Contract, _: Instant) {}
        fn reset_volume(&mut self, _: VolumeId, _: Contract, _: Instant) {}
        fn change_period(&mut self, _: &Settings, _: Instant) {}
        fn queued(&mut self, _: VolumeId, _: &Operation, head: Option<&Operation>, _: Instant) {
            assert_eq!(head.is_some(), self.queued == 0, "the first of a queue is its head");
            self.queued += 1;
        }
        fn pick(&mut self, _: usize, _: Instant) -> Pick {
            if self.queued == 0 { Pick::Nothing } else { Pick::Volume(VolumeId(0)) }
        }
        fn gather(&self, _: VolumeId) -> Option<Sectors> {
            self.limit
        }
        fn dispatched(&mut self, dispatch: Dispatch<'_>, _: Instant) -> DispatchRecord {
            self.queued -= dispatch.ended;
            assert_eq!(dispatch.next.is_some(), self.queued > 0, "a head is a queued request's");
            assert_eq!(dispatch.ends_request, dispatch.ended > 0);
            DispatchRecord::new(DiskTime::from_micros(7), true)
        }
        fn completed(
            &mut self,
            _: VolumeId,
            _: DispatchRecord,
            took: DiskTime,
            _: Instant,
        ) -> DiskTime {
            took
        }
    }

    fn engine(limit: Option<Sectors>, depth: u32) -> Engine {
        let settings = Settings { depth, ..Settings::default() };
        let mut engine = Engine::new(settings, Instant::ZERO);
        engine.policy = Box::new(Gathering { queued: 0, limit });
        engine.add_volume(Contract::BEST_EFFORT, Instant::ZERO).expect("it fits");
        engine
    }

    fn submit(engine: &mut Engine, id: u64, operation: Operation, now: Instant) {
        let request = Request { id: RequestId(id), volume: VolumeId(0), operation };
        engine.handle(Event::Submit(request), now);
    }

    fn write(start: u64, len: u64) -> Operation {
        Operation::write(Extent::new(Lba(start), Sectors(len)))
    }

    fn issued(engine: &mut Engine, now: Instant) -> Command {
        match engine.poll(now) {
            Some(Action::Issue(command)) => command,
            other => panic!("expected a command, found {other:?}"),
        }
    }

    /// The requests of a command, each with its offset and its sectors.
    fn pieces(engine: &Engine, command: &Command) -> Vec<(u64, u64, u64, u64)> {
        let pieces = engine.command_pieces(command).map(|piece| {
            let extent = piece.operation.extent;
            (piece.request.0, piece.offset.0, extent.start.0, extent.len.0)
        });
        pieces.collect()
    }

    fn complete(
        engine: &mut Engine,
        command: &Command,
        outcome: Outcome,
        now: Instant,
    ) -> Vec<u64> {
        engine.handle(Event::Completed { command: command.id, outcome }, now);
        let mut replies = Vec::new();
        while let Some(reply) = engine.replies.pop_front() {
            assert_eq!(reply.outcome, outcome);
            replies.push(reply.request.0);
        }
        engine.invariants();
        replies
    }

    #[test]
    fn requests_that_follow_each_other_go_as_one_command_and_are_answered_as_their_parts_end() {
        let mut engine = engine(Some(Sectors(20)), 1);
        let at = |n| Instant::ZERO + Duration::from_millis(n);
        (0..4).for_each(|n| submit(&mut engine, n, write(8 * n, 8), at(0)));
        let first = issued(&mut engine, at(0));
        assert_eq!(first.operation, write(0, 20));
        assert_eq!(pieces(&engine, &first), [(0, 0, 0, 8), (1, 0, 8, 8), (2, 0, 16, 4)]);
        engine.invariants();
        assert_eq!(complete(&mut engine, &first, Outcome::Done, at(20)), [0, 1]);
        let second = issued(&mut engine, at(20));
        assert_eq!(pieces(&engine, &second), [(2, 4, 20, 4), (3, 0, 24, 8)]);
        assert_eq!(complete(&mut engine, &second, Outcome::Done, at(30)), [2, 3]);
        assert_eq!(engine.usage(VolumeId(0)).disk_time, DiskTime::from_millis(30));
        assert_eq!(engine.poll(at(30)), None);
    }

    #[test]
    fn only_requests_of_one_kind_that_follow_each_other_are_gathered() {
        let now = Instant::ZERO;
        let forced = Operation { fua: true, ..write(16, 8) };
        let read = Operation::read(Extent::new(Lba(24), Sectors(8)));
        let requests = [write(0, 8), write(8, 8), forced, read, write(40, 8), Operation::flush()];
        let mut engine = engine(Some(Sectors(2_048)), 1);
        (0..).zip(requests).for_each(|(n, operation)| submit(&mut engine, n, operation, now));
        let mut commands = Vec::new();
        while engine.requests() > 0 {
            let command = issued(&mut engine, now);
            commands.push(command.operation);
            complete(&mut engine, &command, Outcome::Done, now);
        }
        assert_eq!(commands, [write(0, 16), forced, read, write(40, 8), Operation::flush()]);
    }

    #[test]
    fn a_command_that_fails_fails_every_request_that_it_covers() {
        let mut engine = engine(Some(Sectors(24)), 1);
        let now = Instant::ZERO;
        (0..4).for_each(|n| submit(&mut engine, n, write(8 * n, 8), now));
        let first = issued(&mut engine, now);
        assert_eq!(complete(&mut engine, &first, Outcome::Failed, now), [0, 1, 2]);
        let second = issued(&mut engine, now);
        assert_eq!(complete(&mut engine, &second, Outcome::Done, now), [3]);
        assert_eq!(engine.usage(VolumeId(0)).failures, 3);
    }

    #[test]
    fn without_a_policy_that_gathers_a_command_belongs_to_one_request() {
        let mut engine = engine(None, 1);
        let now = Instant::ZERO;
        submit(&mut engine, 0, write(0, 3_000), now);
        submit(&mut engine, 1, write(3_000, 8), now);
        for expected in [(0, 0, 0, 2_048), (0, 2_048, 2_048, 952), (1, 0, 3_000, 8)] {
            let command = issued(&mut engine, now);
            assert_eq!(pieces(&engine, &command), [expected]);
            complete(&mut engine, &command, Outcome::Done, now);
        }
    }

    /// Requests of all kinds, commands of all lengths, several in the drive that end in any order,
    /// and some of which fail.
    #[test]
    fn each_sector_is_transferred_once_and_each_request_is_answered_once_as_its_commands_ended() {
        for seed in 0..300_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = |end: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % end
            };
            let limit = Sectors(1 + below(64));
            let depth = 1 + u32::try_from(below(4)).expect("small");
            let mut engine = engine(Some(limit), depth);
            let (mut now, mut next) = (Instant::ZERO, 0);
            let mut running: Vec<(Command, Vec<Command>)> = Vec::new();
            // Of each request: its sectors, those that were transferred, whether one failed.
            let mut open: Vec<Option<(u64, u64, bool)>> = Vec::new();
            let mut end = 0;
            while open.len() < 200 || engine.requests() > 0 {
                now += Duration::from_micros(below(500));
                if open.len() < 200 && below(3) > 0 {
                    end = if below(6) == 0 { end + 5 } else { end };
                    let len = 1 + below(40);
                    let fua = below(8) == 0;
                    submit(&mut engine, next, Operation { fua, ..write(end, len) }, now);
                    open.push(Some((len, 0, false)));
                    (next, end) = (next + 1, end + len);
                }
                if !running.is_empty() && below(2) == 0 {
                    let pick = below(running.len() as u64);
                    let (command, pieces) =
                        running.swap_remove(usize::try_from(pick).expect("one"));
                    let failed = below(10) == 0;
                    for piece in pieces {
                        let request =
                            open[usize::try_from(piece.request.0).expect("small")].as_mut();
                        let (_, transferred, fails) = request.expect("it is not answered");
                        *transferred += piece.operation.extent.len.0;
                        *fails |= failed;
                    }
                    let outcome = if failed { Outcome::Failed } else { Outcome::Done };
                    engine.handle(Event::Completed { command: command.id, outcome }, now);
                }
                while let Some(action) = engine.poll(now) {
                    match action {
                        Action::Issue(command) => {
                            assert!(command.operation.extent.len <= limit, "seed {seed}");
                            let pieces: Vec<Command> = engine.command_pieces(&command).collect();
                            let last = pieces.last().expect("a command covers a request");
                            assert_eq!(last.operation.extent.end(), command.operation.extent.end());
                            running.push((command, pieces));
                        }
                        Action::Reply(reply) => {
                            let index = usize::try_from(reply.request.0).expect("small");
                            let (len, transferred, failed) = open[index].take().expect("once");
                            assert_eq!(transferred, len, "seed {seed}");
                            assert_eq!(reply.outcome == Outcome::Failed, failed, "seed {seed}");
                        }
                    }
                }
                engine.invariants();
            }
            assert_eq!(engine.usage(VolumeId(0)).disk_time, engine.busy(), "seed {seed}");
        }
    }
}
