//! Opening a disk again, while whoever drives it goes on.
//!
//! ```text
//! asked for ─▶ commands that come are kept ─▶ those under way have ended ─▶ opened ─▶ the kept ones go on
//! ```

use std::fmt;

use crate::Disk;

/// Opens a disk anew: from the one that was, or after having closed it. Or says why that cannot be, and it is gone.
pub type Opener = Box<dyn FnOnce(Box<dyn Disk>) -> Result<Box<dyn Disk>, String> + Send>;

/// A disk that is to be opened again, and whom to tell.
pub struct Reopening {
    pub(crate) opener: Opener,
    pub(crate) told: Box<dyn FnOnce(Result<(), String>) + Send>,
}

impl Reopening {
    /// With this; `told` is told how it went.
    pub fn new(opener: Opener, told: impl FnOnce(Result<(), String>) + Send + 'static) -> Self {
        Self { opener, told: Box::new(told) }
    }
}

impl fmt::Debug for Reopening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reopening")
    }
}
