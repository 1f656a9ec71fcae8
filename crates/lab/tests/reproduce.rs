//! `spindle-lab reproduce` as a script sees it: exit codes, `--json`, and the files that it writes.

use std::path::Path;

use serde_json::Value;
use testkit::{Scratch, lab};

/// An SVG: one root, every element closed in the right order.
fn assert_svg(path: &Path) {
    let text = std::fs::read_to_string(path).expect("it was written");
    let mut open = Vec::new();
    for piece in text.split('<').skip(1) {
        let tag = piece.split('>').next().expect("split gives at least one");
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{}", path.display());
        } else if !tag.starts_with(['?', '!']) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(text.contains("<svg") && text.contains("<polyline"), "{}: curves", path.display());
    assert_eq!(open, [""; 0], "{}: all is closed", path.display());
}

/// A table of numbers under a header row; all rows have the header's length.
fn assert_csv(path: &Path, rows: usize) {
    let text = std::fs::read_to_string(path).expect("it was written");
    let columns = text.lines().next().expect("a head").split(',').count();
    for line in text.lines().skip(1) {
        let cells: Result<Vec<f64>, _> = line.split(',').map(str::parse).collect();
        assert_eq!(cells.expect("numbers").len(), columns, "{}: {line}", path.display());
    }
    assert_eq!(text.lines().count(), 1 + rows, "{}", path.display());
}

