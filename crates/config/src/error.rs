//! The error of a config: its location, the value found, the value expected, and why a contract is
//! not admitted.

use core::fmt;

use input::{InputError, Problem};

use crate::demand::AdmissionFailure;

/// A config that cannot be used. One sentence on one line, with its parts for callers that print
/// JSON.
///
/// ```text
/// plan.toml:14: [[volume]] "seq": field `reserve`: found `80%`, expected at most 30% (…)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    input: InputError,
    unfit: Option<Box<AdmissionFailure>>,
}

impl From<InputError> for ConfigError {
    fn from(input: InputError) -> Self {
        Self { input, unfit: None }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        InputError::from(problem).into()
    }
}

impl ConfigError {
    /// A contract that the disk does not admit, and why.
    pub(crate) fn refusal(input: InputError, unfit: AdmissionFailure) -> Self {
        Self { input: input.as_refusal(), unfit: Some(Box::new(unfit)) }
    }

    /// Why a stream, or a reserve beside streams, is not admitted, if that is the error.
    pub fn admission_failure(&self) -> Option<&AdmissionFailure> {
        self.unfit.as_deref()
    }
}

impl core::ops::Deref for ConfigError {
    type Target = InputError;

    fn deref(&self) -> &InputError {
        &self.input
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt(f)
    }
}

impl std::error::Error for ConfigError {}
