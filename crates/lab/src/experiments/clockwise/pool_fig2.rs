//! Figure 2 on a pool: the slack ΔL against the load that is admitted (RTAS 2000 §4.1).

use engine::PolicyName;

use super::super::check::Check;
use super::super::experiment::{Experiment, Findings, Series};
use super::fig2::{ENDS, PERIOD_MS, findings, ms, table_name};
use super::pool::Placement;

pub(crate) const POOL_FIG2: Experiment = Experiment {
    id: "clockwise-fig2-pool",
    title: "slack against admitted load, with the layouts of a pool",
    run: fig2,
};

const LINES: [(Placement, &str); 4] = [
    (Placement::Stripe, "stripe"),
    (Placement::Random, "random"),
    (Placement::Single, "one disk"),
    (Placement::SingleLarge, "one disk, large buffers"),
];
/// RTAS 2000's policy: it admits streams alone, and no reserve beside them.
const POLICY: PolicyName = PolicyName::DeltaL;

fn fig2(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let mut tables = Vec::new();
    for ((placement, name), done) in LINES.into_iter().zip(1_u32..) {
        let mut table = Series::new(table_name(name), &["streams", "load_mb_per_s", "slack_ms"]);
        for load in placement.loads(POLICY) {
            let streams = f64::from(u32::try_from(load.kinds.len()).expect("few"));
            table.rows.push(vec![streams, load.mb_per_s(), ms(load.slack(POLICY))]);
        }
        tables.push(table);
        on_progress(f64::from(done) / 4.0);
    }
    let checks = checks(&tables);
    let caption = "Least slack of a pool of three atlas-ii against the load of the streams";
    findings(checks, tables, (caption, LINES.map(|(_, name)| name)))
}

fn checks(tables: &[Series]) -> Vec<Check> {
    let first = |table: usize| tables[table].rows[0][2];
    let end = |table: usize| tables[table].column(1).fold(0.0, f64::max);
    let doubled = first(3) / first(2);
    let mut checks = vec![
        Check::at_most("stripe: slack beside one pair", first(0), PERIOD_MS * 3.0, "ms")
            .beside(3_000.0),
        Check::at_least("stripe: the same", first(0), 2_850.0, "ms").beside(3_000.0),
        Check::at_most("one disk: slack beside one pair", first(2), 1_000.0, "ms"),
        Check::within(
            "large buffers ÷ one disk, slack beside one pair",
            doubled,
            2.0,
            0.2,
            "ratio",
        ),
    ];
    for table in [0, 2, 3] {
        let name = LINES[table].1;
        let load = end(table);
        checks.push(Check::at_least(format!("{name}: load at the end"), load, ENDS[0], "MB/s"));
        checks.push(Check::at_most(format!("{name}: the same"), load, ENDS[1], "MB/s"));
    }
    let part = end(1) / end(0);
    checks.push(Check::at_most("random ÷ stripe, load at the end", part, 1.0, "ratio"));
    let name = format!("{}: load at the end", LINES[1].1);
    checks.push(Check::unbounded(name, end(1), "MB/s", RANDOM));
    checks
}

const RANDOM: &str = "below RTAS 2000's least, 15.6: blocks on random disks come in no order, and \
                      each disk of a pool keeps time for every block";
