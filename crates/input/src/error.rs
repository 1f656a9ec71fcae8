//! The error of every reader in this crate: its location, the value found, and what is accepted
//! instead.

use core::fmt;

/// Input that cannot be used: one sentence on one line, with its parts for callers that print JSON.
///
/// ```text
/// plan.toml:14: [[volume]] "seq": field `reserve`: found `80%`, expected at most 30% (…)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError(Box<Problem>);

/// The parts of an [`InputError`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The line, counted from 1; `None` if the file could not be read at all.
    pub line: Option<usize>,
    /// The table, by its name (`[[volume]] "seq"`) or its number (`[[workload]] #1`).
    pub table: Option<String>,
    /// The key within the table.
    pub field: Option<String>,
    /// The value found, shortened; `None` if there is none.
    pub found: Option<String>,
    /// What is accepted in its place.
    pub expected: String,
    /// Whether the value is valid and asks for more than is available.
    pub is_refusal: bool,
}

impl From<Problem> for InputError {
    fn from(problem: Problem) -> Self {
        assert!(problem.line != Some(0), "lines count from 1");
        Self(Box::new(problem))
    }
}

impl InputError {
    /// Marks the value as valid but in excess of what is available: an admission refusal.
    #[must_use]
    pub fn as_refusal(mut self) -> Self {
        self.0.is_refusal = true;
        self
    }

    /// Whether the value is valid and asks for more than is available: it may be accepted later.
    pub fn is_refusal(&self) -> bool {
        self.0.is_refusal
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The line, counted from 1; `None` if the file could not be read at all.
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }

    /// The table, by its name (`[[volume]] "seq"`) or its number (`[[workload]] #1`); `None` at the
    /// top of the file, and where the file is not TOML.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The key within the table, if the error is about one.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The value found, shortened if long; `None` if there is none.
    pub fn found(&self) -> Option<&str> {
        self.0.found.as_deref()
    }

    /// What is accepted in its place.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }
}

impl fmt::Display for InputError {
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

impl std::error::Error for InputError {}
