//! Errors of the syntax: each is recorded, and its line replaced by one that can be parsed.
//!
//! A value that is no TOML (`reserve = 30%`) becomes an empty text, and a header with one bracket
//! too few gets it. Lines stay where they are. Where that does not help, the rest of the file is
//! not checked: what it says depends on what the line was meant to be.

use input::Source;

use crate::error::ConfigError;
use crate::limits::ERRORS_MAX;

/// A text that is TOML, unless [`Repaired::errors_or`] says otherwise.
pub(super) struct Repaired {
    pub(super) text: String,
    pub(super) errors: Vec<ConfigError>,
    /// The lines on which a value was replaced, and its key.
    pub(super) values: Vec<(usize, String)>,
}

impl Repaired {
    /// All errors of a text that is still no TOML.
    pub(super) fn errors_or(self, first: ConfigError) -> Vec<ConfigError> {
        if self.errors.is_empty() { vec![first] } else { self.errors }
    }
}

pub(super) fn repair(text: &str, file: &str) -> Repaired {
    let mut repaired = Repaired { text: text.to_owned(), errors: Vec::new(), values: Vec::new() };
    let mut last = (0, 0);
    while repaired.errors.len() < ERRORS_MAX {
        let Err(error) = Source::new(file, &repaired.text).parse() else { break };
        let line = error.line().unwrap_or_default();
        let attempts = if last.0 == line { last.1 + 1 } else { 1 };
        last = (line, attempts);
        if attempts == 1 {
            repaired.errors.push(error.into());
        } else if let Some((_, key)) = repaired.values.pop_if(|(at, _)| *at == line) {
            // The key is there twice, say: the line is as if it were not there.
            debug_assert!(!key.is_empty(), "a key has a name");
            repaired.text = with_line(&repaired.text, line, "");
            continue;
        }
        let Some((mended, key)) = mend(&repaired.text, line).filter(|_| attempts == 1) else {
            break;
        };
        repaired.text = mended;
        repaired.values.extend(key.map(|key| (line, key)));
    }
    repaired
}

/// The text with one line replaced, and the key whose value was.
fn mend(text: &str, number: usize) -> Option<(String, Option<String>)> {
    let line = text.split('\n').nth(number.checked_sub(1)?)?;
    let trimmed = line.trim();
    let (new, key) = if trimmed.starts_with('[') {
        (header(trimmed)?, None)
    } else {
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key = trimmed.split(|c| !is_key(c)).next().filter(|key| !key.is_empty())?;
        (format!("{key} = \"\""), Some(key.to_owned()))
    };
    Some((with_line(text, number, &new), key))
}

fn with_line(text: &str, number: usize, new: &str) -> String {
    let lines = text.split('\n').enumerate();
    let lines: Vec<_> = lines.map(|(at, old)| if at + 1 == number { new } else { old }).collect();
    lines.join("\n")
}

/// A header with as many brackets as its table has.
fn header(line: &str) -> Option<String> {
    let name = line.split('#').next().unwrap_or_default().trim();
    let name = name.trim_matches(|c: char| c == '[' || c == ']' || c.is_whitespace());
    match name {
        "bus" | "disk" | "volume" | "change" | "workload" | "pool.volume" => {
            Some(format!("[[{name}]]"))
        }
        "pool" | "listen" | "nbd" | "log" => Some(format!("[{name}]")),
        _ => None,
    }
}
