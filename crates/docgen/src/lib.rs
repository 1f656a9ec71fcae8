//! Reference pages, man pages and shell completions, generated from the code that they describe.
//!
//! ```text
//!  clap commands ──┐
//!  config keys   ──┤
//!  Feature       ──┤
//!  profile keys  ──┤
//!  api::metrics  ──┼─▶ pages() ── docs/src/reference/*   checked in, compared by a test
//!  OpenAPI       ──┤
//!  limits.rs     ──┘   man(), completions()              written by `make docs`
//! ```
//!
//! A page is a value until [`Page::write`] stores it, so that a test can compare all of them with
//! the files in the tree.

mod api_page;
mod command;
pub mod glossary;
mod keys;
mod limits;
mod man;
mod markdown;
mod metrics_page;
pub mod paths;
mod policies_page;
mod profile_page;

use std::io;
use std::path::{Path, PathBuf};

pub use man::{completions, man};

/// The command that writes the pages, for messages.
pub const COMMAND: &str = "cargo run --locked -p spindle-docgen";

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its path from the root of the tree, or of an output directory.
    pub path: String,
    /// Its whole content.
    pub text: String,
}

impl Page {
    /// Stores it below `root`.
    ///
    /// # Errors
    /// If a directory or the file cannot be written.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let path = root.join(&self.path);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, &self.text)
    }

    /// Whether the file below `root` has this content.
    pub fn is_current(&self, root: &Path) -> bool {
        std::fs::read_to_string(root.join(&self.path)).is_ok_and(|text| text == self.text)
    }
}

/// The root of the tree that this crate was built in.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The reference pages that are checked in.
///
/// # Errors
/// If the sources of the limits cannot be read.
pub fn pages() -> io::Result<Vec<Page>> {
    let reference =
        |name: &str, text: String| Page { path: format!("docs/src/reference/{name}"), text };
    let description = api::description();
    let json = description.to_pretty_json().expect("the description is JSON") + "\n";
    Ok(vec![
        reference("config.md", keys::page()),
        reference("policies.md", policies_page::page()),
        reference("profile-format.md", profile_page::page()),
        reference("spindle.md", command::page(spindle_cli::command())),
        reference("spindle-lab.md", command::page(spindle_lab::command())),
        reference("api.md", api_page::page(&json)),
        reference("openapi.json", json),
        reference("metrics.md", metrics_page::page()),
        reference("limits.md", limits::page(&root())?),
    ])
}
