//! mClock (OSDI 2010) beside Spindle's policy where requests do not cost the same: IOPS tags keep
//! what they state, and that is not a share of the disk.
//!
//! Each cell has the same clients, with the same random numbers, on the same drive, under mClock
//! with its options and under Spindle with default settings. *Worth* is a client's rate ÷ its rate
//! alone, one command at a time, on the drive slowed to its share.

use core::fmt::Write as _;
use std::path::Path;

use config::{Plan, VolumeIndex};
use engine::Weight;
use sim::Simulation;
use sim::worth::{alone_in_order, measure};
use units::{Duration, Instant, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{length, mechanical};
use crate::mclock::{
    LocalityBatch, MClockPlan, Normalisation, Options, RequestRate, Terms, answers,
};

pub(super) const MCLOCK: Experiment = Experiment {
    id: "mclock",
    title: "mClock's IOPS tags beside Spindle: requests of 5 and 30 ms, a sequential reader beside \
            a random one, and bursts that are due within 25 ms",
    run: mclock,
};

const DRIVE: &str = "hgst-7k8";
const SEEDS: u64 = 3;
const DURATION: Duration = Duration::from_secs(22);
const WARM_UP: Duration = Duration::from_secs(2);
/// The time within which a request of a burst is wanted.
const DUE: Duration = Duration::from_millis(25);
/// The least worth of a share.
const WORTH_MIN: f64 = 0.9;
/// What mClock states, it keeps: the least rate ÷ reservation.
const KEPT_MIN: f64 = 0.98;
/// The commands in the drive of a setting that leaves the order to the drive.
const QUEUE: u32 = 32;
const COLUMNS: [&str; 9] = [
    "scheduler",
    "client",
    "share_percent",
    "reservation_per_s",
    "rate_per_s",
    "worth",
    "p99_ms",
    "longest_ms",
    "within_25_ms",
];

struct Client {
    name: &'static str,
    size_gib: u64,
    share_percent: u32,
    /// mClock's reservation, requests a second.
    reservation: u32,
    requests: &'static str,
}

const RANDOM: &str = "access = \"random\"\nblock = \"4KiB\"\noutstanding = 16\n";
const COSTS: [Client; 2] = [
    Client {
        name: "random 4 KiB reads of 20 GiB",
        size_gib: 20,
        share_percent: 50,
        reservation: 25,
        requests: RANDOM,
    },
    Client {
        name: "random 4 MiB reads",
        size_gib: 3_700,
        share_percent: 50,
        reservation: 25,
        requests: "access = \"random\"\nblock = \"4MiB\"\noutstanding = 4\n",
    },
];
const ORDERS: [Client; 2] = [
    Client {
        name: "random 4 KiB reads",
        size_gib: 3_700,
        share_percent: 50,
        reservation: 30,
        requests: RANDOM,
    },
    Client {
        name: "sequential 128 KiB reads",
        size_gib: 3_600,
        share_percent: 50,
        reservation: 30,
        requests: "access = \"sequential\"\nblock = \"128KiB\"\noutstanding = 4\n",
    },
];
const BURSTS: [Client; 3] = [
    Client {
        name: "bursts of 4 random 4 KiB reads",
        size_gib: 10,
        share_percent: 20,
        reservation: 5,
        requests: "access = \"random\"\nblock = \"4KiB\"\nburst = 4\nthink = \"800ms\"\n",
    },
    Client {
        name: "random 4 KiB reads",
        size_gib: 3_600,
        share_percent: 40,
        reservation: 30,
        requests: RANDOM,
    },
    Client {
        name: "random 1 MiB reads",
        size_gib: 3_600,
        share_percent: 40,
        reservation: 15,
        requests: "access = \"random\"\nblock = \"1MiB\"\noutstanding = 8\n",
    },
];
/// The rate at which four R tags lie within the time that a burst has: 160 requests a second.
const BURST_RESERVATION: u32 = 160;
/// The bounded latency of the bursts, the shortest of a whole number of 10 ms that is admitted.
const BOUND: Duration = Duration::from_millis(BOUND_MS);
const BOUND_MS: u64 = 160;

const LONGEST: &str = "longest of the bursts";

/// The name and the options of a setting of mClock.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Setting {
    name: &'static str,
    options: Options,
    depth: u32,
    /// The reservation of the first client, instead of its own.
    reservation: Option<u32>,
    /// Whether reservations and weights are the rates that shares come to: the scheduler is told
    /// what each client's requests cost.
    knows_costs: bool,
    idle_credit: u32,
}

/// The contracts of a cell under Spindle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contracts {
    Reserves,
    /// The first client has a bounded latency instead.
    Bounded(Duration),
}

