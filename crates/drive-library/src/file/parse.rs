//! Reads drive files.
//!
//! Errors read `FILE:LINE: field ...: what, expected ...`.

use core::fmt;

use drive::{AnySpec, Spec, SpecError};

use super::flash::FlashFile;
use super::kind::{Kind, KindTable};
use super::mechanical::DriveFile;
use super::renamed::earlier_name;

/// The size limit of a drive file.
pub const DRIVE_FILE_BYTES_MAX: usize = 4 << 20;

/// An invalid drive file. Shown as `FILE:LINE: field ...: what, expected ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveFileError {
    file: String,
    line: usize,
    field: String,
    reason: String,
}

impl DriveFileError {
    /// The line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The field, if one can be named.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The error, and what is accepted.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for DriveFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, field, reason } = self;
        write!(f, "{file}:{line}: field `{field}`: {reason}")
    }
}

impl std::error::Error for DriveFileError {}

/// Reads the file of a mechanical drive; `file` is its name in errors.
///
/// # Errors
/// The error names the line, the field and what is accepted.
pub fn parse_mechanical(text: &str, file: &str) -> Result<Spec, DriveFileError> {
    match parse(text, file)? {
        AnySpec::Mechanical(spec) => Ok(*spec),
        AnySpec::Flash(_) => {
            let key = text.lines().position(|line| key_of(line) == Some("kind"));
            let reason = "is `flash`, expected `mechanical`: only a drive with an arm does this";
            let (file, field) = (file.to_owned(), "kind".to_owned());
            let line = key.map_or(1, |line| line + 1);
            Err(DriveFileError { file, line, field, reason: reason.to_owned() })
        }
    }
}

/// Reads a drive file of either kind; `file` is its name in errors.
///
/// # Errors
/// The error names the line, the field and what is accepted.
pub fn parse(text: &str, file: &str) -> Result<AnySpec, DriveFileError> {
    let refused = |line, field: &str, reason: String| DriveFileError {
        file: file.to_owned(),
        line,
        field: field.to_owned(),
        reason,
    };
    if text.len() > DRIVE_FILE_BYTES_MAX {
        let reason = format!("has {} bytes, expected {DRIVE_FILE_BYTES_MAX} at most", text.len());
        return Err(refused(1, "file", reason));
    }
    let wrong = |error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let message = error.message().trim().replace('\n', " ");
        let field = field_named(&message, text, line);
        let reason = match earlier_name(&field) {
            // TOML has no key twice: the other is the earlier name.
            Some(earlier) if message.starts_with("duplicate field") => {
                format!("stands beside `{earlier}`, its earlier name, expected one of them")
            }
            _ if message.contains("expected") => message.clone(),
            _ => format!("{message}, expected a drive file"),
        };
        refused(line, &field, reason)
    };
    let kind = toml::from_str::<KindTable>(text).map_err(wrong)?.kind();
    let spec = match kind {
        Kind::Flash => {
            let drive: FlashFile = toml::from_str(text).map_err(wrong)?;
            AnySpec::Flash(Box::new(drive.spec()))
        }
        Kind::Mechanical => {
            let drive: DriveFile = toml::from_str(text).map_err(wrong)?;
            let spec = drive.spec().map_err(|reason| refused(1, "rpm", reason))?;
            AnySpec::Mechanical(Box::new(spec))
        }
    };
    match spec.clone().check() {
        Ok(_) => Ok(spec),
        Err(error) => {
            Err(refused(line_of(text, &error), &error.field().to_string(), error.reason()))
        }
    }
}

/// The line, from 1, of a byte.
fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// The name in backquotes if the message contains one, else the key on the line.
fn field_named(message: &str, text: &str, line: usize) -> String {
    for about in ["missing field `", "unknown field `", "duplicate field `"] {
        if let Some(name) = message.strip_prefix(about).and_then(|rest| rest.split('`').next()) {
            return name.to_owned();
        }
    }
    // A value that spans lines has its key above.
    let above = text.lines().take(line).collect::<Vec<_>>();
    above.iter().rev().find_map(|line| key_of(line)).unwrap_or("file").to_owned()
}

fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!key.is_empty() && key.chars().all(word)).then_some(key)
}

/// The line of the field that a check refused: the file's tables have the names of the fields,
/// except for the period, which can be written as `rpm`.
fn line_of(text: &str, error: &SpecError) -> usize {
    let field = error.field();
    let name = match field.name {
        "" => "points",
        "period" if !text.lines().any(|line| key_of(line) == Some("period")) => "rpm",
        name => name,
    };
    let mut lines = (1..).zip(text.lines());
    let mut found = 1;
    if let Some(table) = field.table {
        let (header, nth) = match field.index {
            Some(index) if table == "zones" => (format!("[[{table}]]"), index),
            _ => (format!("[{table}]"), 0),
        };
        let mut headers = lines.by_ref().filter(|(_, line)| line.trim_start().starts_with(&header));
        let Some((line, _)) = headers.nth(nth) else { return found };
        found = line;
    }
    let names = [Some(name), earlier_name(name)];
    let is_field = |line: &str| key_of(line).is_some_and(|key| names.contains(&Some(key)));
    let key = lines.find(|(_, line)| is_field(line) || line.contains(&format!("[[{name}]]")));
    key.map_or(found, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_file_is_refused_with_line_field_and_what_is_expected() {
        let good = include_str!("../../drives/deskstar-34gxp.toml");
        let line = |part: &str| line_at(good, good.find(part).expect("in the file"));
        let refused = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            parse_mechanical(&good.replacen(from, to, 1), "x.toml").expect_err(to).to_string()
        };
        let rpm = line("\nrpm = ") + 1;
        assert_eq!(
            refused("\nrpm = 7200", "\nrpm = 0"),
            format!("x.toml:{rpm}: field `period`: is 0 ns, expected 100000 to 1000000000")
        );
        let text = refused("\nrpm = 7200", "\nrpm = \"fast\"");
        assert!(text.starts_with(&format!("x.toml:{rpm}: field `rpm`: ")), "{text}");
        assert!(text.contains("expected"), "{text}");
        let switch = line("\nhead_switch") + 1;
        let text = refused("head_switch = \"", "head_switch = \"x");
        assert!(
            text.starts_with(&format!("x.toml:{switch}: field `head_switch`: found `x")),
            "{text}"
        );
        let text = refused("\nrpm = 7200", "\nrpm = 7200\nrmp = 7200");
        assert!(text.starts_with(&format!("x.toml:{}: field `rmp`: unknown", rpm + 1)), "{text}");
        let text = refused("\nrpm = 7200", "\n");
        assert!(text.contains("field `rpm`: missing field `rpm`, expected"), "{text}");
        let queue =
            |keys: &str| refused("\n[overheads]", &format!("\n[queue]\n{keys}\n[overheads]"));
        let at = line("\n[overheads]") + 1;
        assert_eq!(
            queue("order = \"shortest-positioning\"\nage_limit = \"1ms\""),
            format!(
                "x.toml:{}: field `queue.age_limit`: is 1000000 ns, expected 8333333 to \
                 60000000000",
                at + 2
            )
        );
        let text = queue("order = \"elevator\"");
        assert!(text.starts_with(&format!("x.toml:{}: field `order`: unknown", at + 1)), "{text}");
        let second = line_at(good, good.match_indices("[[zones]]").nth(1).expect("two zones").0);
        let text = refused("first_cylinder = 1500", "first_cylinder = 1501");
        let expected = format!(
            "x.toml:{}: field `zones[1].first_cylinder`: is 1501, expected 1500",
            second + 1
        );
        assert!(text.starts_with(&expected), "{text}\n{expected}");
        assert!(
            parse_mechanical("[", "y.toml").expect_err("no file").to_string().contains("expected")
        );
    }
}
