//! `faults` of a `[[disk]]` table: faults that an emulated disk or a disk in memory injects, for
//! tests. See [docs/src/guide/faults.md](../../../docs/src/guide/faults.md).

use units::Share;

use crate::defaults;
use crate::keys::FAULTS;
use crate::limits::{FAULT_STALL_MAX, FAULT_STALL_MIN};
use crate::plan::Faults;
use input::{InputError, Table};

const KEY: &str = "faults";

/// The faults of the table; `real` if the disk is a real one.
pub(crate) fn check(table: &Table<'_>, real: bool) -> Result<Option<Faults>, InputError> {
    if let Some(value) = table.value(KEY).filter(|_| real) {
        return Err(value.refuse("no such field beside `path`: real data is not put at risk"));
    }
    let Some(table) = table.braces(KEY, &FAULTS)? else { return Ok(None) };
    let share = |key| table.value(key).map_or(Ok(Share::NONE), |value| value.share());
    let seed = table.value("seed");
    let (stall, stalls) = (share("stall")?, FAULT_STALL_MIN..=FAULT_STALL_MAX);
    if let Some(value) = table.value("stall_for").filter(|_| stall.is_none()) {
        return Err(value.refuse("no such field, or a share of commands that `stall` beside it"));
    }
    let faults = Faults {
        seed: seed.map_or(Ok(defaults::SEED), |seed| seed.integer(0..=u64::MAX, ""))?,
        read: share("read")?,
        write: share("write")?,
        flush: share("flush")?,
        stall,
        stall_for: table.duration("stall_for", stalls, "", defaults::STALL)?,
        vanish_after: table
            .value("vanish_after")
            .map(|value| value.integer(1..=u64::MAX, ""))
            .transpose()?,
    };
    Ok(Some(faults))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use units::Duration;

    use super::*;
    use crate::Plan;

    const DISK: &str = "[[disk]]\nname = \"d\"\ndrive = \"memory\"\nsize = \"1MiB\"\n";

    fn parse(line: &str) -> Result<Option<Faults>, String> {
        let plan = Plan::parse(&format!("{DISK}{line}\n"), "plan.toml", Path::new(""));
        plan.map(|plan| plan.disks[0].faults).map_err(|error| error.to_string())
    }

    #[test]
    fn a_disk_fails_as_often_as_it_is_told_to() {
        assert_eq!(parse(""), Ok(None));
        let nothing = Faults {
            seed: 1,
            read: Share::NONE,
            write: Share::NONE,
            flush: Share::NONE,
            stall: Share::NONE,
            stall_for: Duration::from_millis(200),
            vanish_after: None,
        };
        assert_eq!(parse("faults = {}"), Ok(Some(nothing)));
        let line = "faults = { seed = 7, read = \"0.1%\", stall = \"1%\", stall_for = \"2s\", \
             vanish_after = 9 }";
        let expected = Faults {
            seed: 7,
            read: Share::from_ppb(1_000_000),
            stall: Share::from_percent(1),
            stall_for: Duration::from_secs(2),
            vanish_after: Some(9),
            ..nothing
        };
        assert_eq!(parse(line), Ok(Some(expected)));
    }

    #[test]
    fn what_faults_cannot_be_is_refused_with_what_they_can() {
        for (line, words) in [
            ("faults = 1", "field `faults`: found `1`, expected { seed = …, read = …"),
            ("faults = { raed = \"1%\" }", "expected one of the keys `seed`, `read`, `write`"),
            ("faults = { read = \"200%\" }", "[[disk]] \"d\" faults: field `read`: found"),
            ("faults = { stall_for = \"1s\" }", "a share of commands that `stall` beside it"),
            ("faults = { stall = \"1%\", stall_for = \"1h\" }", "field `stall_for`: found `1h`"),
            ("faults = { vanish_after = 0 }", "a whole number from 1 to"),
        ] {
            let error = parse(line).expect_err("it is none");
            assert!(error.contains(words) && error.starts_with("plan.toml:5"), "{line}: {error}");
        }
    }
}
