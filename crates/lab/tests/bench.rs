//! `spindle-lab bench` as a script sees it.

use serde_json::Value;
use testkit::{Scratch, lab};

#[test]
fn the_bench_prints_its_measurements_and_its_exit_code_is_its_verdict() {
    let scratch = Scratch::new();
    let ran = lab(scratch.path(), &["bench", "preempt", "--seconds", "2", "--json"]);
    let told = ran.json();
    let holds = told["holds"].as_bool().expect("a judgement");
    assert_eq!(ran.code, Some(i32::from(!holds)), "{told}");
    let rows = told["rows"].as_array().expect("a list");
    let shape = |row: &Value| {
        let executed = row.get("executed").is_some();
        (row["execution"].as_str() == Some("preemptible"), executed, row["requests_per_s"].as_u64())
    };
    let shapes: Vec<_> = rows.iter().map(shape).collect();
    let expected = [(false, Some(1)), (true, Some(1)), (false, Some(10)), (true, Some(10))];
    assert_eq!(shapes, expected.map(|(preemptible, rate)| (preemptible, preemptible, rate)));
    let ratios = told["ratios"].as_array().expect("a list");
    assert_eq!(holds, ratios.iter().all(|ratios| ratios["holds"] == true), "{told}");
    let too_large = lab(scratch.path(), &["bench", "preempt", "--size", "10GiB"]);
    assert_eq!(too_large.code, Some(2), "{too_large:?}");
}
