//! Text files of settings, read with errors that name the file, the line, the table and the field.
//!
//! ```text
//! file ── read_text ──▶ text ── Source::parse ──▶ TOML ── Table, Value ──▶ checked quantities
//! ```
//!
//! Configs, drive files and profiles share these readers, so that all of them report errors alike.
//! Each table is read against its [`TableKeys`], which also describes the keys for the reference
//! pages.
//!
//! Invariant: no input panics.

mod error;
mod file;
mod schema;
mod table;
mod text;

pub use error::{InputError, Problem};
pub use file::{read_at_most, read_text};
pub use schema::{Key, TableKeys};
pub use table::{INTERVAL_MIN, Source, TIME_MAX, Table, Value};
pub use text::{list, shorten, size_text, time_text};
