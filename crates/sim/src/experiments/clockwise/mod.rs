//! "Real-Time Disk Scheduling in a Mixed-Media File System" (RTAS 2000, Clockwise): streams with deadlines, and best effort
//! in their slack.
//!
//! Three `atlas-ii`, each with an engine of its own. Streams come in pairs, a video and its sound: every other pair is of
//! 245 KB/s, every other of 817 KB/s; the paper adds "either". A stream's consecutive blocks lie on consecutive disks,
//! whatever their size: only so does a disk serve a stream of 245 KB/s in blocks of 256 KB "approximately every 3 seconds".
//!
//! ```text
//! fig2   the slack against the load that is admitted
//! ```

mod fig2;
mod layout;

pub(super) use fig2::FIG2;

use config::drives;
use engine::Profile;

/// Where the dice of these experiments start.
const SEED: u64 = 1;
/// The paper's drive.
const DRIVE: &str = "atlas-ii";

/// What is known of the paper's drive.
fn profile() -> Profile {
    let spec = drives::library(DRIVE).expect("a drive of the library");
    config::profile::assumed(&spec.check().expect("the library's drives are sound"))
}
