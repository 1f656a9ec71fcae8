//! `[[volume]]` tables.

use super::*;

#[test]
fn on_no_disk() {
    assert_eq!(
        refused(&[DISK], "[[volume]]\nname = \"v\"\n"),
        "plan.toml:1: [[volume]] \"v\": field `disk`: found nothing, expected the name of a disk"
    );
}

#[test]
fn on_a_disk_that_nobody_knows() {
    assert_eq!(
        refused(&[DISK], "[[volume]]\nname = \"v\"\ndisk = \"d1\"\n"),
        "plan.toml:3: [[volume]] \"v\": field `disk`: found `d1`, expected one of the disks \"d0\""
    );
}

#[test]
fn where_there_is_no_disk() {
    assert_eq!(
        refused(&[], "[[volume]]\nname = \"v\"\ndisk = \"d1\"\n"),
        "plan.toml:3: [[volume]] \"v\": field `disk`: found `d1`, expected the name of a disk, and there is none"
    );
}

#[test]
fn without_a_size() {
    assert_eq!(
        refused(&[DISK], "[[volume]]\nname = \"v\"\ndisk = \"d0\"\n"),
        "plan.toml:1: [[volume]] \"v\": field `size`: found nothing, expected a size such as 4KiB, 1MB or 20GiB"
    );
}

#[test]
fn of_a_size_that_is_none() {
    for (bad, expected) in [
        ("0", "a size above zero"),
        ("513", "a multiple of 512 bytes"),
        ("4 gigs", "a size such as 4KiB, 1MB or 20GiB"),
    ] {
        assert_eq!(
            volume(&format!("size = \"{bad}\"\n")),
            format!(
                "plan.toml:1: [[volume]] \"v\": field `size`: found `{bad}`, expected {expected}"
            )
        );
    }
}

#[test]
fn bigger_than_the_disk() {
    let (bytes, size) = capacity();
    let asked = bytes + 512;
    assert_eq!(
        volume(&format!("size = \"{asked}B\"\n")),
        format!(
            "plan.toml:1: [[volume]] \"v\": field `size`: found `{asked}B`, expected at most {size} (the size of disk \"d0\")"
        )
    );
}

#[test]
fn that_together_exceed_the_disk() {
    let (bytes, _) = capacity();
    let first = format!("[[volume]]\nname = \"u\"\ndisk = \"d0\"\nsize = \"{}\"\n", bytes - 4096);
    assert_eq!(
        refused(&[DISK, &first], "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n"),
        "plan.toml:4: [[volume]] \"v\": field `size`: found `1GiB`, expected at most 4KiB (what is left of disk \"d0\")"
    );
}

#[test]
fn with_more_reserve_than_is_left() {
    let first = format!("{VOLUME}reserve = \"70%\"\n");
    assert_eq!(
        refused(
            &[DISK, &first],
            "[[volume]]\nname = \"w\"\ndisk = \"d0\"\nsize = \"1GiB\"\nreserve = \"80%\"\n"
        ),
        "plan.toml:5: [[volume]] \"w\": field `reserve`: found `80%`, expected at most 30% (what is left of disk \"d0\")"
    );
}

#[test]
fn with_a_reserve_that_is_no_share() {
    assert_eq!(
        volume("size = \"1GiB\"\nreserve = \"0.7\"\n"),
        "plan.toml:2: [[volume]] \"v\": field `reserve`: found `0.7`, expected a share from 0% to 100%"
    );
}

#[test]
fn with_a_limit_under_the_reserve() {
    assert_eq!(
        volume("size = \"1GiB\"\nreserve = \"50%\"\nlimit = \"40%\"\n"),
        "plan.toml:3: [[volume]] \"v\": field `limit`: found `40%`, expected at least 50% (the reserve of the volume)"
    );
}

#[test]
fn with_a_limit_of_nothing() {
    assert_eq!(
        volume("size = \"1GiB\"\nlimit = \"0%\"\n"),
        "plan.toml:2: [[volume]] \"v\": field `limit`: found `0%`, expected a share above 0%: nothing lets no request through"
    );
}

#[test]
fn too_many() {
    let volumes = "[[volume]]\n".repeat(10_001);
    assert_eq!(
        error(&volumes).to_string(),
        "plan.toml:10001: field `volume`: found `10001`, expected at most 10000 tables `[[volume]]`"
    );
}
