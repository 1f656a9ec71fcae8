//! Reopening a disk while its driver goes on.
//!
//! ```text
//! requested ─▶ new commands are held ─▶ those in flight complete ─▶ opened ─▶ held ones go on
//! ```

use core::fmt;

use crate::disk::Disk;

/// Opens a disk again, from the old one or after closing it. On an error the disk is offline.
pub type OpenFn = Box<dyn FnOnce(Box<dyn Disk>) -> Result<Box<dyn Disk>, String> + Send>;

/// A request to reopen a disk.
pub struct ReopenRequest {
    pub(crate) open: OpenFn,
    pub(crate) on_done: Box<dyn FnOnce(Result<(), String>) + Send>,
    /// Whether a healthy disk is reopened too.
    pub(crate) is_forced: bool,
}

impl ReopenRequest {
    /// Reopens with `open`; `on_done` receives the outcome.
    pub fn new(open: OpenFn, on_done: impl FnOnce(Result<(), String>) + Send + 'static) -> Self {
        Self { open, on_done: Box::new(on_done), is_forced: false }
    }

    /// A healthy disk is reopened too: it failed a command that says nothing about the others.
    #[must_use]
    pub fn forced(self) -> Self {
        Self { is_forced: true, ..self }
    }
}

impl fmt::Debug for ReopenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReopenRequest")
    }
}