/// What a client gets, after the warm-up.
#[derive(Clone, Copy, Debug)]
struct Got {
    rate: f64,
    worth: f64,
    p99_ms: f64,
    longest_ms: f64,
    /// The part of its requests that were answered within [`DUE`].
    in_time: f64,
}

const TAGS: Setting = Setting {
    name: "mClock",
    options: Options { normalisation: None, batch: None },
    depth: 1,
    reservation: None,
    knows_costs: false,
    idle_credit: 0,
};

fn sized(name: &'static str, normalisation: Normalisation) -> Setting {
    let options = Options { normalisation: Some(normalisation), ..Options::default() };
    Setting { name, options, ..TAGS }
}

/// The drive's own mean delay of a random request, and its rate in the outermost zone.
fn drive_normalisation() -> Normalisation {
    let plan = plan(&COSTS, Contracts::Reserves, 1).expect("the reserves fit");
    let model = mechanical(&plan.disks[0]);
    let rate = model.zones().next().expect("a drive has zones").media_rate;
    Normalisation { positioning: model.seek_mean() + model.period() / 2, rate }
}

/// The cell as a plan.
///
/// # Errors
/// What admission refuses.
fn plan(clients: &[Client], contracts: Contracts, seed: u64) -> Result<Plan, config::ConfigError> {
    let mut text = format!("seed = {seed}\n[[disk]]\nname = \"d\"\ndrive = \"{DRIVE}\"\n");
    for (index, client) in clients.iter().enumerate() {
        let Client { size_gib, share_percent, requests, .. } = client;
        let contract = match contracts {
            Contracts::Bounded(within) if index == 0 => format!(
                "latency = {{ within = \"{}ms\", requests = \"5/s\", burst = 4, \
                 size = \"4KiB\" }}",
                within.as_micros() / 1_000
            ),
            Contracts::Reserves | Contracts::Bounded(_) => {
                format!("reserve = \"{share_percent}%\"")
            }
        };
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"{size_gib}GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"v{index}\"\nop = \"read\"\n{requests}"
        )
        .expect("a string takes all");
    }
    let mut plan = Plan::parse(&text, "mclock.toml", Path::new("."))?;
    plan.duration = Some(DURATION);
    Ok(plan)
}

/// What each client alone gets on the drive slowed to its share, and on the whole drive.
fn references(clients: &[Client], seed: u64) -> Vec<(f64, f64)> {
    let plan = plan(clients, Contracts::Reserves, seed).expect("the reserves fit");
    let alone = |index: usize, share| {
        measure(&alone_in_order(&plan, VolumeIndex(index), share), WARM_UP)[index].rate
    };
    let both = clients.iter().enumerate().map(|(index, client)| {
        (alone(index, Share::from_percent(client.share_percent)), alone(index, Share::ALL))
    });
    both.collect()
}

/// What a client gets, from the time at which each of its requests was sent and answered.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn got(requests: impl Iterator<Item = (Instant, Instant)>, reference: f64) -> Got {
    let measured = requests.filter(|(_, answered)| *answered > Instant::ZERO + WARM_UP);
    let mut latencies: Vec<Duration> =
        measured.map(|(sent, answered)| answered.since(sent)).collect();
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |rank: usize| latencies.get(rank).map_or(0.0, |latency| latency.as_millis_f64());
    let in_time = latencies.partition_point(|latency| *latency <= DUE);
    let rate = count as f64 / (DURATION - WARM_UP).as_secs_f64();
    Got {
        rate,
        worth: rate / reference,
        p99_ms: at((count * 99 / 100).min(count.saturating_sub(1))),
        longest_ms: at(count.saturating_sub(1)),
        in_time: in_time as f64 / count.max(1) as f64,
    }
}

/// The reservation of a client that gets `rate` requests a second alone on its share: a little
/// less, for what changes between clients cost.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
fn known(rate: f64) -> u32 {
    (rate * WORTH_MIN).max(1.0) as u32
}

fn under_mclock(clients: &[Client], setting: Setting, seed: u64, own: &[(f64, f64)]) -> Vec<Got> {
    let plan = plan(clients, Contracts::Reserves, seed).expect("the reserves fit");
    let terms = clients.iter().enumerate().map(|(index, client)| {
        let first = setting.reservation.filter(|_| index == 0);
        let (reservation, weight) = if setting.knows_costs {
            (known(own[index].0), known(own[index].0))
        } else {
            (first.unwrap_or(client.reservation), client.share_percent)
        };
        Terms {
            reservation: Some(RequestRate::per_second(reservation)),
            limit: None,
            weight: Weight::new(weight).expect("a share or a rate is a weight"),
            idle_credit: if index == 0 { setting.idle_credit } else { 0 },
        }
    });
    let terms: Vec<Terms> = terms.collect();
    let Setting { options, depth, .. } = setting;
    let answers = answers(&MClockPlan { plan: &plan, terms: &terms, options, depth });
    let of = |index: usize| {
        let own = answers.iter().filter(move |answer| answer.volume == index);
        own.map(|answer| (answer.sent, answer.answered))
    };
    (0..clients.len()).map(|index| got(of(index), own[index].0)).collect()
}

