//! Scratch directories.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::{Ran, spindle, target_directory};

/// A directory that is removed with its value.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// An empty directory among the temporary files.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new() -> Self {
        Self(TempDir::new().expect("a scratch directory"))
    }

    /// An empty directory beside the binaries under test, on a disk: temporary files may be in
    /// memory, which has no direct access.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn beside() -> Self {
        Self(TempDir::new_in(target_directory()).expect("a scratch directory"))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of `name` in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file; returns its name, as commands that run in the directory take it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.join(name), content).expect("a scratch file");
        name.to_owned()
    }

    /// The names of its entries, sorted.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Runs `spindle` with `arguments` in a directory of a test, where it has to succeed.
///
/// # Panics
/// If its exit code is not 0.
pub fn held(scratch: &Scratch, arguments: &[&str]) -> Ran {
    let ran = spindle(scratch.path(), arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran
}
