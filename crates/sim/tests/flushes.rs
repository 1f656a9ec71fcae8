//! Clients that make each of their writes durable, beside a backup that reads, under the policy
//! `spindle` on hgst-7k8.

use std::path::Path;

use config::{Access, Plan, Requests};
use spindle_sim::worth;
use stats::WorthReport;

const DATABASE: &str =
    "op = \"write\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\nflush_every = 1\n";
const BACKUP: &str = "op = \"read\"\naccess = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4\n";

/// A database of 1 GiB with 30 %, and a backup with the rest.
fn plan(think: &str) -> Plan {
    let think = if think.is_empty() { String::new() } else { format!("think = \"{think}\"\n") };
    let text = format!(
        "duration = \"20s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
         [[volume]]\nname = \"db\"\ndisk = \"d\"\nsize = \"1GiB\"\nreserve = \"30%\"\n\
         [[volume]]\nname = \"backup\"\ndisk = \"d\"\nsize = \"500GiB\"\nreserve = \"70%\"\n\
         [[workload]]\nvolume = \"db\"\n{DATABASE}{think}\
         [[workload]]\nvolume = \"backup\"\n{BACKUP}"
    );
    Plan::parse(&text, "flushes.toml", Path::new("")).expect("a sound scenario")
}

fn worths(plan: &Plan) -> [WorthReport; 2] {
    let warm_up = worth::default_warm_up(plan.duration.expect("a length"));
    let worths = worth::worths(plan, warm_up).into_iter().map(|worth| worth.expect("a reserve"));
    worths.collect::<Vec<_>>().try_into().expect("two volumes")
}

#[test]
fn a_database_that_writes_at_random_commits_forty_times_a_second_beside_a_backup() {
    for think in ["", "100us", "300us"] {
        let [database, backup] = worths(&plan(think));
        // A write and a flush.
        let commits = database.rate / 2.0;
        assert!(commits >= 40.0, "think {think}: {commits} a second, {database:?}");
        assert!(database.value >= 0.85, "think {think}: {database:?}");
        assert!(backup.value >= 0.9, "think {think}: {backup:?}");
    }
}

#[test]
fn a_log_that_is_flushed_after_each_write_has_its_worth() {
    for think in ["", "100us", "300us", "1ms"] {
        let mut plan = plan(think);
        let Requests::Synthetic(drawn) = &mut plan.workloads[0].requests else { panic!("drawn") };
        drawn.access = Access::Sequential { run: None };
        let [log, backup] = worths(&plan);
        assert!(log.value >= 0.85, "think {think}: {log:?}");
        assert!(log.latency_ms.p99 <= 120.0, "think {think}: {log:?}");
        assert!(backup.value >= 0.85, "think {think}: {backup:?}");
    }
}
