//! Figures 14 and 15: traces (FAST 2003 §4.1.2), with seeded equivalents, because FAST 2003's
//! traces are not available.
//!
//! The equivalents follow the counts, mean sizes and block ranges of table 1 and the text:
//!
//! - `DV15`: 15 video clients, served round robin by one process. Each client reads 256 kB at a
//!   time, half a second of a video of 4 Mbit/s, sequentially, as requests of 128 blocks.
//! - `Elevator15`: the same clients at the same time, each with one request of 128 blocks. An
//!   elevator orders the 15 requests.
//! - `TPC`: a database of 20 warehouses, with requests of 128 blocks at random locations. The first
//!   [`TPC_RUN`] of its 1,376,482 requests are run.
//!
//! About every fiftieth request is longer or shorter, so that the mean size is FAST 2003's. All
//! requests are reads. Sizes, ranges and counts are set, not results: a test has them.

use std::sync::Arc;

use engine::Execution;
use plot::{Line, Plot};
use units::{Extent, Lba, Operation, Sectors, Share};

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::point::{Low, Point, lost};
use super::settings::{PAPER, TOLERANCE, WHOLE, ours};
use sim::SeededRng;

pub(crate) const FIG14: Experiment = Experiment {
    id: "spio-fig14",
    title: "expected waiting with traces (seeded equivalents)",
    run: fig14,
};

pub(crate) const FIG15: Experiment = Experiment {
    id: "spio-fig15",
    title: "throughput with traces (seeded equivalents)",
    run: fig15,
};

/// One row of table 1.
struct Facts {
    name: &'static str,
    requests: usize,
    /// Mean size, in tenths of a block.
    tenths: u64,
    block_max: u64,
    make: fn(&Facts, SeededRng) -> Vec<Operation>,
}

const TRACES: [Facts; 3] = [
    Facts {
        name: "DV15",
        requests: 10_800,
        tenths: 1_287,
        block_max: 28_442_272,
        make: round_robin,
    },
    Facts {
        name: "Elevator15",
        requests: 10_180,
        tenths: 1_276,
        block_max: 28_429_968,
        make: swept,
    },
    Facts {
        name: "TPC",
        requests: 1_376_482,
        tenths: 1_265,
        block_max: 8_005_312,
        make: scattered,
    },
];
/// The number of TPC requests that are run.
const TPC_RUN: usize = 20_000;
const CLIENTS: usize = 15;
/// Consecutive requests of one client.
const CLIENT_BATCH: usize = 4;
/// The length of nearly all requests, and that of the other ones, in blocks.
const USUAL_BLOCKS: u64 = 128;
const LONG_BLOCKS: u64 = 256;
const SHORT: u64 = 64;

/// The video server's requests.
pub(super) fn video_server() -> Low {
    Low::Listed(generate(&TRACES[0], 0))
}

/// The video server's requests in the order of an elevator.
pub(super) fn video_server_by_elevator() -> Low {
    Low::Listed(generate(&TRACES[1], 1))
}

fn generate(facts: &Facts, stream: u64) -> Arc<[Operation]> {
    let mut list = (facts.make)(facts, SeededRng::new(1, stream));
    // The last block of the range is the only location that table 1 states.
    let last = list.last_mut().expect("a trace has requests");
    last.extent = Extent::new(Lba(facts.block_max - last.extent.len.0 + 1), last.extent.len);
    list.into()
}

impl Facts {
    /// A random size; the mean is FAST 2003's.
    fn size(&self, rng: &mut SeededRng) -> u64 {
        let usual = USUAL_BLOCKS * 10;
        let (other, apart) = if self.tenths > usual {
            (LONG_BLOCKS, self.tenths - usual)
        } else {
            (SHORT, usual - self.tenths)
        };
        let ppb = apart * 100_000_000 / other.abs_diff(USUAL_BLOCKS);
        let odd = Share::from_ppb(u32::try_from(ppb).expect("a few hundredths"));
        if rng.chance(odd) { other } else { USUAL_BLOCKS }
    }

    /// The number of requests that are run.
    fn run(&self) -> usize {
        self.requests.min(if self.tenths == TRACES[2].tenths { TPC_RUN } else { self.requests })
    }

    /// The first block of each client's file: a random location in the client's fifteenth of the
    /// blocks.
    fn clients(&self, rng: &mut SeededRng) -> Vec<u64> {
        let part = self.block_max / CLIENTS as u64;
        let room = part - part / 4;
        (0..CLIENTS as u64).map(|client| client * part + rng.below(room)).collect()
    }

    fn read(start: u64, len: u64) -> Operation {
        Operation::read(Extent::new(Lba(start), Sectors(len)))
    }
}

/// Batches of the clients, round robin in a fixed order that is not that of the disk.
fn round_robin(facts: &Facts, mut rng: SeededRng) -> Vec<Operation> {
    let mut at = facts.clients(&mut rng);
    for place in (1..CLIENTS).rev() {
        let other = usize::try_from(rng.below(place as u64 + 1)).expect("under fifteen");
        at.swap(place, other);
    }
    let mut next = |nth: usize| {
        let client = nth / CLIENT_BATCH % CLIENTS;
        let len = facts.size(&mut rng);
        at[client] += len;
        Facts::read(at[client] - len, len)
    };
    (0..facts.run()).map(&mut next).collect()
}

