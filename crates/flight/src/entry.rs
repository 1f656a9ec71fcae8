//! The entries of a record, and their encoding.
//!
//! An entry begins with a byte for its kind, whose high bit is set if time has passed since the
//! previous entry; then that time, in nanoseconds; then its fields. Numbers that tend to rise are
//! encoded as the difference to the last number of their kind in the block, so that a block can be
//! decoded by itself.

use core::fmt;

use engine::stream::Task;
use engine::{
    Action, Command, CommandId, Contract, Event, LatencyContract, Outcome, Priority, Purpose,
    Reply, Request, RequestId, StreamContract, VolumeId, Weight,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::code::{Coded, FormatError, Source, choices, fields, put_number, put_signed};

/// An input of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Through [`engine::Engine::handle`].
    Event(Event),
    /// A volume was added and got this number.
    AddVolume {
        /// Its contract.
        contract: Contract,
        /// Its number.
        volume: VolumeId,
    },
    /// A volume's priority was changed.
    SetPriority {
        /// The volume.
        volume: VolumeId,
        /// Its new priority.
        priority: Priority,
    },
    /// A volume's balance was read, which charges it for the time that has passed.
    Balance {
        /// The volume.
        volume: VolumeId,
    },
}

/// One entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The engine got an input.
    Input(Input),
    /// The engine was polled, and decided.
    Decision(Decision),
}

/// The result of polling an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An action.
    Act(Action),
    /// No action; the instant at which it wants to be polled again without an input.
    Wait(Option<Instant>),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(Action::Issue(command)) => {
                let Command { id, request, volume, operation, offset, purpose } = command;
                let Operation { op, extent, fua } = operation;
                let (fua, offset) = (if *fua { " forced" } else { "" }, offset.0);
                write!(
                    f,
                    "command {} ({purpose:?}) for request {} of volume {}: {op} \
                     {extent}{fua}, from its sector {offset} on",
                    id.0, request.0, volume.0
                )
            }
            Self::Act(Action::Reply(reply)) => {
                let Reply { request, volume, outcome, disk_time, estimate, waited } = reply;
                write!(
                    f,
                    "reply to request {} of volume {}: {outcome:?}, {disk_time} of disk time, \
                     {estimate} estimated, after waiting {waited}",
                    request.0, volume.0
                )
            }
            Self::Wait(None) => f.write_str("nothing, until something happens"),
            Self::Wait(Some(until)) => write!(f, "nothing, until {until}"),
        }
    }
}

/// The kinds of entries. The numbers are part of the format.
mod kind {
    pub(super) const SUBMIT: u8 = 1;
    pub(super) const DONE: u8 = 2;
    pub(super) const FAILED: u8 = 3;
    pub(super) const CONTRACT: u8 = 4;
    pub(super) const REMOVED: u8 = 5;
    pub(super) const PERIOD: u8 = 6;
    pub(super) const JOIN: u8 = 7;
    pub(super) const PRIORITISE: u8 = 8;
    pub(super) const BALANCE: u8 = 9;
    pub(super) const ISSUE: u8 = 10;
    pub(super) const REPLY: u8 = 11;
    pub(super) const REST: u8 = 12;
    pub(super) const REST_UNTIL: u8 = 13;
    pub(super) const END: u8 = 14;
    pub(super) const SUBMIT_DEFERRED: u8 = 15;
    pub(super) const OFFER: u8 = 16;
    /// Time has passed.
    pub(super) const LATER: u8 = 0x80;
}

fields! {
    Contract { reserve, limit, weight, stream, latency, is_background }
    StreamContract { task, block, range }
    LatencyContract { task, size }
}

choices! {
    Priority as "a class" { Priority::Normal, Priority::High }
    Outcome as "an outcome" { Outcome::Done, Outcome::Failed }
    Op as "an operation" { Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Seek }
    Purpose as "a purpose" { Purpose::Transfer, Purpose::Seek, Purpose::Prefetch }
}

impl Coded for VolumeId {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        u32::take(from).map(Self)
    }
}

impl Coded for RequestId {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        u64::take(from).map(Self)
    }
}

impl Coded for Weight {
    fn put(&self, to: &mut Vec<u8>) {
        self.as_u32().put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        Self::new(u32::take(from)?).ok_or(FormatError("a weight"))
    }
}

