//! The settings of one disk's scheduler.

use units::{DiskTime, Duration, Sectors, Share};

use crate::accounting::deferred::DeferredWrites;
use crate::accounting::estimate::Estimates;
use crate::limits;
use crate::stream::SlackRange;
use crate::{ChooserName, Execution, Feature, PolicyName, limits::COMMAND_MAX};

/// The settings of one engine. Code that reads them from outside checks them with
/// [`Settings::check`]; the engine asserts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy.
    pub policy: PolicyName,
    /// Commands inside the drive at a time, 1 to [`limits::DEPTH_MAX`].
    pub depth: u32,
    /// How the busy time is divided among several commands in the drive.
    pub charging: Charging,
    /// The period p of RTAS 2008 §2.1, over which shares are kept.
    pub period: Duration,
    /// The length of a sequential batch out of the slack, and half of the least length of one on
    /// the reserve; at most the period.
    pub batch: Duration,
    /// The longest idle time for the next request of a sequential run whose client has been fast.
    pub linger: Duration,
    /// How fast the drive stores what it has answered from its own buffer, where that is charged.
    pub deferred_writes: Option<DeferredWrites>,
    /// The estimates of commands until they have completed.
    pub estimates: Estimates,
    /// The share of the disk's time (or of its nominal rate) that is never reserved: headroom for
    /// switching costs.
    pub headroom: Share,
    /// The cost of one command under [`PolicyName::Throughput`]: a second divided by the nominal
    /// rate.
    pub nominal_cost: DiskTime,
    /// The most that one command reads or writes.
    pub command_max: Sectors,
    /// Which of a volume's requests goes next. Another one than [`ChooserName::Arrival`] needs a
    /// policy that [keeps](PolicyName::keeps) [`Feature::Chooser`](crate::Feature::Chooser), and
    /// requests that are executed whole.
    pub chooser: ChooserName,
    /// Whether reads of volumes without a guarantee are carried out in the rotational waits of
    /// other volumes' commands (OSDI 2000). Needs [`ChooserName::Predicted`], and does nothing
    /// without a profile or while a volume of the disk has a guarantee by deadlines.
    pub freeblock: bool,
    /// How forced writes reach the medium. All but [`ForcedWrites::Fua`] need requests that are
    /// executed whole; beside guarantees by deadlines writes stay forced.
    pub forced_writes: ForcedWrites,
    /// How requests become commands.
    pub execution: Execution,
    /// The parameters of policies [with deadlines](PolicyName::has_deadlines).
    pub deadlines: Deadlines,
}

/// The division of a disk's busy time among several commands in the drive. With one command all
/// rules are that of RTAS 2008 §2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// Each interval in equal parts to the commands in flight: the policies of the publications.
    #[default]
    EqualParts,
    /// By the data that a command transfers, at the price of the last ones: a drive that works for
    /// several at a time, such as flash. Commands are of at most
    /// [`MERGED_MAX`](limits::MERGED_MAX) there, and while several volumes use it no more of them
    /// are in the drive than their data keep it busy.
    ByLength,
    /// From one completion to the next, to the command that completes: a drive with one actuator,
    /// which positions for one command at a time.
    Completions,
}

/// How forced writes reach the medium. With a flush they go to the drive's own buffer first, and
/// the flush is in the time of the volume that wrote, before another volume is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForcedWrites {
    /// By the drive's FUA, or by what the backend does for it.
    #[default]
    Fua,
    /// A flush follows each where the [chooser](crate::ChooserName::Predicted) predicts positioning
    /// times, as that order is better than the drive's; else one follows those of a volume. For a
    /// drive that does a write and a flush in about the time of a forced write.
    FlushedInPairs,
    /// One flush follows those of a volume: for a drive to which each flush costs more.
    FlushedTogether,
}

/// What is known of a disk whose requests have deadlines, and how its slack is given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// The worst case of a command without a [profile](drive_profile::Profile).
    pub worst: CommandBound,
    /// The cost of a preemption to the task that preempts: the positioning for the interrupted
    /// request. Zero if requests are executed whole.
    pub preemption: DiskTime,
    /// The intervals that count for the slack of [`PolicyName::DeltaL`]. [`SlackRange::Published`]
    /// is for experiments: it misses deadlines.
    pub slack_range: SlackRange,
    /// The periodic server (Clockwise, RTAS 2000 §3.3) that keeps best effort from starving where
    /// there is no slack: it is admitted beside the streams, and best effort spends it as real-time
    /// work.
    pub best_effort: Option<BestEffortServer>,
}

/// A share of the disk's time in every period, for best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestEffortServer {
    /// The share.
    pub share: Share,
    /// The period.
    pub period: Duration,
}

