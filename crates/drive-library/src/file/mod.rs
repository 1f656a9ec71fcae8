//! The format of drive files: TOML that describes a mechanical or a flash drive.

mod firmware;
mod flash;
mod kind;
mod mechanical;
mod parse;
mod renamed;
mod text;
mod value;
mod write_flash;
mod write_mechanical;

pub use parse::{DRIVE_FILE_BYTES_MAX, DriveFileError, parse, parse_mechanical};
pub(crate) use text::{LINE_CHARS_MAX, exact_time, wrapped_list};
pub use write_flash::flash_to_toml;
pub use write_mechanical::to_toml;
