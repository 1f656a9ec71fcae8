//! A bus that the three disks share (RTAS 2000 §3.1): what is admitted for it, and what is late on
//! it.
//!
//! RTAS 2000's disks have separate buses, and its authors found that an Atlas-II "can easily
//! overload a Fast SCSI-2 bus for which it is designed": 10 MB/s, or 20 on a wide one.

use config::Bus;
use drive_profile::Profile;
use engine::PolicyName;
use engine::stream::SlackRange;
use plot::{Line, Plot};
use sim::loads::Cello;
use units::{Bytes, Sectors};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::fig2::{ENDS, ms};
use super::layout::{Allocation, DISKS, Layout};
use super::point::{BestEffort, Load};
use super::settings::{SEED, profile};

pub(crate) const BUS: Experiment =
    Experiment { id: "clockwise-bus", title: "admitted load on a shared bus", run: bus };

/// The buses: none that is shared, and Fast SCSI-2, wide and narrow.
const LINES: [(Option<u64>, &str); 3] = [
    (None, "separate buses"),
    (Some(20_000_000), "one bus of 20 MB/s"),
    (Some(10_000_000), "one bus of 10 MB/s"),
];
/// The tables of the lines.
const TABLES: [&str; 3] = ["separate", "20-mb-per-s", "10-mb-per-s"];
/// The sectors of a burst: the default of a config.
const BURST: Sectors = Sectors(128);
/// Minutes of best effort beside the streams.
const MINUTES: usize = 2;

fn shared(bandwidth: u64) -> Bus {
    let disks = u32::try_from(DISKS).expect("three");
    Bus { name: "scsi".to_owned(), bandwidth: Bytes(bandwidth), burst: BURST, disks }
}

/// The profile of the drive on a bus, with which its streams are admitted.
fn profile_on(bus: Option<u64>) -> Profile {
    let mut profile = profile();
    profile.extremes.bus = bus.map(|bandwidth| shared(bandwidth).share());
    profile
}

fn bus(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let best_effort = BestEffort::of_the_day(Cello::busiest().take(MINUTES));
    let (mut tables, mut highest) = (Vec::new(), Vec::new());
    for ((bandwidth, _), name) in LINES.into_iter().zip(TABLES) {
        let profile = profile_on(bandwidth);
        let mut table = Series::new(name, &["streams", "load_mb_per_s", "slack_ms"]);
        let loads = Allocation::new(Layout::Rotation, &profile, SEED).loads();
        for allocation in &loads {
            let slacks = allocation.sets().iter().map(|set| set.slack_in(SlackRange::All));
            let streams = f64::from(u32::try_from(allocation.streams().len()).expect("few"));
            let slack = slacks.min().expect("there are disks");
            table.rows.push(vec![streams, allocation.load(), ms(slack)]);
        }
        tables.push(table);
        let last = loads.last().expect("one pair is admitted").clone();
        highest.push(Load::new(last, &best_effort));
    }
    on_progress(0.2);
    let mut late = Series::new("late", &["admitted_line", "bus_mb_per_s", "late"]);
    let mut ended = |admitted: u32, bandwidth: Option<u64>, policy| {
        let load = highest[admitted as usize].clone().on_bus(bandwidth.map(shared).as_ref());
        let misses = f64::from(u32::try_from(load.under(policy).misses).expect("few"));
        let carried = bandwidth.map_or(0, |bandwidth| bandwidth / 1_000_000);
        let carried = f64::from(u32::try_from(carried).expect("a bus of this century"));
        late.rows.push(vec![f64::from(admitted), carried, misses]);
        on_progress(0.2 + 0.8 * f64::from(u32::try_from(late.rows.len()).expect("few")) / 5.0);
    };
    for (admitted, (bandwidth, _)) in (0..).zip(LINES) {
        ended(admitted, bandwidth, PolicyName::DeltaL);
    }
    // What is admitted for separate buses. No policy keeps that on one bus, and this one claims
    // nothing.
    for (bandwidth, _) in &LINES[1..] {
        ended(0, *bandwidth, PolicyName::Edf);
    }
    let checks = checks(&tables, &late);
    tables.push(late);
    Findings { checks, plots: vec![("", plot(&tables))], series: tables }
}

fn plot(tables: &[Series]) -> Plot {
    let line = |(table, (_, name)): (&Series, (Option<u64>, &str))| Line {
        name: name.into(),
        points: table.points(1, 2),
        dashed: false,
    };
    Plot {
        caption: "Least slack of three atlas-ii against the load of the streams, by bus".into(),
        x: "load of the streams, MB/s".into(),
        y: "slack ΔL, ms".into(),
        lines: tables.iter().zip(LINES).map(line).collect(),
        ..Plot::default()
    }
}

fn checks(tables: &[Series], late: &Series) -> Vec<Check> {
    let end = |table: usize| tables[table].column(1).fold(0.0, f64::max);
    let mut checks = vec![
        Check::at_least("separate buses: load at the end", end(0), ENDS[0], "MB/s"),
        Check::at_most("separate buses: the same", end(0), ENDS[1], "MB/s"),
    ];
    // Megabytes of 2^20, as RTAS 2000 counts its streams; the buses are in decimal ones.
    for (table, carried) in [(1, 20e6 / 1_048_576.0), (2, 10e6 / 1_048_576.0)] {
        let (name, load) = (LINES[table].1, end(table));
        checks.push(Check::at_most(format!("{name}: load at the end"), load, carried, "MB/s"));
        let part = load / carried;
        checks.push(Check::at_least(format!("{name}: part of it admitted"), part, 0.6, "ratio"));
    }
    let misses = |row: usize| late.rows[row][2];
    for (row, (_, name)) in LINES.iter().enumerate() {
        checks.push(Check::at_most(format!("{name}: blocks late"), misses(row), 0.0, "blocks"));
    }
    let alone = |line: usize| format!("{}, admitted for separate buses: late", LINES[line].1);
    checks.push(Check::unbounded(alone(1), misses(3), "blocks", WIDE));
    checks.push(Check::at_least(alone(2), misses(4), 1.0, "blocks"));
    checks
}

const WIDE: &str = "the bus carries these streams, and the worst cases of all three disks need not \
                    meet in two minutes";
