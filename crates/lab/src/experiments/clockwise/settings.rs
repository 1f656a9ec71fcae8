//! The drive of RTAS 2000, and the seed of its experiments.

use drive_profile::Profile;

/// The seed of these experiments.
pub(super) const SEED: u64 = 1;
/// RTAS 2000's drive.
pub(super) const DRIVE: &str = "atlas-ii";

/// The assumed profile of RTAS 2000's drive.
pub(super) fn profile() -> Profile {
    let spec = drive_library::find_mechanical(DRIVE).expect("a drive of the library");
    drive_library::profile::assumed(&spec.check().expect("the library's drives are sound"))
}
