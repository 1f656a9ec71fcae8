//! RealOptions a disk again, while whoever drives it goes on.
//!
//! ```text
//! asked for ─▶ commands that come are kept ─▶ those under way have ended ─▶ opened ─▶ the kept ones go on
//! ```

use std::fmt;

use crate::Disk;

/// Opens a disk anew: from the one that was, or after having closed it. Or says why that cannot be, and it is gone.
pub type OpenFn = Box<dyn FnOnce(Box<dyn Disk>) -> Result<Box<dyn Disk>, String> + Send>;

/// A disk that is to be opened again, and whom to tell.
pub struct ReopenRequest {
    pub(crate) open: OpenFn,
    pub(crate) on_done: Box<dyn FnOnce(Result<(), String>) + Send>,
}

impl ReopenRequest {
    /// With this; `on_done` is on_done how it went.
    pub fn new(open: OpenFn, on_done: impl FnOnce(Result<(), String>) + Send + 'static) -> Self {
        Self { open, on_done: Box::new(on_done) }
    }
}

impl fmt::Debug for ReopenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReopenRequest")
    }
}
