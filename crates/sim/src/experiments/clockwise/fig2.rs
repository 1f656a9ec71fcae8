//! Figure 2: the slack ΔL against the admitted load (RTAS 2000 §4.1).

use engine::stream::Range;
use report::{Line, Plot};
use units::DiskTime;

use super::super::{Check, Experiment, Findings, Series};
use super::layout::{Ground, Layout};
use super::{SEED, profile};

pub(in super::super) const FIG2: Experiment =
    Experiment { id: "clockwise-fig2", title: "slack against admitted load", run: fig2 };

const LINES: [(Layout, &str); 4] = [
    (Layout::Rotation, "rotation"),
    (Layout::Random, "random"),
    (Layout::Memory, "memory-optimised"),
    (Layout::MemoryLarge, "memory-optimised, large buffers"),
];
/// What the paper's loads end between, in MB/s.
const ENDS: [f64; 2] = [15.6, 21.0];

fn fig2(told: &mut dyn FnMut(f64)) -> Findings {
    let profile = profile();
    let mut tables = Vec::new();
    for ((layout, name), done) in LINES.into_iter().zip(1_u32..) {
        let mut table = Series::new(
            name.replace([' ', ','], "-").replace("--", "-"),
            &["streams", "load_mb_per_s", "slack_ms", "slack_in_the_papers_range_ms"],
        );
        let mut ground = Ground::new(layout, &profile, SEED);
        while ground.add_pair() {
            let least = |range| {
                let slacks = ground.sets().iter().filter(|set| !set.is_empty());
                slacks.map(|set| set.slack_in(range)).min().expect("a disk has a stream")
            };
            let streams = f64::from(u32::try_from(ground.streams().len()).expect("few"));
            let (all, paper) = (ms(least(Range::All)), ms(least(Range::Paper)));
            table.rows.push(vec![streams, ground.load(), all, paper]);
        }
        tables.push(table);
        told(f64::from(done) / 4.0);
    }
    let checks = checks(&tables);
    let line = |(table, (_, name)): (&Series, (Layout, &str))| Line {
        name: name.into(),
        points: table.points(1, 2),
        dashed: false,
    };
    let plot = Plot {
        caption: "Least slack of three atlas-ii against the load of the streams admitted".into(),
        x: "load of the streams, MB/s".into(),
        y: "slack ΔL, ms".into(),
        lines: tables.iter().zip(LINES).map(line).collect(),
        ..Plot::default()
    };
    Findings { checks, series: tables, plots: vec![("", plot)] }
}

fn checks(tables: &[Series]) -> Vec<Check> {
    let first = |table: usize| tables[table].rows[0][2];
    let end = |table: &Series| table.rows.last().expect("a pair fits")[1];
    let doubled =
        tables[3].rows.iter().zip(&tables[2].rows).map(|(large, small)| large[2] / small[2]);
    let mut checks = vec![
        Check::at_most("rotation: slack beside one pair of streams", first(0), 3_000.0, "ms"),
        Check::at_least("rotation: the same", first(0), 2_700.0, "ms"),
        Check::at_most("memory-optimised: slack beside one pair", first(2), 1_000.0, "ms"),
        Check::within(
            "large buffers ÷ memory-optimised, one pair",
            doubled.clone().next().expect("a pair"),
            2.0,
            0.2,
            "ratio",
        ),
    ];
    for (table, (_, name)) in tables.iter().zip(LINES) {
        let load = end(table);
        checks.push(Check::at_least(format!("{name}: load at the end"), load, ENDS[0], "MB/s"));
        checks.push(Check::at_most(format!("{name}: the same"), load, ENDS[1], "MB/s"));
    }
    checks.push(Check::at_most(
        "random: load at the end ÷ rotation's",
        end(&tables[1]) / end(&tables[0]),
        1.0,
        "ratio",
    ));
    checks
}

fn ms(time: DiskTime) -> f64 {
    time.as_secs_f64() * 1e3
}