/// The names of the checks that are missed, each of which is known and has a reason; the counts
/// beside them are those of the checks.
fn missed(told: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let checks = list(&told["experiments"]).into_iter().flat_map(|one| list(&one["checks"]));
    let checks: Vec<Value> = checks.collect();
    for (verdict, holds) in [("held", Some(true)), ("known", Some(false)), ("missed", None)] {
        let of_it: Vec<_> = checks.iter().filter(|check| check["verdict"] == verdict).collect();
        assert_eq!(told["checks"][verdict], of_it.len(), "{verdict}");
        assert!(of_it.iter().all(|check| check["holds"].as_bool() == holds), "{verdict}");
    }
    let known = checks.iter().filter(|check| check["verdict"] == "known");
    let known: Vec<_> = known.collect();
    assert!(known.iter().all(|check| check["reason"].is_string()), "{known:?}");
    known.iter().map(|check| check["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn an_unknown_experiment_is_refused_with_those_there_are() {
    let scratch = Scratch::new();
    let ran = lab(scratch.path(), &["reproduce", "vdisk-fig1", "vdisk-fig3", "--out", "out"]);
    let message = ran.refusal();
    assert!(
        message.starts_with("spindle-lab: no experiment `vdisk-fig3`: expected one of "),
        "{message}"
    );
    assert!(message.contains("vdisk-fig11"), "{message}");
    assert_eq!(scratch.names(), [""; 0], "not even the one that is known was begun");
}

#[test]
fn a_result_directory_that_cannot_be_created_is_refused_before_the_run() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let ran = lab(scratch.path(), &["reproduce", "vdisk-fig1", "--out", "file/out"]);
    assert!(ran.refusal().starts_with("spindle-lab: file/out: "), "{ran:?}");
}

#[test]
fn the_papers_figures_are_reproduced_by_their_names() {
    let ids = ["vdisk-fig1", "vdisk-fig4", "vdisk-fig11", "drive-ncq-starvation"];
    let scratch = Scratch::new();
    let out = [&["reproduce"], &ids[..], &["--json", "--out", "out"]].concat();
    let ran = lab(scratch.path(), &out);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    assert_eq!(told["schema"], 1);
    let experiments = told["experiments"].as_array().expect("a list");
    assert_eq!(experiments.iter().map(|one| &one["id"]).collect::<Vec<_>>(), ids);
    for experiment in experiments {
        let checks = experiment["checks"].as_array().expect("a list");
        let kept = |check: &Value| check["holds"] == true || check["verdict"] == "known";
        assert!(!checks.is_empty() && checks.iter().all(kept), "{checks:?}");
        for file in experiment["files"].as_array().expect("a list") {
            assert!(scratch.join(file.as_str().expect("a name")).is_file(), "{file}");
        }
    }
    for name in ["fig1", "fig4-shares", "fig4-throughput", "fig11"] {
        assert_svg(&scratch.join(&format!("out/vdisk-{name}.svg")));
    }
    assert_svg(&scratch.join("out/drive-ncq-starvation.svg"));
    assert_csv(&scratch.join("out/drive-ncq-starvation-128KiB.csv"), 4);
    // 85 s and 60 s, a row every half second and one at the beginning; eleven splits.
    assert_csv(&scratch.join("out/vdisk-fig1-progress.csv"), 171);
    assert_csv(&scratch.join("out/vdisk-fig4-splits.csv"), 11);
    assert_csv(&scratch.join("out/vdisk-fig11-progress.csv"), 121);
}

#[test]
fn the_worth_of_reserves_is_measured_under_the_policy_asked_for() {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "worth-grid", "--sample", "--json", "--out", "out"];
    let under = |policy: &str| {
        let ran = lab(scratch.path(), &[&arguments[..], &["--policy", policy]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.json()
    };
    let (own, fcfs) = (under("utilization"), under("fcfs"));
    assert_eq!(own["id"], "worth-grid");
    for told in [&own, &fcfs] {
        for check in told["checks"].as_array().expect("a list") {
            assert!(check["holds"].is_null() && check["bound"].is_number(), "{check}");
        }
    }
    let worth_without_pauses = |told: &Value| told["series"][0]["rows"][0][3].as_f64();
    assert!(worth_without_pauses(&own) > Some(0.9), "{own}");
    assert!(worth_without_pauses(&fcfs) < Some(0.2), "{fcfs}");
    for drive in ["hgst-7k8", "nearline-20t"] {
        assert_svg(&scratch.join(&format!("out/worth-grid-{drive}-50.svg")));
        assert_csv(&scratch.join(&format!("out/worth-grid-{drive}.csv")), 4);
    }
    let ran = lab(scratch.path(), &["reproduce", "vdisk-fig1", "--policy", "edf"]);
    let expected = "spindle-lab: --policy edf: expected no --policy, or worth-grid among the \
                    experiments";
    assert_eq!(ran.refusal().trim_end(), expected);
}

#[test]
fn semi_preemptible_execution_is_compared_with_its_paper() {
    let ids = [
        "spio-example",
        "spio-fig5",
        "spio-fig9",
        "spio-fig11",
        "spio-fig13",
        "spio-fig15",
        "spio-fig16",
        "spio-table2",
        "spio-table3",
        "spio-external",
        "spio-better",
    ];
    let scratch = Scratch::new();
    let out = [&["reproduce"], &ids[..], &["--json", "--out", "out"]].concat();
    let ran = lab(scratch.path(), &out);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    // What FAST 2003 does not specify, and what no order of commands can reach.
    let known = ["cells of writes within 20 %", "video server (DV15): waiting of npIO ÷ ours"];
    assert_eq!(missed(&told), known);
    for name in [
        "fig5",
        "fig5-ide",
        "external",
        "fig9",
        "fig11",
        "fig13a",
        "fig13b",
        "fig15",
        "fig16",
        "table2-response",
    ] {
        assert_svg(&scratch.join(&format!("out/spio-{name}.svg")));
    }
    // A row for each published one.
    assert_csv(&scratch.join("out/spio-table2-responses.csv"), 12);
    assert_csv(&scratch.join("out/spio-fig9-waiting.csv"), 6);
}

#[test]
fn streams_with_deadlines_are_compared_with_their_paper() {
    let scratch = Scratch::new();
    let ids = [
        "clockwise-fig2",
        "clockwise-fig3",
        "clockwise-fig2-pool",
        "clockwise-fig3-pool",
        "clockwise-fig4-pool",
        "clockwise-bus",
    ];
    let out = [&["reproduce"], &ids[..], &["--json", "--out", "out"]].concat();
    let ran = lab(scratch.path(), &out);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    let known = [
        "random: load at the end",
        "rotation: EDF ÷ LST at the highest load",
        "random: LST ÷ ΔL at the highest load: almost identical",
    ];
    assert_eq!(missed(&told), known);
    for name in
        ["fig2", "fig3-rotation", "fig3-random", "fig2-pool", "fig3-pool", "fig4-pool", "bus"]
    {
        let figure = scratch.join(&format!("out/clockwise-{name}.svg"));
        let figure = std::fs::read_to_string(figure).expect("it was written");
        assert!(figure.starts_with("<svg") && figure.contains("MB/s"), "{name}");
    }
}

#[test]
fn iops_tags_are_compared_with_shares_of_time() {
    let scratch = Scratch::new();
    let ran = lab(scratch.path(), &["reproduce", "mclock", "--json", "--out", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    let checks = told["checks"].as_array().expect("a list");
    let ours = |name: &str| {
        let found = checks.iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["ours"].as_f64().expect("a number")
    };
    // mClock keeps what it states, and that is not what half of the disk is worth.
    for (cell, most) in [("5 and 30 ms", 0.5), ("sequential", 0.2)] {
        assert!(ours(&format!("{cell}: mClock: least rate ÷ reservation")) > 0.98, "{told}");
        assert!(ours(&format!("{cell}: mClock: least worth")) < most, "{told}");
        assert!(ours(&format!("{cell}: Spindle: least worth")) > 0.9, "{told}");
    }
    // A row for each client under each scheduler.
    assert_csv(&scratch.join("out/mclock-5-and-30-ms.csv"), 12);
    assert_csv(&scratch.join("out/mclock-sequential.csv"), 16);
    assert_csv(&scratch.join("out/mclock-bursts.csv"), 18);
}

#[test]
fn one_experiment_alone_prints_its_own_object_and_the_same_each_time() {
    let scratch = Scratch::new();
    let run = || lab(scratch.path(), &["reproduce", "vdisk-fig11", "--json", "--out", "out"]);
    let (first, file) =
        (run(), || std::fs::read(scratch.join("out/vdisk-fig11.json")).expect("written"));
    let (told, written) = (first.json(), file());
    assert_eq!((first.code, &told["id"]), (Some(0), &"vdisk-fig11".into()));
    assert_eq!(serde_json::from_slice::<Value>(&written).expect("JSON"), told);
    assert_eq!((run(), file()), (first, written));
}
