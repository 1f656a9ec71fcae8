//! The error of reading a trace: its location, what was found, and what is accepted.

use core::fmt;
use std::borrow::Cow;

const FOUND_CHARS_MAX: usize = 80;

/// A location in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The trace as a whole: it cannot be opened, its format is unknown, or it is empty.
    Whole,
    /// In a line of a text, from 1.
    Line(u64),
    /// In a record of a binary file, from 1, which begins at this byte.
    Record {
        /// Its number.
        number: u64,
        /// Where it begins, from the file's start.
        byte: u64,
    },
}

/// A trace that cannot be read any further. No record follows the error.
///
/// ```text
/// web.trace:7: found a time of 2.5ms after one of 3ms, expected times that do not go back
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    file: String,
    position: Position,
    fault: Fault,
}

/// An error without its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) found: String,
    pub(crate) expected: Cow<'static, str>,
}

impl Fault {
    pub(crate) fn new(found: impl Into<String>, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { found: found.into(), expected: expected.into() }
    }

    /// An error about text of the trace, quoted and shortened.
    pub(crate) fn of(text: &str, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(quoted(text), expected)
    }

    pub(crate) fn at(self, file: &str, position: Position) -> TraceError {
        TraceError(Box::new(Parts { file: file.to_owned(), position, fault: self }))
    }
}

impl TraceError {
    /// The trace's name.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Its location.
    pub fn position(&self) -> Position {
        self.0.position
    }

    /// What was found there.
    pub fn found(&self) -> &str {
        &self.0.fault.found
    }

    /// What is accepted in its place.
    pub fn expected(&self) -> &str {
        &self.0.fault.expected
    }
}

/// A text on one line of a message: short, without characters that a terminal would interpret.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown = String::from("`");
    for (index, c) in text.trim().chars().enumerate() {
        if index == FOUND_CHARS_MAX {
            shown.push('…');
            break;
        }
        if matches!(c, '"' | '\'' | '\\') {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown + "`"
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())?;
        match self.position() {
            Position::Whole => {}
            Position::Line(line) => write!(f, ":{line}")?,
            Position::Record { number, byte } => write!(f, ": record {number} (byte {byte})")?,
        }
        write!(f, ": found {}, expected {}", self.found(), self.expected())
    }
}

impl std::error::Error for TraceError {}
