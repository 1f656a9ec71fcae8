//! `[log]`: the log of single requests, and flight records.

use std::path::Path;

use units::Bytes;

use input::{InputError, Table};

use super::path::path;

use crate::keys::LOG;
use crate::limits::{SLOW_MIN, TIME_MAX};
use crate::plan::{Log, LogFormat, RecordSettings};

pub(crate) fn check(top: &Table<'_>, base_dir: &Path) -> Result<Log, InputError> {
    let Some(table) = top.table("log", &LOG)? else { return Ok(Log::default()) };
    let slow = table.value("slow").map(|value| value.duration(SLOW_MIN..=TIME_MAX, ""));
    let format = table.value("format").map(|value| {
        const FORMATS: &str = "\"text\" or \"json\"";
        match value.text(FORMATS)? {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(value.refuse(FORMATS)),
        }
    });
    let most = table.value("record_max").map(|value| {
        let found: Bytes = value.quantity("a size such as 256MiB")?;
        if RecordSettings::accepts(found) {
            Ok(found)
        } else {
            Err(value.refuse("a size from 1MiB to 1TiB"))
        }
    });
    let most = most.transpose()?;
    let record = table.value("record").map(|value| {
        let directory = path(&value, value.text("a directory's path")?, base_dir)?;
        Ok::<_, InputError>(RecordSettings {
            directory,
            bytes_max: most.unwrap_or(RecordSettings::BYTES_DEFAULT),
        })
    });
    let record = record.transpose()?;
    if let (None, Some(value)) = (&record, table.value("record_max")) {
        return Err(value.refuse("no such field, or `record` beside it"));
    }
    Ok(Log { slow: slow.transpose()?, format: format.transpose()?, record })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use units::Duration;

    use super::*;
    use crate::Plan;

    fn parse(text: &str) -> Result<Log, String> {
        let plan = Plan::parse(text, "plan.toml", Path::new("/etc/spindle"));
        plan.map(|plan| plan.log).map_err(|error| error.to_string())
    }

    #[test]
    fn a_log_says_what_is_slow_and_where_records_go() {
        assert_eq!(parse("[log]"), Ok(Log::default()));
        let text = "[log]\nslow = \"500ms\"\nformat = \"json\"\nrecord = \"flight\"\n";
        let log = parse(text).expect("a log");
        assert_eq!(
            (log.slow, log.format),
            (Some(Duration::from_millis(500)), Some(LogFormat::Json))
        );
        let directory = PathBuf::from("/etc/spindle/flight");
        assert_eq!(log.record, Some(RecordSettings { directory, bytes_max: Bytes(256 << 20) }));
    }

    #[test]
    fn what_a_log_cannot_be_is_refused_with_what_it_can() {
        for (line, words) in [
            ("slow = \"0s\"", "plan.toml:2: [log]: field `slow`: found `0s`, expected"),
            ("format = \"xml\"", "field `format`: found `xml`, expected \"text\" or \"json\""),
            ("record_max = \"1GiB\"", "expected no such field, or `record` beside it"),
            ("record = \"x\"\nrecord_max = \"1KiB\"", "plan.toml:3"),
            ("speed = 1", "expected one of the keys `slow`, `format`, `record`, `record_max`"),
        ] {
            let error = parse(&format!("[log]\n{line}\n")).expect_err("it is none");
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