/// Rounds of one request per client, each in the order of the disk.
fn swept(facts: &Facts, mut rng: SeededRng) -> Vec<Operation> {
    let mut at = facts.clients(&mut rng);
    let mut next = |nth: usize| {
        let len = facts.size(&mut rng);
        let client = nth % CLIENTS;
        at[client] += len;
        Facts::read(at[client] - len, len)
    };
    (0..facts.run()).map(&mut next).collect()
}

fn scattered(facts: &Facts, mut rng: SeededRng) -> Vec<Operation> {
    let mut next = |_| {
        let len = facts.size(&mut rng);
        Facts::read(rng.below(facts.block_max - len), len)
    };
    (0..facts.run()).map(&mut next).collect()
}

/// Non-preemptible execution, FAST 2003's settings, the default settings.
fn executions() -> [Execution; 3] {
    [WHOLE, PAPER, ours()]
}

/// One row per trace: the figure `of` each execution.
fn each(on_progress: &mut dyn FnMut(f64), of: fn(&Point) -> f64) -> Vec<[f64; 3]> {
    let mut rows = Vec::new();
    for (facts, stream) in TRACES.iter().zip(0..) {
        let list = generate(facts, stream);
        let point = |execution| {
            let low = Low::Listed(Arc::clone(&list));
            Point { low, ..Point::of("st318437lw", execution) }
        };
        rows.push(executions().map(|how| of(&point(how))));
        on_progress(f64::from(u32::try_from(stream).expect("three") + 1) / 3.0);
    }
    rows
}

fn fig14(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let rows = each(on_progress, Point::wait);
    let spared: Vec<f64> = rows.iter().map(|row| lost(row[0], row[1])).collect();
    let most = spared.iter().copied().fold(0.0, f64::max);
    let video = rows[0][0] / rows[0][1];
    let within = |name: &str, ours, paper: f64, unit| {
        Check::within(name, ours, paper, paper * TOLERANCE, unit)
    };
    let checks = vec![
        within("most of the waiting spared by spIO, of three traces", most, 65.0, "%"),
        within("the video server (DV15): waiting of npIO ÷ spIO", video, 2.1, "times"),
    ];
    findings("waiting", "expected waiting, ms", "Expected waiting", &rows, checks)
}

fn fig15(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let rows = each(on_progress, |point| point.measure().mb_per_s);
    let losses: Vec<f64> = rows.iter().map(|row| lost(row[0], row[1])).collect();
    let most = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let checks = vec![
        Check::at_most("most throughput lost by spIO, of three traces", most, 10.0, "%")
            .beside(10.0),
        Check::at_most("the video server (DV15): lost", losses[0], 6.0, "%").beside(6.0),
        Check::at_most("Elevator15 ÷ DV15, npIO", rows[1][0] / rows[0][0], 1.0, "ratio"),
    ];
    findings("throughput", "throughput, MB/s", "Throughput", &rows, checks)
}

fn findings(name: &str, y: &str, what: &str, rows: &[[f64; 3]], checks: Vec<Check>) -> Findings {
    let mut table = Series::new(name, &["trace", "npio", "spio", "ours"]);
    for (row, nth) in rows.iter().zip(1_u32..) {
        table.rows.push([&[f64::from(nth)][..], row].concat());
    }
    let line = |column: usize, name: &str| Line {
        name: name.into(),
        points: table.points(0, column),
        dashed: false,
    };
    let plot = Plot {
        caption: format!("{what} with seeded equivalents of FAST 2003's traces (st318437lw)"),
        x: format!("trace: 1 {}, 2 {}, 3 {}", TRACES[0].name, TRACES[1].name, TRACES[2].name),
        y: y.into(),
        lines: vec![
            line(1, "non-preemptible"),
            line(2, "semi-preemptible, FAST 2003's"),
            line(3, "semi-preemptible, ours"),
        ],
        bars: true,
        ..Plot::default()
    };
    Findings { checks, series: vec![table], plots: vec![("", plot)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equivalents_have_table_1_s_sizes_and_ranges_and_two_of_them_its_counts() {
        for (facts, stream) in TRACES.iter().zip(0..) {
            let list = generate(facts, stream);
            let blocks: u64 = list.iter().map(|operation| operation.extent.len.0).sum();
            let tenths = blocks * 10 / list.len() as u64;
            assert!(tenths.abs_diff(facts.tenths) <= 3, "{}: {tenths}", facts.name);
            let last = list.iter().map(|operation| operation.extent.end().0 - 1).max();
            assert_eq!(last, Some(facts.block_max), "{}", facts.name);
            assert_eq!(list.len(), facts.requests.min(TPC_RUN), "{}", facts.name);
        }
    }
}
