//! One test per error, with its complete message.

mod disks;
mod files;
mod keys;
mod latencies;
mod names;
mod nbd;
mod policies;
mod pools;
mod purposes;
mod streams;
mod syntax;
mod top;
mod traces;
mod volumes;
mod workloads;

use std::path::Path;

use spindle_config::{ConfigError, Plan};

const DISK: &str = "[[disk]]\nname = \"d0\"\ndrive = \"deskstar-34gxp\"\n";
const VOLUME: &str = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
const WORKLOAD: &str =
    "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n";

fn error(text: &str) -> ConfigError {
    Plan::parse(text, "plan.toml", Path::new("")).expect_err("is refused")
}

/// The message about a config that ends in `text`; its lines count from the beginning of `text`.
fn refused(before: &[&str], text: &str) -> String {
    let before = before.concat();
    let error = error(&format!("{before}{text}"));
    let at = error.line().expect("a line");
    let own =
        at.checked_sub(before.lines().count()).expect("it is about the text, not what is before");
    error.to_string().replacen(&format!("plan.toml:{at}"), &format!("plan.toml:{own}"), 1)
}

fn disk(lines: &str) -> String {
    refused(&[DISK], lines)
}

fn volume(lines: &str) -> String {
    refused(&[DISK, "[[volume]]\nname = \"v\"\ndisk = \"d0\"\n"], lines)
}

fn workload(lines: &str) -> String {
    refused(&[DISK, VOLUME, WORKLOAD], lines)
}

fn expect(message: &str, at: &str, found: &str, expected: &str) {
    assert_eq!(message, format!("plan.toml:{at}: found {found}, expected {expected}"));
}

/// The size of the drive in these tests, as messages write it.
fn capacity() -> (u64, String) {
    let plan = Plan::parse(DISK, "plan.toml", Path::new("")).expect("a good config");
    let bytes = plan.disks[0].drive.model.capacity().bytes();
    let short = bytes.to_string();
    (bytes.0, if short.parse() == Ok(bytes) { short } else { format!("{}B", bytes.0) })
}

/// The accepted depths; no drive of the library may have a queue of the largest accepted depth.
fn depths() -> String {
    let plan = Plan::parse(DISK, "plan.toml", Path::new("")).expect("a good config");
    match plan.disks[0].drive.model.queue_depth_max() {
        few @ 1..256 => {
            format!("a whole number from 1 to {few} (the queue of the drive), or \"auto\"")
        }
        _ => "a whole number from 1 to 256, or \"auto\"".to_owned(),
    }
}

fn library() -> String {
    drive_library::names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

#[test]
fn an_error_has_its_parts_for_callers_that_print_json() {
    let error = error(&format!("{DISK}depth = 99\n"));
    assert_eq!((error.file(), error.line()), ("plan.toml", Some(4)));
    assert_eq!((error.table(), error.field()), (Some("[[disk]] \"d0\""), Some("depth")));
    assert_eq!((error.found(), error.expected()), (Some("99"), depths().as_str()));
}
