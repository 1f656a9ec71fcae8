//! The one error of this crate: where it is, what is there, and what would be accepted.

use core::fmt;

use crate::timetable::Unfit;

/// A config that cannot be used. One sentence on one line, and its parts for those who print JSON.
///
/// ```text
/// plan.toml:14: [[volume]] "seq": field `reserve`: found `80%`, expected at most 30% (what is left of disk "d0")
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) file: String,
    pub(crate) line: Option<usize>,
    pub(crate) table: Option<String>,
    pub(crate) field: Option<String>,
    pub(crate) found: Option<String>,
    pub(crate) expected: String,
    pub(crate) refusal: bool,
    pub(crate) unfit: Option<Unfit>,
}

impl From<Parts> for ConfigError {
    fn from(parts: Parts) -> Self {
        assert!(parts.line != Some(0), "lines count from 1");
        Self(Box::new(parts))
    }
}

impl ConfigError {
    /// The same, of a value that is sound and asks for more than there is left.
    pub(crate) fn for_want_of_room(mut self) -> Self {
        self.0.refusal = true;
        self
    }

    /// The same, with why deadlines would not be met.
    pub(crate) fn of(mut self, unfit: Unfit) -> Self {
        self.0.unfit = Some(unfit);
        self
    }

    /// Why a stream, or a reserve beside streams, does not fit, if that is what is wrong.
    pub fn unfit(&self) -> Option<&Unfit> {
        self.0.unfit.as_ref()
    }

    /// Whether the value is sound and asks for more than there is left: it may be accepted at another time.
    pub fn is_refusal(&self) -> bool {
        self.0.refusal
    }

    /// The config's name.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The line, from 1; `None` if the file could not be read at all.
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }

    /// The table, by its name (`[[volume]] "seq"`) or its number (`[[workload]] #1`); `None` at the top
    /// of the file, and where the file is no TOML.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The key within the table, if it is about one.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// What stands there, shortened if long; `None` if nothing does.
    pub fn found(&self) -> Option<&str> {
        self.0.found.as_deref()
    }

    /// What would be accepted in its place.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())?;
        if let Some(line) = self.line() {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if let Some(table) = self.table() {
            write!(f, "{table}: ")?;
        }
        if let Some(field) = self.field() {
            write!(f, "field `{field}`: ")?;
        }
        match self.found() {
            Some(found) => write!(f, "found `{found}`, ")?,
            None => f.write_str("found nothing, ")?,
        }
        write!(f, "expected {}", self.expected())
    }
}

impl std::error::Error for ConfigError {}
