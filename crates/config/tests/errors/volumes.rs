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
fn on_an_unknown_disk() {
    assert_eq!(
        refused(&[DISK], "[[volume]]\nname = \"v\"\ndisk = \"d1\"\n"),
        "plan.toml:3: [[volume]] \"v\": field `disk`: found `d1`, expected one of the disks \"d0\""
    );
}

#[test]
fn where_there_is_no_disk() {
    assert_eq!(
        refused(&[], "[[volume]]\nname = \"v\"\ndisk = \"d1\"\n"),
        "plan.toml:3: [[volume]] \"v\": field `disk`: found `d1`, expected the name of a disk, \
         and there is none"
    );
}

#[test]
fn without_a_size() {
    assert_eq!(
        refused(&[DISK], "[[volume]]\nname = \"v\"\ndisk = \"d0\"\n"),
        "plan.toml:1: [[volume]] \"v\": field `size`: found nothing, expected a size such as \
         4KiB, 1MB or 20GiB"
    );
}

#[test]
fn of_an_invalid_size() {
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
            "plan.toml:1: [[volume]] \"v\": field `size`: found `{asked}B`, expected at most \
             {size} (the size of disk \"d0\")"
        )
    );
}

#[test]
fn that_together_exceed_the_disk() {
    let (bytes, _) = capacity();
    let first = format!("[[volume]]\nname = \"u\"\ndisk = \"d0\"\nsize = \"{}\"\n", bytes - 4096);
    assert_eq!(
        refused(&[DISK, &first], "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n"),
        "plan.toml:4: [[volume]] \"v\": field `size`: found `1GiB`, expected at most 4KiB (what \
         is left of disk \"d0\")"
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
        "plan.toml:5: [[volume]] \"w\": field `reserve`: found `80%`, expected at most 30% (what \
         is left of disk \"d0\")"
    );
}

#[test]
fn with_a_reserve_that_is_not_a_share() {
    assert_eq!(
        volume("size = \"1GiB\"\nreserve = \"0.7\"\n"),
        "plan.toml:2: [[volume]] \"v\": field `reserve`: found `0.7`, expected a share from 0% \
         to 100%"
    );
}

#[test]
fn with_a_limit_under_the_reserve() {
    assert_eq!(
        volume("size = \"1GiB\"\nreserve = \"50%\"\nlimit = \"40%\"\n"),
        "plan.toml:3: [[volume]] \"v\": field `limit`: found `40%`, expected at least 50% (the \
         reserve of the volume)"
    );
}

