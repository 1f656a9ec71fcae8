//! The generated contracts and settings of the search.

use engine::stream::Task;
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
    pub(super) positioning: u64,
    periods: (u64, u64),
    costs_max: u64,
}

impl TaskDistribution {
    pub(super) fn new(rng: &mut SeededRng) -> Self {
        let chunk = (rng.below(5) == 0).then(|| 1 + rng.below(4));
        let positioning = if chunk.is_some() { rng.below(3) } else { 0 };
        let periods = one_of(rng, &[(10, 20), (10, 20), (14, 16), (10, 90), (5, 300), (40, 10)]);
        Self { chunk, positioning, periods, costs_max: one_of(rng, &[3, 5, 8, 14, 40]) }
    }

    /// A stream's contract; its block's cost is its number of sectors in ms.
    pub(super) fn stream(&self, rng: &mut SeededRng) -> Option<StreamContract> {
        let (least, spread) = self.periods;
        // Some periods are no whole number of milliseconds: rounding matters.
        let odd = Duration::from_nanos(one_of(rng, &[0, 0, 1, 500_001]));
        let period = ms(least + rng.below(spread)) + odd;
        let sectors = 1 + rng.below(self.costs_max);
        let cost = disk_time(sectors + self.positioning);
        let longest = self.chunk.map_or(cost, |chunk| disk_time(chunk + self.positioning));
        let task = Task::new(period, cost, longest.min(cost)).ok()?;
        Some(StreamContract { task, block: Sectors(sectors), range: None })
    }

    /// A bounded latency; its request's cost is its number of sectors in ms.
    pub(super) fn latency(&self, rng: &mut SeededRng) -> Option<LatencyContract> {
        let (least, spread) = self.periods;
        let interval = ms((least + rng.below(spread)) * one_of(rng, &[1, 2, 5]));
        let within = ms(least + rng.below(2 * spread + 40));
        let sectors = 1 + rng.below(self.costs_max.min(8));
        let cost = disk_time(sectors + self.positioning);
        let longest = self.chunk.map_or(cost, |chunk| disk_time(chunk + self.positioning));
        let burst = one_of(rng, &[1, 1, 2, 4]);
        let task = Task::sporadic(interval, within, burst, cost, longest.min(cost)).ok()?;
        Some(LatencyContract { task, size: Sectors(sectors) })
    }

    pub(super) fn settings(&self, parameters: SearchParameters, rng: &mut SeededRng) -> Settings {
        let best_effort = (rng.below(8) == 0).then(|| {
            let share = Share::from_percent(one_of(rng, &[2, 5, 10]));
            BestEffortServer { share, period: ms(one_of(rng, &[100, 400])) }
        });
        let preemption = disk_time(self.positioning);
        let worst = CommandBound { positioning: preemption, sector: disk_time(1) };
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
        if parameters.policy.has_deadlines() { settings } else { beside_shares(&settings, rng) }
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
