//! Checking a pool: every copy of its metadata is read, and what is not whole is named. Nothing is guessed: what no copy
//! has is an error, and stays one. Opening a pool whose report is not empty repairs it ([`Pool::open`](super::Pool::open)).

use crate::pool::limits::FINDINGS_MAX;
use crate::pool::recovery::error::{Finding, OpenError};
use crate::pool::recovery::search::{FoundPool, Media, search};

/// What a check found.
#[derive(Debug)]
pub struct Report {
    /// The pool, put together from what is whole.
    pub found: FoundPool,
    /// What is damaged, up to [`FINDINGS_MAX`] of it.
    pub findings: Vec<Finding>,
    /// How much is, in all.
    pub count: usize,
}

impl Report {
    /// Whether every copy is whole and every disk there.
    pub fn is_whole(&self) -> bool {
        self.count == 0 && self.found.missing.is_empty()
    }
}

/// Reads every copy of the metadata on these disks. Nothing is written.
///
/// # Errors
/// If they are no pool, or what is damaged is not whole anywhere.
pub fn check(media: &[&dyn Media]) -> Result<Report, OpenError> {
    let found = search(media, true)?;
    let count = found.findings.len();
    let findings = found.findings.iter().take(FINDINGS_MAX).cloned().collect();
    Ok(Report { found, findings, count })
}