impl Coded for Task {
    fn put(&self, to: &mut Vec<u8>) {
        self.period().put(to);
        self.deadline().put(to);
        self.burst().put(to);
        self.cost().put(to);
        self.longest().put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let (period, deadline) = (Duration::take(from)?, Duration::take(from)?);
        let (burst, cost) = (u32::take(from)?, DiskTime::take(from)?);
        let task = Self::sporadic(period, deadline, burst, cost, DiskTime::take(from)?);
        task.map_err(|_| FormatError("a task"))
    }
}

/// The last number of each kind, from which differences are taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last {
    at: Instant,
    end: u64,
    command: u64,
}

/// An operation in eight bits: its kind, whether it is forced, and its purpose.
fn put_operation(operation: &Operation, last: &mut Last, to: &mut Vec<u8>) {
    let Operation { op, extent, fua } = operation;
    op.put(to);
    fua.put(to);
    put_signed(extent.start.0.wrapping_sub(last.end).cast_signed(), to);
    extent.len.put(to);
    last.end = extent.start.0.wrapping_add(extent.len.0);
}

fn take_operation(from: &mut Source<'_>, last: &mut Last) -> Result<Operation, FormatError> {
    let (op, fua) = (Op::take(from)?, bool::take(from)?);
    let start = last.end.wrapping_add(from.signed()?.cast_unsigned());
    let len = Sectors::take(from)?;
    last.end = start.checked_add(len.0).ok_or(FormatError("sectors that a disk can have"))?;
    Ok(Operation { op, extent: Extent::new(Lba(start), len), fua })
}

fn put_command(id: CommandId, last: &mut Last, to: &mut Vec<u8>) {
    put_signed(id.0.wrapping_sub(last.command).cast_signed(), to);
    last.command = id.0;
}

fn take_command(from: &mut Source<'_>, last: &mut Last) -> Result<CommandId, FormatError> {
    last.command = last.command.wrapping_add(from.signed()?.cast_unsigned());
    Ok(CommandId(last.command))
}

/// The end of a closed record.
pub(crate) fn put_end(to: &mut Vec<u8>) {
    to.push(kind::END);
}

fn kind_of(entry: &Entry) -> u8 {
    match entry {
        Entry::Input(Input::Event(event)) => match event {
            Event::Submit(_) => kind::SUBMIT,
            Event::SubmitDeferred(_) => kind::SUBMIT_DEFERRED,
            Event::Completed { outcome: Outcome::Done, .. } => kind::DONE,
            Event::Completed { outcome: Outcome::Failed, .. } => kind::FAILED,
            Event::ContractChanged { .. } => kind::CONTRACT,
            Event::VolumeRemoved { .. } => kind::REMOVED,
            Event::PeriodChanged { .. } => kind::PERIOD,
            Event::PrefetchOffered { .. } => kind::OFFER,
        },
        Entry::Input(Input::AddVolume { .. }) => kind::JOIN,
        Entry::Input(Input::SetPriority { .. }) => kind::PRIORITISE,
        Entry::Input(Input::Balance { .. }) => kind::BALANCE,
        Entry::Decision(Decision::Act(Action::Issue(_))) => kind::ISSUE,
        Entry::Decision(Decision::Act(Action::Reply(_))) => kind::REPLY,
        Entry::Decision(Decision::Wait(None)) => kind::REST,
        Entry::Decision(Decision::Wait(Some(_))) => kind::REST_UNTIL,
    }
}

/// Encodes one entry. Times do not decrease.
pub(crate) fn put(at: Instant, entry: &Entry, last: &mut Last, to: &mut Vec<u8>) {
    let later = at.since(last.at);
    last.at = at;
    to.push(kind_of(entry) | if later > Duration::ZERO { kind::LATER } else { 0 });
    if later > Duration::ZERO {
        later.put(to);
    }
    match entry {
        Entry::Input(Input::Event(event)) => put_event(event, last, to),
        Entry::Input(Input::AddVolume { contract, volume }) => {
            contract.put(to);
            volume.put(to);
        }
        Entry::Input(Input::SetPriority { volume, priority }) => {
            volume.put(to);
            priority.put(to);
        }
        Entry::Input(Input::Balance { volume }) => volume.put(to),
        Entry::Decision(Decision::Act(Action::Issue(command))) => {
            let Command { id, request, volume, operation, offset, purpose } = command;
            put_command(*id, last, to);
            request.put(to);
            volume.put(to);
            put_operation(operation, last, to);
            offset.put(to);
            purpose.put(to);
        }
        Entry::Decision(Decision::Act(Action::Reply(reply))) => {
            let Reply { request, volume, outcome, disk_time, estimate, waited } = reply;
            request.put(to);
            volume.put(to);
            outcome.put(to);
            disk_time.put(to);
            estimate.put(to);
            waited.put(to);
        }
        Entry::Decision(Decision::Wait(None)) => {}
        Entry::Decision(Decision::Wait(Some(until))) => {
            put_signed(until.as_nanos().wrapping_sub(at.as_nanos()).cast_signed(), to);
        }
    }
}