/// The worst case of a command: a constant, and a time per sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandBound {
    /// The longest seek, a whole revolution and the electronics.
    pub positioning: DiskTime,
    /// One sector in the slowest zone, track changes included.
    pub sector: DiskTime,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            // 20 ms, as the estimator of Zygaria (RTAS 2008), and 10 MB/s.
            worst: CommandBound {
                positioning: DiskTime::from_millis(20),
                sector: DiskTime::from_micros(50),
            },
            preemption: DiskTime::ZERO,
            slack_range: SlackRange::All,
            best_effort: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: PolicyName::Utilization,
            depth: 1,
            charging: Charging::default(),
            period: Duration::from_secs(1),
            batch: Duration::from_millis(250),
            linger: Duration::from_millis(2),
            deferred_writes: None,
            estimates: Estimates::default(),
            headroom: Share::NONE,
            nominal_cost: Self::NOMINAL_DEFAULT,
            command_max: COMMAND_MAX,
            chooser: ChooserName::Arrival,
            freeblock: false,
            forced_writes: ForcedWrites::Fua,
            execution: Execution::Whole { split: None },
            deadlines: Deadlines::default(),
        }
    }
}

impl Settings {
    /// 60 commands a second: the drive of Zygaria (RTAS 2008) at its worst.
    const NOMINAL_DEFAULT: DiskTime = DiskTime::from_nanos(1_000_000_000 / 60);

    /// Whether an engine can be made with these settings.
    ///
    /// # Errors
    /// The property that they lack.
    pub fn check(&self) -> Result<(), &'static str> {
        let some = |sectors: Option<Sectors>| sectors.is_none_or(|sectors| sectors > Sectors::ZERO);
        let execution = match self.execution {
            Execution::Whole { split } => some(split),
            Execution::Preemptible(how) => some(how.chunk),
        };
        let jit = self.execution.preemptible().and_then(|how| how.jit);
        let jit = jit.is_none_or(|jit| jit.offset <= limits::JIT_OFFSET_MAX);
        let stores = self.deferred_writes.is_none_or(|writes| {
            [writes.sequential, writes.random].iter().all(|rate| rate.sectors > Sectors::ZERO)
        });
        let period = (limits::PERIOD_MIN..=limits::PERIOD_MAX).contains(&self.period);
        let arrival = self.chooser == ChooserName::Arrival;
        let whole = self.execution == Execution::Whole { split: None };
        let fua = self.forced_writes == ForcedWrites::Fua;
        let predicts = self.chooser == ChooserName::Predicted;
        let checks = [
            (predicts || !self.freeblock, "a chooser that predicts, for freeblock scheduling"),
            (arrival || self.policy.keeps(Feature::Chooser), "a policy that lets requests reorder"),
            (arrival || whole, "requests that are executed whole if they are reordered"),
            (whole || fua, "requests that are executed whole, or forced writes by FUA"),
            ((1..=limits::DEPTH_MAX).contains(&self.depth), "a depth from 1 to 256"),
            (period, "a period from 100 ms to 10 s"),
            (self.batch <= self.period, "a batch that lasts at most a period"),
            (self.linger <= limits::LINGER_MAX, "lingering of at most 20 ms"),
            (self.nominal_cost > DiskTime::ZERO, "a nominal command with a cost"),
            (self.nominal_cost <= self.period.into(), "a nominal command that a bucket holds"),
            (self.command_max > Sectors::ZERO, "commands of at least one sector"),
            (self.command_max <= limits::COMMAND_MAX, "commands of at most 1 MiB"),
            (stores, "rates of storing of at least one sector"),
            (execution, "pieces of at least one sector"),
            (jit, "an offset of at most 20 ms"),
        ];
        let mut checks = checks.into_iter().chain(self.deadline_checks());
        checks.find(|(holds, _)| !holds).map_or(Ok(()), |(_, expected)| Err(expected))
    }

    /// The further conditions of a policy with deadlines.
    fn deadline_checks(&self) -> [(bool, &'static str); 5] {
        let others = !self.policy.has_deadlines();
        let atomic = matches!(self.execution, Execution::Whole { split: Some(_) });
        let Deadlines { worst, preemption, best_effort, .. } = self.deadlines;
        let periods = limits::SERVER_PERIOD_MIN..=limits::PERIOD_MAX;
        let server = best_effort.is_none_or(|server| periods.contains(&server.period));
        let bound = worst.positioning >= DiskTime::ZERO && worst.sector >= DiskTime::ZERO;
        [
            (others || self.depth == 1, "one command in flight under deadlines"),
            (others || !atomic, "a decision between two commands under deadlines"),
            (others || bound, "a worst case of at least zero"),
            (
                others || preemption >= DiskTime::ZERO,
                "a preemption that costs no less than nothing",
            ),
            (others || server, "a server's period from 10 ms to 10 s"),
        ]
    }

    pub(crate) fn assert_valid(&self) {
        assert_eq!(self.check(), Ok(()), "settings are checked by the caller");
    }
}