fn under_spindle(
    clients: &[Client],
    contracts: Contracts,
    seed: u64,
    own: &[(f64, f64)],
) -> Vec<Got> {
    let plan = plan(clients, contracts, seed).expect("the contracts fit");
    let mut simulation = Simulation::new(&plan);
    simulation.record_requests();
    simulation.run_until(Instant::ZERO + length(&plan));
    let (requests, beyond) = simulation.take_requests();
    assert_eq!(beyond, 0, "all requests are recorded");
    let of = |index: usize| {
        let own = requests.iter().filter(move |request| request.volume == VolumeIndex(index));
        own.map(|request| (request.sent, request.answered))
    };
    (0..clients.len()).map(|index| got(of(index), own[index].0)).collect()
}

/// The worst of each figure over the seeds.
fn worst(runs: &[Vec<Got>]) -> Vec<Got> {
    let of = |index: usize, figure: fn(&Got) -> f64, choose: fn(f64, f64) -> f64| {
        runs.iter().map(|run| figure(&run[index])).reduce(choose).expect("there are seeds")
    };
    let each = (0..runs[0].len()).map(|index| Got {
        rate: of(index, |got| got.rate, f64::min),
        worth: of(index, |got| got.worth, f64::min),
        p99_ms: of(index, |got| got.p99_ms, f64::max),
        longest_ms: of(index, |got| got.longest_ms, f64::max),
        in_time: of(index, |got| got.in_time, f64::min),
    });
    each.collect()
}

/// A cell, with the references of its clients for each seed.
struct Cell {
    name: &'static str,
    clients: &'static [Client],
    references: Vec<Vec<(f64, f64)>>,
    checks: Vec<Check>,
    series: Series,
    schedulers: u32,
}

impl Cell {
    fn new(name: &'static str, clients: &'static [Client]) -> Self {
        let references: Vec<_> = (1..=SEEDS).map(|seed| references(clients, seed)).collect();
        let series = Series::new(name.replace(' ', "-"), &COLUMNS);
        Self { name, clients, references, checks: Vec::new(), series, schedulers: 0 }
    }

    /// The worst over the seeds under one scheduler, and a row for each client. Its place among
    /// the schedulers of the cell is its number in the table.
    fn run(
        &mut self,
        reservation: Option<u32>,
        of_seed: impl Fn(u64, &[(f64, f64)]) -> Vec<Got>,
    ) -> Vec<Got> {
        let seeds = (1..=SEEDS).zip(&self.references);
        let runs: Vec<_> = seeds.map(|(seed, own)| of_seed(seed, own)).collect();
        let worst = worst(&runs);
        for (index, (client, got)) in (0_u32..).zip(self.clients.iter().zip(&worst)) {
            let first = reservation.filter(|_| index == 0).unwrap_or(client.reservation);
            self.series.rows.push(vec![
                self.schedulers.into(),
                index.into(),
                client.share_percent.into(),
                first.into(),
                got.rate,
                got.worth,
                got.p99_ms,
                got.longest_ms,
                got.in_time,
            ]);
        }
        self.schedulers += 1;
        worst
    }

    fn mclock(&mut self, setting: Setting) -> Vec<Got> {
        let clients = self.clients;
        self.run(setting.reservation, |seed, own| under_mclock(clients, setting, seed, own))
    }

    fn spindle(&mut self, contracts: Contracts) -> Vec<Got> {
        let clients = self.clients;
        self.run(None, |seed, own| under_spindle(clients, contracts, seed, own))
    }

    fn told(&mut self, scheduler: &str, figure: &str, value: f64, unit: &'static str) {
        let name = format!("{}: {scheduler}: {figure}", self.name);
        let told = Check::unbounded(name, value, unit, "");
        self.checks.push(Check { reason: None, ..told });
    }