fn put_event(event: &Event, last: &mut Last, to: &mut Vec<u8>) {
    match event {
        Event::Submit(Request { id, volume, operation })
        | Event::SubmitDeferred(Request { id, volume, operation }) => {
            id.put(to);
            volume.put(to);
            put_operation(operation, last, to);
        }
        Event::Completed { command, outcome: _ } => put_command(*command, last, to),
        Event::ContractChanged { volume, contract } => {
            volume.put(to);
            contract.put(to);
        }
        Event::VolumeRemoved { volume } => volume.put(to),
        Event::PeriodChanged { period, batch } => {
            put_number(period.as_nanos(), to);
            put_number(batch.as_nanos(), to);
        }
        Event::PrefetchOffered { volume, extent } => {
            volume.put(to);
            extent.put(to);
        }
    }
}

/// Decodes one entry; `None` at the end of a closed record.
pub(crate) fn take(
    from: &mut Source<'_>,
    last: &mut Last,
) -> Result<Option<(Instant, Entry)>, FormatError> {
    let first = from.byte()?;
    if first & kind::LATER != 0 {
        let nanos = last.at.as_nanos().checked_add(from.number()?);
        last.at = Instant::from_nanos(nanos.ok_or(FormatError("a time within 584 years"))?);
    }
    let told = |event| Entry::Input(Input::Event(event));
    let entry = match first & !kind::LATER {
        kind::SUBMIT => {
            let (id, volume) = (Coded::take(from)?, Coded::take(from)?);
            told(Event::Submit(Request { id, volume, operation: take_operation(from, last)? }))
        }
        kind::SUBMIT_DEFERRED => {
            let (id, volume) = (Coded::take(from)?, Coded::take(from)?);
            let operation = take_operation(from, last)?;
            told(Event::SubmitDeferred(Request { id, volume, operation }))
        }
        kind::DONE => {
            told(Event::Completed { command: take_command(from, last)?, outcome: Outcome::Done })
        }
        kind::FAILED => {
            told(Event::Completed { command: take_command(from, last)?, outcome: Outcome::Failed })
        }
        kind::CONTRACT => told(Event::ContractChanged {
            volume: Coded::take(from)?,
            contract: Coded::take(from)?,
        }),
        kind::REMOVED => told(Event::VolumeRemoved { volume: Coded::take(from)? }),
        kind::PERIOD => {
            told(Event::PeriodChanged { period: Coded::take(from)?, batch: Coded::take(from)? })
        }
        kind::OFFER => {
            told(Event::PrefetchOffered { volume: Coded::take(from)?, extent: Coded::take(from)? })
        }
        kind::JOIN => Entry::Input(Input::AddVolume {
            contract: Coded::take(from)?,
            volume: Coded::take(from)?,
        }),
        kind::PRIORITISE => Entry::Input(Input::SetPriority {
            volume: Coded::take(from)?,
            priority: Coded::take(from)?,
        }),
        kind::BALANCE => Entry::Input(Input::Balance { volume: Coded::take(from)? }),
        kind::ISSUE => {
            let id = take_command(from, last)?;
            let (request, volume) = (Coded::take(from)?, Coded::take(from)?);
            let operation = take_operation(from, last)?;
            let (offset, purpose) = (Coded::take(from)?, Coded::take(from)?);
            let command = Command { id, request, volume, operation, offset, purpose };
            Entry::Decision(Decision::Act(Action::Issue(command)))
        }
        kind::REPLY => Entry::Decision(Decision::Act(Action::Reply(Reply {
            request: Coded::take(from)?,
            volume: Coded::take(from)?,
            outcome: Coded::take(from)?,
            disk_time: Coded::take(from)?,
            estimate: Coded::take(from)?,
            waited: Coded::take(from)?,
        }))),
        kind::REST => Entry::Decision(Decision::Wait(None)),
        kind::REST_UNTIL => {
            let off = from.signed()?.cast_unsigned();
            let until = Instant::from_nanos(last.at.as_nanos().wrapping_add(off));
            Entry::Decision(Decision::Wait(Some(until)))
        }
        kind::END => return Ok(None),
        _ => return Err(FormatError("an entry of a kind that is known")),
    };
    Ok(Some((last.at, entry)))
}
