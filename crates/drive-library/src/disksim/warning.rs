//! What was made of a parameter that DiskSim takes and that contradicts another, or its manual.

use core::fmt;

use super::tree::At;

/// A parameter that was taken in another sense than its number's, and in which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    file: String,
    line: usize,
    field: &'static str,
    made: String,
}

/// The warnings of one import, in the order of their discovery.
pub(super) type Warnings = Vec<Warning>;

impl Warning {
    pub(super) fn new(at: &At, field: &'static str, made: String) -> Self {
        Self { file: at.file.to_string(), line: at.line, field, made }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, field, made } = self;
        write!(f, "{file}:{line}: field `{field}`: {made}")
    }
}