    /// What shares are worth: to Spindle's clients, with a bound, and to mClock's.
    fn compare_shares(&mut self, settings: &[Setting]) {
        for (index, client) in self.clients.iter().enumerate() {
            let each = self.references.iter().map(|seed| 1e3 / seed[index].1);
            self.told(client.name, "a request alone", each.fold(0.0, f64::max), "ms");
        }
        let mut best = 0.0_f64;
        for setting in settings {
            let got = self.mclock(*setting);
            self.told(setting.name, "least worth", least(&got), "ratio");
            if !setting.knows_costs {
                best = best.max(least(&got));
            }
            if *setting == TAGS {
                let kept = got.iter().zip(self.clients);
                let kept = kept.map(|(got, client)| got.rate / f64::from(client.reservation));
                let name = format!("{}: {}: least rate ÷ reservation", self.name, setting.name);
                let kept = kept.fold(f64::INFINITY, f64::min);
                self.checks.push(Check::at_least(name, kept, KEPT_MIN, "ratio"));
            }
        }
        let worth = least(&self.spindle(Contracts::Reserves));
        let name = format!("{}: Spindle: least worth", self.name);
        self.checks.push(Check::at_least(name, worth, WORTH_MIN, "ratio"));
        let name = format!("{}: Spindle's ÷ the best with equal reservations", self.name);
        self.checks.push(Check::at_least(name, worth / best, 1.0, "ratio"));
    }

    fn compare_bursts(&mut self, settings: &[Setting]) {
        for setting in settings {
            let got = self.mclock(*setting);
            self.told_bursts(setting.name, &got);
            self.told(setting.name, LONGEST, got[0].longest_ms, "ms");
        }
        let got = self.spindle(Contracts::Reserves);
        self.told_bursts("Spindle", &got);
        self.told("Spindle", LONGEST, got[0].longest_ms, "ms");
        let bounded = "Spindle, bounded latency";
        let got = self.spindle(Contracts::Bounded(BOUND));
        self.told_bursts(bounded, &got);
        let name = format!("{}: {bounded}: {LONGEST}", self.name);
        self.checks.push(Check::at_most(name, got[0].longest_ms, BOUND.as_millis_f64(), "ms"));
    }

    fn told_bursts(&mut self, scheduler: &str, got: &[Got]) {
        self.told(scheduler, "bursts' requests within 25 ms", got[0].in_time, "ratio");
        self.told(scheduler, "least worth of the others", least(&got[1..]), "ratio");
    }
}

fn least(got: &[Got]) -> f64 {
    got.iter().map(|got| got.worth).fold(f64::INFINITY, f64::min)
}

fn mclock(told: &mut dyn FnMut(f64)) -> Findings {
    let batch = Options { batch: Some(LocalityBatch::TYPICAL), ..Options::default() };
    let queue = Setting { name: "mClock, 32 in the drive", depth: QUEUE, ..TAGS };
    let batched = Setting { name: "mClock, batches of 8", options: batch, ..TAGS };
    let typical = sized("mClock, sizes by 5 ms and 60 MB/s", Normalisation::TYPICAL);
    let drive = sized("mClock, sizes by the drive's delay and rate", drive_normalisation());
    let known = Setting { name: "mClock, costs known", knows_costs: true, ..TAGS };
    let known_batched =
        Setting { name: "mClock, costs known, batches of 8", options: batch, ..known };
    let mut costs = Cell::new("5 and 30 ms", &COSTS);
    costs.compare_shares(&[TAGS, typical, drive, queue, known]);
    told(0.3);
    let mut orders = Cell::new("sequential", &ORDERS);
    orders.compare_shares(&[TAGS, typical, drive, batched, queue, known, known_batched]);
    told(0.7);
    let reserved = Setting {
        name: "mClock, 160 a second reserved",
        reservation: Some(BURST_RESERVATION),
        ..TAGS
    };
    let reserved_queue =
        Setting { name: "mClock, 160 a second, 32 in the drive", depth: QUEUE, ..reserved };
    let credited = Setting { name: "mClock, idle credit of 4", idle_credit: 4, ..TAGS };
    let mut bursts = Cell::new("bursts", &BURSTS);
    bursts.compare_bursts(&[TAGS, reserved, credited, reserved_queue]);
    told(1.0);
    let mut findings = Findings { checks: Vec::new(), series: Vec::new(), plots: Vec::new() };
    for cell in [costs, orders, bursts] {
        findings.checks.extend(cell.checks);
        findings.series.push(cell.series);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_latency_of_25_ms_is_refused_and_the_one_measured_is_the_shortest() {
        let fits = |within: Duration| plan(&BURSTS, Contracts::Bounded(within), 1).is_ok();
        assert!(!fits(DUE));
        assert!(!fits(Duration::from_millis(BOUND_MS - 10)));
        assert!(fits(BOUND));
    }
}
