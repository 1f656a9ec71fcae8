//! The document says what the code does.

use spindle_volume::pool::format::{
    Field, HEADER_FIELDS, IMAGE_DISK_BYTES, IMAGE_DISK_FIELDS, IMAGE_HEAD_BYTES, IMAGE_HEAD_FIELDS,
    IMAGE_VOLUME_BYTES, IMAGE_VOLUME_FIELDS, LABEL_FIELDS, RECORD_FIELDS, RECORD_HEAD_BYTES,
    RUN_BYTES, RUN_FIELDS, SCRUB_BYTES, SCRUB_FIELDS, STALE_BYTES, STALE_FIELDS, VERSION,
};
use spindle_volume::pool::limits;
use spindle_volume::pool::sums::{
    LEDGER_FIELDS, LEDGER_HEAD_BYTES, PAGE_FIELDS, PAGE_HEAD_BYTES, SUMS_OF_REGION,
    SUMS_REGION_BLOCKS,
};

const DOCUMENT: &str = include_str!("../../../docs/src/reference/pool-format.md");

/// What stands under a heading, up to the next.
fn section(heading: &str) -> &'static str {
    let start = DOCUMENT.find(&format!("# {heading}\n")).expect("the heading is there");
    let text = &DOCUMENT[start + heading.len() + 3..];
    &text[..text.find("\n#").unwrap_or(text.len())]
}

/// The cells of a section's table, without its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let rows = section(heading).lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn compare(heading: &str, fields: &[Field]) {
    let documented: Vec<_> = table(heading)
        .into_iter()
        .map(|row| (row[0].parse().expect("a number"), row[1].parse().expect("a number"), row[2]))
        .collect();
    let real: Vec<_> = fields.iter().map(|field| (field.offset, field.bytes, field.name)).collect();
    assert_eq!(documented, real, "{heading}");
    for two in fields.windows(2) {
        assert!(two[0].offset + two[0].bytes <= two[1].offset, "{} overlaps", two[1].name);
    }
}

#[test]
fn every_field_has_the_documented_place() {
    compare("Label", &LABEL_FIELDS);
    compare("Header of a slot", &HEADER_FIELDS);
    compare("Record", &RECORD_FIELDS);
    compare("Image head", &IMAGE_HEAD_FIELDS);
    compare("Disk", &IMAGE_DISK_FIELDS);
    compare("Volume", &IMAGE_VOLUME_FIELDS);
    compare("Extent", &RUN_FIELDS);
    compare("Stale", &STALE_FIELDS);
    compare("Scrub", &SCRUB_FIELDS);
    compare("Ledger", &LEDGER_FIELDS);
    compare("Page", &PAGE_FIELDS);
}

#[test]
fn every_structure_has_the_documented_length() {
    let lengths = [
        ("Image head", IMAGE_HEAD_BYTES),
        ("Disk", IMAGE_DISK_BYTES),
        ("Volume", IMAGE_VOLUME_BYTES),
        ("Extent", RUN_BYTES),
        ("Stale", STALE_BYTES),
        ("Scrub", SCRUB_BYTES),
    ];
    for (heading, bytes) in lengths {
        assert!(
            section(heading).contains(&format!("\n{bytes} bytes.")),
            "{heading} has {bytes} bytes"
        );
    }
    assert!(section("Record").contains(&format!("begin at byte {RECORD_HEAD_BYTES}.")));
    assert!(DOCUMENT.contains(&format!("\nVersion {VERSION}. ")));
    assert!(section("Ledger").contains(&format!("begin at byte {LEDGER_HEAD_BYTES},")));
    assert!(section("Page").contains(&format!("begin at byte {PAGE_HEAD_BYTES},")));
    let area = section("Checksum area");
    assert!(area.contains(&format!("has {SUMS_REGION_BLOCKS} blocks")));
    let count = format!("{},{}", SUMS_OF_REGION / 1_000, SUMS_OF_REGION % 1_000);
    assert!(area.contains(&format!("each of its {count} units")));
}

#[test]
fn every_limit_has_the_documented_value() {
    let documented: Vec<_> = table("Limits")
        .into_iter()
        .map(|row| (row[0].trim_matches('`'), row[1].parse::<u64>().expect("a number")))
        .collect();
    let real = [
        ("DISKS_MAX", limits::DISKS_MAX as u64),
        ("VOLUMES_MAX", limits::VOLUMES_MAX as u64),
        ("SNAPSHOTS_MAX", limits::SNAPSHOTS_MAX as u64),
        ("EXTENTS_MAX", limits::EXTENTS_MAX as u64),
        ("STALE_RUNS_MAX", limits::STALE_RUNS_MAX as u64),
        ("NAME_BYTES_MAX", limits::NAME_BYTES_MAX as u64),
        ("DISK_BLOCKS_MAX", u64::from(limits::DISK_BLOCKS_MAX)),
        ("VOLUME_BLOCKS_MAX", u64::from(limits::VOLUME_BLOCKS_MAX)),
        ("IMAGE_UNITS_MIN", u64::from(limits::IMAGE_UNITS_MIN)),
        ("IMAGE_UNITS_MAX", u64::from(limits::IMAGE_UNITS_MAX)),
        ("LOG_UNITS_MIN", u64::from(limits::LOG_UNITS_MIN)),
        ("LOG_UNITS_MAX", u64::from(limits::LOG_UNITS_MAX)),
    ];
    assert_eq!(documented, real);
}
