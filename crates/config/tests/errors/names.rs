//! Names of disks and volumes.

use super::*;

#[test]
fn a_disk_without_a_name() {
    assert_eq!(
        refused(
            &["[[disk]]\nname = \"a\"\ndrive = \"deskstar-34gxp\"\n"],
            "[[disk]]\ndrive = \"x\"\n"
        ),
        "plan.toml:1: [[disk]] #2: field `name`: found nothing, expected a name"
    );
}

#[test]
fn an_empty_name() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = \"\"\n"),
        "plan.toml:2: [[disk]] #1: field `name`: found ``, expected a name of 1 to 255 bytes"
    );
}

#[test]
fn too_long_a_name_is_shown_shortened() {
    let shown = format!("{}…", "x".repeat(60));
    assert_eq!(
        refused(&[], &format!("[[disk]]\nname = \"{}\"\n", "x".repeat(256))),
        format!(
            "plan.toml:2: [[disk]] \"{shown}\": field `name`: found `{shown}`, expected a name \
             of 1 to 255 bytes"
        )
    );
}

#[test]
fn a_name_that_is_not_printable_is_shown_escaped() {
    for (bad, shown) in [
        ("a/b", "a/b"),
        (" a", " a"),
        ("a\\u001b[31m", "a\\u{1b}[31m"),
        ("a\\u202e", "a\\u{202e}"),
        ("a\\nb", "a\\nb"),
    ] {
        assert_eq!(
            refused(&[], &format!("[[disk]]\nname = \"{bad}\"\n")),
            format!(
                "plan.toml:2: [[disk]] \"{shown}\": field `name`: found `{shown}`, expected a \
                 name of \
                 printable characters without /, \\ and quotes, and without blanks at its ends"
            )
        );
    }
}

#[test]
fn a_name_that_is_not_a_string() {
    assert_eq!(
        refused(&[], "[[disk]]\nname = 7\n"),
        "plan.toml:2: [[disk]] #1: field `name`: found `7`, expected a name, in quotes"
    );
}

#[test]
fn two_disks_of_one_name() {
    assert_eq!(
        error(&format!("{DISK}{DISK}")).to_string(),
        "plan.toml:5: [[disk]] \"d0\": field `name`: found `d0`, expected a name of its own \
         (line 2 has this one already)"
    );
}

#[test]
fn two_volumes_of_one_name() {
    assert_eq!(
        error(&format!("{DISK}{VOLUME}{VOLUME}")).to_string(),
        "plan.toml:9: [[volume]] \"v\": field `name`: found `v`, expected a name of its own \
         (line 5 has this one already)"
    );
}
