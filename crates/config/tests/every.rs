//! `Plan::check` reports every error of a config at once, and none that is only the consequence of
//! another.

use std::path::Path;

use spindle_config::limits::ERRORS_MAX;
use spindle_config::{Plan, Purpose};

/// The lines of the errors and their messages, without the file's name.
fn errors(text: &str, purpose: Purpose) -> Vec<String> {
    let checked = Plan::check(text, "plan.toml", Path::new(""), purpose);
    let errors = checked.map_or_else(|errors| errors, |_| Vec::new());
    let told = errors.iter().map(ToString::to_string);
    told.map(|text| text.trim_start_matches("plan.toml:").to_owned()).collect()
}

fn assert_errors(text: &str, purpose: Purpose, expected: &[&str]) {
    let found = errors(text, purpose);
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
    assert!(same, "found {found:#?}, expected {expected:#?}");
}

const TWO_VOLUMES: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "ram"

[[volume]]
name = "a"
disk = "d0"
size = "1GiB"
reserve = "60%"

[[volume]]
name = "b"
disk = "d0"
size = "1GiB"
reserve = "30%"
"#;

#[test]
fn a_config_without_errors_is_a_plan() {
    let text = TWO_VOLUMES.replace("backing = \"ram\"", "backing = \"disk.img\"");
    let plan = Plan::check(&text, "plan.toml", Path::new(""), Purpose::Serve);
    assert_eq!(plan.expect("the config is right").volumes.len(), 2);
}

#[test]
fn independent_errors_are_all_reported_in_the_order_of_lines() {
    let text = TWO_VOLUMES
        .replace("backing = \"ram\"", "backing = \"disk.img\"\nperiod = \"1 fortnight\"")
        .replace("reserve = \"60%\"", "reserve = \"sixty\"\ncolour = \"red\"")
        .replace("reserve = \"30%\"", "reserve = \"30%\"\nlimit = \"20%\"");
    let expected = [
        "5: [[disk]] \"d0\": field `period`",
        "11: [[volume]] \"a\": field `reserve`",
        "12: [[volume]] \"a\": field `colour`",
        "19: [[volume]] \"b\": field `limit`",
    ];
    assert_errors(&text, Purpose::Serve, &expected);
}

#[test]
fn volumes_of_a_disk_that_is_refused_are_no_errors_of_their_own() {
    let text = TWO_VOLUMES.replace("drive = \"hgst-7k8\"", "drive = \"hgst-7k9\"");
    assert_errors(&text, Purpose::Serve, &["3: [[disk]] \"d0\": field `drive`"]);
}

#[test]
fn a_required_key_that_is_wrong_is_reported_once() {
    let text = TWO_VOLUMES
        .replace("backing = \"ram\"", "backing = \"disk.img\"")
        .replace("size = \"1GiB\"\nreserve = \"60%\"", "size = \"big\"\nreserve = \"160%\"");
    let expected = ["9: [[volume]] \"a\": field `size`"];
    let found = errors(&text, Purpose::Serve);
    assert!(found[0].starts_with(expected[0]), "{found:#?}");
    assert!(found.iter().all(|error| !error.contains("found nothing")), "{found:#?}");
}

#[test]
fn each_contract_that_does_not_fit_is_reported() {
    let text = TWO_VOLUMES.replace("backing = \"ram\"", "backing = \"disk.img\"");
    let more = "\n[[volume]]\nname = \"c\"\ndisk = \"d0\"\nsize = \"1GiB\"\nreserve = \"40%\"\n\
                \n[[volume]]\nname = \"d\"\ndisk = \"d0\"\nsize = \"1GiB\"\nreserve = \"50%\"\n";
    let expected =
        ["22: [[volume]] \"c\": field `reserve`", "28: [[volume]] \"d\": field `reserve`"];
    assert_errors(&format!("{text}{more}"), Purpose::Serve, &expected);
}

#[test]
fn tables_without_names_keep_their_numbers() {
    let text = TWO_VOLUMES.replace("backing = \"ram\"", "backing = \"disk.img\"");
    let rest = "access = \"random\"\nblock = \"4KiB\"\noutstanding = 1\nstop = \"9s\"\n";
    let workloads = format!(
        "\n[[workload]]\nvolume = \"z\"\nop = \"read\"\n{rest}\
         \n[[workload]]\nvolume = \"a\"\nop = \"zigzag\"\n{rest}"
    );
    let found = errors(&format!("{text}{workloads}"), Purpose::Simulation);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("19: [[workload]] #1: field `volume`"), "{found:#?}");
    assert!(found[1].starts_with("28: [[workload]] #2: field `op`"), "{found:#?}");
}

#[test]
fn text_whose_tables_cannot_be_told_is_one_error() {
    assert_errors("[[dusk]\nname = 1\n[[disk]]\n", Purpose::Serve, &["1: "]);
}

#[test]
fn what_is_no_toml_hides_nothing_else() {
    let text = TWO_VOLUMES
        .replacen("[[disk]]", "[[disk]", 1)
        .replace("reserve = \"60%\"", "reserve = 60%")
        .replace("reserve = \"30%\"", "reserve = \"30%\"\nsize = \"2GiB\"\nweight = 0");
    let expected = [
        "1: found `[[disk]`, expected TOML",
        "10: found `reserve = 60%`, expected TOML",
        "17: found `size = \"2GiB\"`, expected TOML: duplicate key",
        "18: [[volume]] \"b\": field `weight`: found `0`",
    ];
    assert_errors(&text, Purpose::Serve, &expected);
}

#[test]
fn one_bracket_for_two_and_two_for_one_hide_nothing_else() {
    let text = "[disk]\nname = \"d0\"\ndrive = \"hgst-7k8\"\ndepth = 0\n\
                [[pool]]\ndisks = [\"d1\"]\n[[pool.volume]]\nname = \"v\"\nsize = \"x\"\n";
    let expected = [
        "1: field `disk`: found `[disk]`, expected tables `[[disk]]`",
        "4: [[disk]] \"d0\": field `depth`: found `0`",
        "5: field `pool`: found `[[pool]]`, expected a table `[pool]`",
        "6: [pool]: field `disks`: found `d1`",
        "9: [[pool.volume]] \"v\": field `size`: found `x`",
    ];
    assert_errors(text, Purpose::Serve, &expected);
}

#[test]
fn a_stand_in_is_never_named() {
    let text = "[[volume]]\nname = \"a\"\ndisk = \"x\"\nsize = \"1\"\n\
                [[volume]]\nname = \"b\"\ndisk = \"y\"\nsize = \"1GiB\"\n";
    let found = errors(text, Purpose::Serve);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found.iter().all(|error| !error.contains("stand-in")), "{found:#?}");
    let none = |error: &String| error.ends_with("expected the name of a disk, and there is none");
    assert_eq!(found.iter().filter(|error| none(error)).count(), 2, "{found:#?}");
}

#[test]
fn an_empty_config_lacks_a_disk() {
    assert_errors("", Purpose::Serve, &["1: field `disk`"]);
}

#[test]
fn errors_beyond_the_limit_are_not_reported() {
    let table = "[[volume]]\nsize = \"x\"\n";
    let text = table.repeat(2 * ERRORS_MAX);
    assert_eq!(errors(&text, Purpose::Serve).len(), ERRORS_MAX);
}
