//! The generated contracts and settings of the search.

use engine::stream::{InvalidTask, RequestCost, Task};
use engine::{
    BestEffortServer, CommandBound, Contract, Deadlines, Execution, LatencyContract, Preemptible,
    Settings, StreamContract,
};
use units::{Duration, Sectors, Share};

use super::terms::{SearchParameters, disk_time, ms, one_of};
use crate::SeededRng;

/// The distribution of the generated tasks.
#[derive(Debug)]
pub(super) struct TaskDistribution {
    pub(super) chunk: Option<u64>,
    /// Of a command that does not continue the last one, in ms.
    pub(super) positioning: u64,
    /// Of one that does.
    pub(super) overhead: u64,
    /// The most sectors of a command, if tasks are admitted whole as well as in chunks.
    command_max: Option<u64>,
    periods: (u64, u64),
    costs_max: u64,
}

impl TaskDistribution {
    pub(super) fn new(rng: &mut SeededRng, mut pieces: SeededRng, chunks: bool) -> Self {
        let chunk = (rng.below(5) == 0).then(|| 1 + rng.below(4));
        let positioning = if chunk.is_some() { rng.below(3) } else { 0 };
        let periods = one_of(rng, &[(10, 20), (10, 20), (14, 16), (10, 90), (5, 300), (40, 10)]);
        let costs_max = one_of(rng, &[3, 5, 8, 14, 40]);
        let (overhead, command_max) = (0, None);
        let tasks = Self { chunk, positioning, overhead, command_max, periods, costs_max };
        if !chunks {
            return tasks;
        }
        let positioning = pieces.below(5);
        let chunk = 1 + pieces.below(6);
        let overhead = pieces.below(positioning.min(2) + 1);
        let command_max = one_of(&mut pieces, &[8, 12, 40]);
        let periods =
            one_of(&mut pieces, &[periods, periods, (5, 300), (20, 400), (10, 1_000), (40, 10)]);
        Self {
            chunk: Some(chunk),
            positioning,
            overhead,
            command_max: Some(command_max),
            periods,
            costs_max: one_of(&mut pieces, &[costs_max, 14, 40, 60]),
        }
    }

    /// What a request of `sectors` takes in pieces of `most`: their number of sectors in ms, a
    /// positioning for the first, and for the others `between` each.
    fn cost(&self, sectors: u64, most: u64, between: u64) -> RequestCost {
        let pieces = sectors.div_ceil(most);
        let total = disk_time(sectors + self.positioning + (pieces - 1) * between);
        let longest = disk_time(sectors.min(most) + self.positioning);
        RequestCost { total, longest: longest.min(total) }
    }

    /// `task`, for the cost of a request of `sectors` at each granularity.
    fn task(
        &self,
        sectors: u64,
        task: impl Fn(RequestCost) -> Result<Task, InvalidTask>,
    ) -> Option<Task> {
        let most = self.chunk.unwrap_or(sectors);
        let chunks = task(self.cost(sectors, most, self.overhead)).ok()?;
        let Some(most) = self.command_max else { return Some(chunks) };
        chunks.with_whole(self.cost(sectors, most, self.positioning)).ok()
    }

    /// A stream's contract; its block's cost is its number of sectors in ms.
    pub(super) fn stream(&self, rng: &mut SeededRng) -> Option<StreamContract> {
        let (least, spread) = self.periods;
        // Some periods are no whole number of milliseconds: rounding matters.
        let odd = Duration::from_nanos(one_of(rng, &[0, 0, 1, 500_001]));
        let period = ms(least + rng.below(spread)) + odd;
        let sectors = 1 + rng.below(self.costs_max);
        let task = self.task(sectors, |cost| Task::new(period, cost.total, cost.longest))?;
        Some(StreamContract { task, block: Sectors(sectors), range: None })
    }

    /// A bounded latency; its request's cost is its number of sectors in ms.
    pub(super) fn latency(&self, rng: &mut SeededRng) -> Option<LatencyContract> {
        let (least, spread) = self.periods;
        let interval = ms((least + rng.below(spread)) * one_of(rng, &[1, 2, 5]));
        let within = ms(least + rng.below(2 * spread + 40));
        let sectors = 1 + rng.below(self.costs_max.min(8));
        let burst = one_of(rng, &[1, 1, 2, 4]);
        let task = self.task(sectors, |cost| {
            Task::sporadic(interval, within, burst, cost.total, cost.longest)
        })?;
        Some(LatencyContract { task, size: Sectors(sectors) })
    }

    pub(super) fn settings(&self, parameters: SearchParameters, rng: &mut SeededRng) -> Settings {
        let best_effort = (rng.below(8) == 0).then(|| {
            let share = Share::from_percent(one_of(rng, &[2, 5, 10]));
            BestEffortServer { share, period: ms(one_of(rng, &[100, 400])) }
        });
        let preemption = disk_time(self.positioning - self.overhead);
        let positioning = disk_time(self.positioning);
        let worst = CommandBound { positioning, sector: disk_time(1) };
        let chunk = self.chunk.map(Sectors);
        let how = Preemptible { chunk, jit: None, ..Preemptible::default() };
        let settings = Settings {
            policy: parameters.policy,
            period: ms(one_of(rng, &[100, 200])),
            batch: Duration::ZERO,
            execution: match chunk {
                Some(_) => Execution::Preemptible(how),
                None => Execution::Whole { split: None },
            },
            deadlines: Deadlines { worst, preemption, slack_range: parameters.range, best_effort },
            ..Settings::default()
        };
        let settings = if parameters.policy.has_deadlines() {
            settings
        } else {
            beside_shares(&settings, rng)
        };
        let command_max = self.command_max.map_or(settings.command_max, Sectors);
        Settings { command_max, ..settings }
    }
}

/// Further settings of a policy that keeps streams beside shares. Its longest command bounds what
/// may be reserved beside streams.
fn beside_shares(settings: &Settings, rng: &mut SeededRng) -> Settings {
    Settings {
        command_max: Sectors(one_of(rng, &[4, 12, 40])),
        batch: one_of(rng, &[ms(0), settings.period / 4, settings.period]),
        linger: ms(one_of(rng, &[0, 2, 8, 20])),
        ..*settings
    }
}

/// The shares of a contract on a disk that keeps them beside streams.
pub(super) fn generate_shares(contract: Contract, rng: &mut SeededRng) -> Contract {
    let reserve = match rng.below(3) {
        0 => contract.reserve,
        1 => Share::from_percent(one_of(rng, &[1, 5, 10, 20])),
        _ => Share::from_percent(one_of(rng, &[30, 40, 50, 60])),
    };
    let beyond = Share::from_percent(one_of(rng, &[1, 10, 40]));
    let limit = reserve.checked_add(beyond).filter(|_| rng.below(4) == 0);
    Contract { reserve, limit: limit.unwrap_or(Share::ALL), ..contract }
}
