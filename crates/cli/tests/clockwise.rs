//! RTAS 2000's figures, by `spindle sim reproduce`.

mod common;

use common::{Scratch, spindle};

#[test]
fn streams_with_deadlines_are_held_against_their_paper() {
    let scratch = Scratch::new();
    let ids = ["clockwise-fig2", "clockwise-fig3"];
    let out = [&["sim", "reproduce"], &ids[..], &["--json", "--out", "out"]].concat();
    let ran = spindle(scratch.path(), &out);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = ran.json();
    for experiment in told["experiments"].as_array().expect("a list") {
        for check in experiment["checks"].as_array().expect("a list") {
            let name = check["name"].as_str().expect("a name");
            // What depends on how slow the inner zones are, and on how little slack the last load leaves.
            let may = ["random: load at the end", "random: LST ÷ ΔL at the highest load"];
            let missed = check["holds"] == false;
            assert!(!missed || may.iter().any(|start| name.starts_with(start)), "{check}");
        }
    }
    for name in ["fig2", "fig3-rotation", "fig3-random"] {
        let figure = scratch.join(&format!("out/clockwise-{name}.svg"));
        let figure = std::fs::read_to_string(figure).expect("it was written");
        assert!(figure.starts_with("<svg") && figure.contains("MB/s"), "{name}");
    }
}
