//! Checking a pool: every copy of its metadata is read, and each damaged copy is reported. Nothing
//! is guessed: what no copy holds is an error, and stays one. Opening a pool with findings repairs
//! it ([`Pool::open`](crate::pool::Pool::open)).

use crate::pool::limits::FINDINGS_MAX;
use crate::pool::recovery::error::{Finding, OpenError};
use crate::pool::recovery::search::{FoundPool, Media, search};
use crate::pool::sums::check_sums;

/// What a check found.
#[derive(Debug)]
pub struct Report {
    /// The pool, assembled from intact copies.
    pub found: FoundPool,
    /// Damaged copies, up to [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// The number of all findings.
    pub count: usize,
}

impl Report {
    /// Whether every copy is intact and every disk present.
    pub fn is_whole(&self) -> bool {
        self.count == 0 && self.found.missing.is_empty()
    }
}

/// Reads every copy of the metadata on these disks. Nothing is written.
///
/// # Errors
/// If they are not a pool, or no copy of a part is intact.
pub fn check(media: &[&dyn Media]) -> Result<Report, OpenError> {
    let mut found = search(media, true)?;
    let sums = check_sums(media, &found);
    found.findings.extend(sums);
    let count = found.findings.len();
    let findings = found.findings.iter().take(FINDINGS_MAX).cloned().collect();
    let findings: Vec<Finding> = findings;
    assert!(findings.len() <= FINDINGS_MAX, "the list has a limit");
    assert!(findings.len() <= count, "the list is a part");
    Ok(Report { found, findings, count })
}