#[test]
fn with_a_limit_of_zero() {
    assert_eq!(
        volume("size = \"1GiB\"\nlimit = \"0%\"\n"),
        "plan.toml:2: [[volume]] \"v\": field `limit`: found `0%`, expected a share above 0%: \
         nothing lets no request through"
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

/// The message about a volume on a disk with a nominal rate of 68 commands per second.
fn rated(lines: &str) -> String {
    let disk = format!("{DISK}policy = \"throughput\"\nnominal_rate = \"68/s\"\n{VOLUME}");
    refused(&[&disk, "reserve = \"34/s\"\n"], lines)
}

#[test]
fn with_a_rate_on_a_disk_with_a_nominal_rate() {
    let second = "[[volume]]\nname = \"w\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
    for (line, what) in [
        ("reserve = \"35/s\"", "found `35/s`, expected at most 34/s (what is left of disk \"d0\")"),
        (
            "reserve = \"69/s\"",
            "found `69/s`, expected at most 68/s (the nominal rate of disk \"d0\")",
        ),
        ("reserve = \"10%\"", "found `10%`, expected a rate above zero such as 60/s or 0.5/s"),
    ] {
        assert_eq!(
            rated(&format!("{second}{line}\n")),
            format!("plan.toml:5: [[volume]] \"w\": field `reserve`: {what}")
        );
    }
    assert_eq!(
        rated(&format!("{second}iops = \"3/s\"\n")),
        "plan.toml:5: [[volume]] \"w\": field `iops`: found `3/s`, expected a `reserve` instead: \
         under \
         \"throughput\" it is a rate itself"
    );
}

#[test]
fn with_a_rate_that_the_disk_cannot_give() {
    assert_eq!(
        volume("size = \"1GiB\"\niops = \"900/s\"\n"),
        format!(
            "plan.toml:2: [[volume]] \"v\": field `iops`: found `900/s`, expected at most {} in \
             such runs \
             (all of disk \"d0\")",
            most(1)
        )
    );
    let first = format!("{VOLUME}reserve = \"90%\"\n");
    let second =
        "[[volume]]\nname = \"w\"\ndisk = \"d0\"\nsize = \"1GiB\"\niops = \"900/s\"\nrun = 64\n";
    let message = refused(&[DISK, &first], second);
    assert!(
        message.starts_with(
            "plan.toml:5: [[volume]] \"w\": field `iops`: found `900/s`, expected at most 10% "
        ) && message.contains("it takes "),
        "{message}"
    );
}

/// The rate of the whole disk with sequential runs of this length, as messages write it.
fn most(run: u64) -> String {
    let plan = Plan::parse(DISK, "plan.toml", Path::new("")).expect("a good config");
    let run = core::num::NonZeroU64::new(run).expect("some");
    let (mechanics, batch) = (plan.disks[0].mechanics().expect("an arm"), plan.disks[0].batch);
    let interval = mechanics.interval(units::Share::ALL, run, units::Sectors(8), batch);
    format!("{}/s", 1_000_000_000 / interval.expect("some").as_nanos())
}

#[test]
fn with_a_rate_on_a_disk_without_an_arm() {
    let flash = "[[disk]]\nname = \"d0\"\ndrive = \"samsung-870evo-1t\"\n";
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
    let message = refused(&[flash, volume], "iops = \"20/s\"\n");
    let expected = "found `20/s`, expected a `reserve` instead, or the `worst_case` of disk \
                    \"d0\": its drive has no arm to reckon with";
    assert!(message.ends_with(expected), "{message}");
    let declared = format!("{flash}worst_case = {{ command = \"10ms\", rate = \"200MB/s\" }}\n");
    let message = refused(&[&declared, volume], "iops = \"20/s\"\nrun = 8\n");
    let expected = "field `run`: found `8`, expected no such field: the drive has no arm, and a \
                    run saves it nothing";
    assert!(message.ends_with(expected), "{message}");
    // Twenty commands of 10 ms and 8 sectors of 2.56 us: 20.041 %, in hundredths of a point.
    let text = format!("{declared}{volume}iops = \"20/s\"\n");
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("it is accepted");
    assert_eq!(plan.volumes[0].contract.reserve, units::Share::from_ppb(200_500_000));
    let message = refused(&[&declared, volume], "iops = \"200/s\"\n");
    assert!(message.contains("expected at most 99/s"), "{message}");
}

#[test]
fn with_a_rate_and_keys_that_exclude_it() {
    for (lines, what) in [
        (
            "iops = \"9/s\"\nbandwidth = \"1MB/s\"",
            "bandwidth`: found `1MB/s`, expected one of `iops` and `bandwidth`",
        ),
        (
            "iops = \"9/s\"\nreserve = \"1%\"",
            "reserve`: found `1%`, expected no such field: the share is worked out from the rate",
        ),
        (
            "reserve = \"1%\"\nrun = 3",
            "run`: found `3`, expected no such field, or `iops` or `bandwidth`",
        ),
        (
            "size = \"1GiB\"\nbandwidth = \"2MB\"",
            "bandwidth`: found `2MB`, expected a bandwidth above zero such as 20MB/s or 5MiB/s",
        ),
    ] {
        let lines = if lines.starts_with("size") {
            lines.to_owned()
        } else {
            format!("size = \"1GiB\"\n{lines}")
        };
        let message = volume(&format!("{lines}\n"));
        assert!(message.ends_with(&format!("field `{what}")), "{message}");
    }
}

#[test]
fn with_part_of_the_reserve_headroom() {
    let disk = format!("{DISK}reserve_headroom = \"5%\"\n");
    assert_eq!(
        refused(&[&disk], &format!("{VOLUME}reserve = \"96%\"\n")),
        "plan.toml:5: [[volume]] \"v\": field `reserve`: found `96%`, expected at most 95% (what \
         is left of disk \"d0\")"
    );
}
