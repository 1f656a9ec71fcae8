//! Disks of memory, without service time.

use std::path::Path;

use spindle_config::{Backing, Plan};
use units::Bytes;

fn parse(disk: &str) -> Result<Plan, String> {
    let text = format!(
        "[[disk]]\nname = \"d\"\n{disk}\n[[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \
         \"1MiB\"\nreserve = \"100%\"\n"
    );
    Plan::parse(&text, "x.toml", Path::new(".")).map_err(|error| error.to_string())
}

#[test]
fn a_disk_in_memory_has_its_configured_size_and_no_service_time() {
    let plan = parse("drive = \"memory\"\nsize = \"64MiB\"").expect("a plan");
    let disk = &plan.disks[0];
    assert_eq!(disk.backing, Backing::Memory);
    assert_eq!(disk.drive.model.capacity().bytes(), Bytes(64 << 20));
    assert!(disk.linger.as_nanos() == 0 && disk.batch.as_nanos() == 0);
    let plan = parse("drive = \"null\"\nsize = \"1GiB\"").expect("a plan");
    assert_eq!(plan.disks[0].backing, Backing::Null);
}

#[test]
fn keys_of_other_disks_are_refused_on_a_disk_of_memory() {
    let refused = |disk: &str| parse(disk).expect_err(disk);
    let missing = refused("drive = \"memory\"");
    assert!(
        missing.contains("`size`") && missing.contains("expected a size from 1MiB"),
        "{missing}"
    );
    for (disk, part) in [
        ("drive = \"memory\"\nsize = \"512KiB\"", "expected a size from 1MiB"),
        ("drive = \"null\"\nsize = \"1TiB\"", "expected a size from 1MiB"),
        ("drive = \"memory\"\nsize = \"64MiB\"\nbacking = \"ram\"", "no such field beside"),
        ("drive = \"hgst-7k8\"\nsize = \"64MiB\"", "no such field, or drive = \"memory\""),
    ] {
        assert!(refused(disk).contains(part), "{}", refused(disk));
    }
}
