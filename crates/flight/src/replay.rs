//! Replay: the recorded inputs go to the same engine, whose decisions are compared with the record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use engine::limits::{REQUESTS_MAX, VOLUMES_MAX};
use engine::{Action, CommandId, Contract, Engine, Event, RequestId, Settings, VolumeId};
use units::{Duration, Instant, Lba, Op, Sectors};

use crate::code::FormatError;
use crate::entry::{Decision, Entry, Input};
use crate::header::Header;
use crate::read::{End, ReadError, Reader};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// The number of inputs.
    pub events: u64,
    /// The number of decisions, including those without an action.
    pub decisions: u64,
    /// Of these, commands.
    pub commands: u64,
    /// Of these, replies.
    pub replies: u64,
    /// The time of the last entry.
    pub until: Instant,
    /// How the record ends; nothing where a difference came first.
    pub end: Option<End>,
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
}

/// The first decision that differs from the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of its entry, from 1.
    pub entry: u64,
    /// Its time.
    pub at: Instant,
    /// The recorded decision.
    pub recorded: Decision,
    /// The engine's decision.
    pub decided: Decision,
}

/// Why a record could not be replayed to its end.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Read(ReadError),
    /// The initial state is invalid.
    Header(FormatError),
    /// An input is impossible.
    Impossible {
        /// The number of the entry, from 1.
        entry: u64,
        /// Its time.
        at: Instant,
        /// What was expected.
        fault: FormatError,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Header(fault) => write!(f, "what it began with: {fault}"),
            Self::Impossible { entry, at, fault } => {
                write!(f, "entry {entry}, at {at}, cannot be: {fault}")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<ReadError> for ReplayError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// The largest capacity of a disk without a profile.
const SECTORS_MAX: u64 = 1 << 48;

/// The preconditions of an engine's inputs, checked here so that a forged record is refused.
struct Preconditions {
    volumes: BTreeSet<VolumeId>,
    requests: BTreeMap<RequestId, VolumeId>,
    commands: BTreeSet<CommandId>,
    capacity: Sectors,
    settings: Settings,
}

type Checked = Result<(), FormatError>;

fn ensure(holds: bool, expected: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(FormatError(expected)) }
}

impl Preconditions {
    fn new(header: &Header) -> Self {
        let known = header.profile.as_ref().map(|profile| profile.capacity());
        Self {
            volumes: BTreeSet::new(),
            requests: BTreeMap::new(),
            commands: BTreeSet::new(),
            capacity: known.unwrap_or(Sectors(SECTORS_MAX)),
            settings: header.settings,
        }
    }

    fn volume_exists(&self, volume: VolumeId) -> Checked {
        ensure(self.volumes.contains(&volume), "a volume that is there")
    }

    fn check_contract(&self, contract: &Contract) -> Checked {
        ensure(contract.reserve <= contract.limit, "a reserve of at most the limit")?;
        let Some(stream) = contract.stream else { return Ok(()) };
        let range = stream.range.is_none_or(|range| range.end().0 <= self.capacity.0);
        ensure(range && stream.block > Sectors::ZERO, "a stream that lies on the disk")
    }

    fn event(&mut self, event: &Event, engine: &Engine) -> Checked {
        match event {
            Event::Submit(request) | Event::SubmitDeferred(request) => {
                self.volume_exists(request.volume)?;
                let (op, extent) = (request.operation.op, request.operation.extent);
                ensure(op != Op::Seek, "no seek, which is not a request")?;
                ensure((op == Op::Flush) == extent.is_empty(), "sectors, but of a flush")?;
                ensure(extent.end() <= Lba(self.capacity.0), "sectors of the disk")?;
                ensure(self.requests.len() < REQUESTS_MAX, "fewer requests at a time")?;
                let before = self.requests.insert(request.id, request.volume);
                ensure(before.is_none(), "a request that is new")
            }
            Event::Completed { command, .. } => {
                ensure(self.commands.remove(command), "a command that is under way")
            }
            Event::ContractChanged { volume, contract } => {
                self.volume_exists(*volume)?;
                self.check_contract(contract)?;
                ensure(engine.admits(*volume, *contract).is_ok(), "a contract that fits")
            }
            Event::VolumeRemoved { volume } => {
                ensure(!self.requests.values().any(|of| of == volume), "a volume that rests")?;
                ensure(self.volumes.remove(volume), "a volume that is there")
            }
            Event::PeriodChanged { period, batch } => {
                let (period, batch) = (*period, *batch);
                Settings { period, batch, ..self.settings }.check().map_err(FormatError)
            }
            Event::PrefetchOffered { volume, extent } => {
                self.volume_exists(*volume)?;
                let Some(extent) = extent else { return Ok(()) };
                let is_on_disk = extent.end() <= Lba(self.capacity.0);
                ensure(!extent.is_empty() && is_on_disk, "an offer of sectors of the disk")
            }
        }
    }

    fn on_decision(&mut self, decision: &Decision) {
        match decision {
            Decision::Act(Action::Issue(command)) => {
                self.commands.insert(command.id);
            }
            Decision::Act(Action::Reply(reply)) => {
                self.requests.remove(&reply.request);
            }
            Decision::Wait(_) => {}
        }
    }
}

/// Passes an input to the engine, if its preconditions hold.
fn apply(
    engine: &mut Engine,
    preconditions: &mut Preconditions,
    input: Input,
    now: Instant,
) -> Checked {
    match input {
        Input::Event(event) => {
            preconditions.event(&event, engine)?;
            engine.handle(event, now);
        }
        Input::AddVolume { contract, volume } => {
            ensure(engine.volumes() < VOLUMES_MAX, "fewer volumes")?;
            preconditions.check_contract(&contract)?;
            let given = engine.add_volume(contract, now);
            ensure(given == Ok(volume), "a volume that fits, and has the next number")?;
            preconditions.volumes.insert(volume);
        }
        Input::SetPriority { volume, priority } => {
            preconditions.volume_exists(volume)?;
            engine.set_priority(volume, priority);
        }
        Input::Balance { volume } => {
            preconditions.volume_exists(volume)?;
            engine.balance(volume, now);
        }
    }
    Ok(())
}

/// Replays a record up to its end or the first difference.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay<R: Read>(reader: &mut Reader<R>) -> Result<ReplayOutcome, ReplayError> {
    let header = reader.header();
    let mut engine = header.engine().map_err(ReplayError::Header)?;
    let (mut preconditions, started_at) = (Preconditions::new(header), header.started_at);
    let (events, decisions, commands, replies) = (0, 0, 0, 0);
    let (until, end, difference) = (started_at, None, None);
    let mut done = ReplayOutcome { events, decisions, commands, replies, until, end, difference };
    while let Some((at, entry)) = reader.next_entry()? {
        let number = done.events + done.decisions + 1;
        let impossible = |fault| ReplayError::Impossible { entry: number, at, fault };
        if at < done.until || at.since(started_at) > RECORD_TIME_MAX {
            return Err(impossible(FormatError(
                "a time that is not before the last one's, nor too far",
            )));
        }
        done.until = at;
        match entry {
            Entry::Input(input) => {
                apply(&mut engine, &mut preconditions, input, at).map_err(impossible)?;
                done.events += 1;
            }
            Entry::Decision(recorded) => {
                let action = engine.poll(at);
                let decided =
                    action.map_or_else(|| Decision::Wait(engine.next_wakeup()), Decision::Act);
                if decided != recorded {
                    done.difference = Some(Difference { entry: number, at, recorded, decided });
                    return Ok(done);
                }
                preconditions.on_decision(&decided);
                done.decisions += 1;
                done.commands += u64::from(matches!(decided, Decision::Act(Action::Issue(_))));
                done.replies += u64::from(matches!(decided, Decision::Act(Action::Reply(_))));
            }
        }
    }
    done.end = reader.end();
    Ok(done)
}

/// The longest time span of a record: ten years.
const RECORD_TIME_MAX: Duration = Duration::from_secs(10 * 366 * 86_400);
