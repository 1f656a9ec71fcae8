//! Commands that have moved to `spindle-lab`: their old spellings run it for one version.

use std::path::PathBuf;
use std::process::Command;

use testkit::{Ran, Scratch, binary, run};

/// A stand-in for `spindle-lab`: prints its arguments, as JSON for a plot.
const LAB: &str =
    "#!/bin/sh\necho \"$@\" >args\necho '{\"schema\":1,\"files\":[\"a.svg\"]}'\nexit 1\n";

/// A directory with `spindle` and without `spindle-lab`.
fn alone() -> (Scratch, PathBuf) {
    let scratch = Scratch::beside();
    let program = scratch.join("spindle");
    std::fs::hard_link(binary("spindle"), &program).expect("on the same file system");
    (scratch, program)
}

/// Puts a stand-in for `spindle-lab` beside `spindle`. Another process writes it: a program that is
/// open for writing is not run, and what another test starts meanwhile has what this one has open.
fn install_lab(scratch: &Scratch, text: &str) {
    scratch.write("lab.sh", text);
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(scratch.join("lab.sh")).arg(scratch.join("spindle-lab"));
    let ended = install.status().expect("coreutils are there");
    assert!(ended.success(), "install: {ended}");
}

fn ran(scratch: &Scratch, program: &PathBuf, arguments: &[&str]) -> Ran {
    let mut command = Command::new(program);
    command.args(arguments);
    run(command, scratch.path())
}

#[test]
fn an_old_spelling_runs_the_laboratory_with_the_new_words_and_says_so() {
    let (scratch, program) = alone();
    install_lab(&scratch, LAB);
    for (old, new) in [
        (&["bench", "nbd", "--seconds", "3"][..], "bench nbd --seconds 3"),
        (&["bench", "nbd", "--help"], "bench nbd --help"),
        (&["--json", "bench", "shares"], "--json bench shares"),
        (&["bench", "--json", "shares"], "--json bench shares"),
        (&["sim", "reproduce"], "reproduce"),
        (&["sim", "reproduce", "vdisk-fig1", "--out", "x"], "reproduce vdisk-fig1 --out x"),
        (&["drive", "validate", "d", "--trace", "t"], "validate d --trace t"),
        (&["demo", "--recorder"], "recorder --seconds 20"),
        (
            &["demo", "--recorder", "--policy", "fcfs", "--json"],
            "--json recorder --seconds 20 --policy fcfs",
        ),
    ] {
        let ran = ran(&scratch, &program, old);
        assert_eq!(ran.code, Some(1), "the exit code is the laboratory's: {ran:?}");
        let said = ran.stderr.trim_end();
        assert!(said.lines().count() == 1 && said.contains("has moved"), "{ran:?}");
        let args = std::fs::read_to_string(scratch.join("args")).expect("it was run");
        assert_eq!(args.trim_end(), new, "{old:?}");
    }
}

#[test]
fn without_the_laboratory_an_old_spelling_names_in_one_line_where_it_is_expected() {
    let (scratch, program) = alone();
    for arguments in [
        &["bench", "nbd"][..],
        &["sim", "reproduce"],
        &["drive", "validate", "d", "--trace", "t"],
        &["demo", "--recorder"],
        &["drive", "show", "hgst-7k8", "--out", "out"],
    ] {
        let ran = ran(&scratch, &program, arguments);
        let expected = scratch.join("spindle-lab").display().to_string();
        assert!(ran.refusal().contains(&expected), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn figures_of_the_old_spelling_are_the_laboratorys_and_are_printed_as_before() {
    let (scratch, program) = alone();
    install_lab(&scratch, &LAB.replace("exit 1", "exit 0"));
    let show = ["drive", "show", "hgst-7k8", "--out", "out", "--json"];
    let shown = ran(&scratch, &program, &show).json();
    assert_eq!(shown["files"], serde_json::json!(["a.svg"]));
    let args = std::fs::read_to_string(scratch.join("args")).expect("it was run");
    assert_eq!(args.trim_end(), "--json plot drive hgst-7k8 --out out");
}
