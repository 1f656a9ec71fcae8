//! The command line of `spindle-lab`: help, and usage that is refused.

use testkit::{Scratch, lab};

#[test]
fn every_command_has_help() {
    let scratch = Scratch::new();
    let commands: [&[&str]; 12] = [
        &[],
        &["bench"],
        &["bench", "shares"],
        &["bench", "preempt"],
        &["bench", "vdisk"],
        &["bench", "insulation"],
        &["reproduce"],
        &["validate"],
        &["recorder"],
        &["plot"],
        &["plot", "drive"],
        &["plot", "profile"],
    ];
    for command in commands {
        let ran = lab(scratch.path(), &[command, &["--help"]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command:?}");
        let words = ["Usage: spindle-lab"].iter().chain(command).copied();
        let usage = words.collect::<Vec<_>>().join(" ");
        assert!(ran.stdout.contains(&usage), "{}", ran.stdout);
    }
    let version = lab(scratch.path(), &["-V"]);
    assert_eq!(version.stdout, format!("spindle-lab {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn bad_usage_exits_with_2_and_says_how_to_get_help() {
    let scratch = Scratch::new();
    for arguments in [&["frob"][..], &[], &["bench"], &["validate"], &["plot", "drive"]] {
        let ran = lab(scratch.path(), arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.contains("--help") || ran.stderr.contains("Usage"), "{}", ran.stderr);
    }
}
