//! Drives and profiles as text: the drive library, the DiskSim importer, profile files.
//!
//! ```text
//! name ──────────── catalogue ─┐
//! X.toml ───────────── file ───┼─▶ drive::AnySpec ── check ──▶ a model
//! X.parv, X.diskspecs ─ disksim┘         ▲
//! PROFILE.toml ── profile::ProfileFile ─────┴─▶ the profile that an engine schedules by
//! ```

pub mod disksim;
pub mod profile;

mod catalogue;
mod file;
mod open;

pub use catalogue::{find, find_mechanical, names};
pub use file::{
    DRIVE_FILE_BYTES_MAX, DriveFileError, flash_to_toml, parse, parse_mechanical, to_toml,
};
pub use open::{OpenDriveError, open, open_mechanical};
