//! What the two binaries, `spindle` and `spindle-lab`, share: exit status, output, tables,
//! progress.
//!
//! Results go to standard output (one JSON object with `--json`), messages and progress to
//! standard error. Both binaries write with [`print!`], [`println!`] and [`eprintln!`] of this
//! crate, which end the process quietly where the standard library's panic.

mod exit;
mod export;
mod lateness;
#[doc(hidden)]
pub mod output;
mod progress;
pub mod table;
mod version;

pub use exit::{BadInput, ExitStatus, bad_input, run};
pub use export::uri;
pub use lateness::LatenessUs;
pub use progress::Progress;
pub use version::long_version;
