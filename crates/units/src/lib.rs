//! Numbers that cannot be confused.
//!
//! Every quantity in a function's signature in Spindle has a type of its own, so that an address
//! is never added to a length and wall time is never paid where disk time was owed. All of them are
//! integers: one seed gives one result on every machine, in debug and in release.
//!
//! | type | unit | signed |
//! |---|---|---|
//! | [`Instant`] | ns since the epoch | no |
//! | [`Duration`] | ns of wall (or virtual) time | no |
//! | [`DiskTime`] | ns of a disk's time, an amount or a balance | yes |
//! | [`Lba`], [`Sectors`] | 512-byte sectors: an address, a length | no |
//! | [`Bytes`] | bytes | no |
//! | [`Angle`] | 2⁻³² of a revolution, wrapping | no |
//! | [`Share`] | 10⁻⁹ of the whole | no |
//!
//! What must not add does not compile:
//!
//! ```compile_fail
//! let wrong = spindle_units::Lba(8) + spindle_units::Lba(8);
//! ```
//! ```compile_fail
//! use spindle_units::{DiskTime, Duration};
//! let wrong: DiskTime = Duration::from_millis(1) + DiskTime::ZERO;
//! ```
//!
//! The crate has no dependencies and no `unsafe`.

mod angle;
mod io;
mod parse;
mod share;
mod space;
mod time;

pub use angle::{Angle, FULL_REVOLUTION};
pub use io::{Op, Operation};
pub use parse::{ParseError, Rate};
pub use share::Share;
pub use space::{Bytes, Extent, Lba, SECTOR_BYTES, Sectors};
pub use time::{DiskTime, Duration, Instant};
