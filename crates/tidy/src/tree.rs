//! The files of the tree, and what a check reports of them.

use core::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ignore::WalkBuilder;

/// The endings of the files that are read.
const ENDINGS: [&str; 6] = ["rs", "md", "toml", "sh", "service", "socket"];
/// The files without an ending that are read.
const NAMES: [&str; 2] = ["Makefile", "run"];

/// One file, by its path from the root of the tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path from the root, with `/` between its parts.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// Whether the file's name has this ending.
    pub fn has_ending(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == ending)
    }

    /// The crate that the file belongs to, by the name of its folder.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the file is part of a crate's library or binary, not of its tests or examples.
    pub fn is_crate_source(&self) -> bool {
        let inner = self.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        self.has_ending("rs") && inner.is_some_and(|(_, inside)| inside.starts_with("src/"))
    }
}

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The path from the root of the tree.
    pub path: String,
    /// The line, from 1 on; 0 for the file as a whole.
    pub line: usize,
    /// What was found there, and what is expected.
    pub what: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// All files that the checks read.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Where the tree stands.
    pub root: PathBuf,
    /// The files, in the order of their paths.
    pub sources: Vec<Source>,
}

impl Tree {
    /// The tree that this crate was built in.
    ///
    /// # Errors
    /// Those of reading its files.
    pub fn of_workspace() -> io::Result<Self> {
        Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
    }

    /// All files below a folder that git does not ignore.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut sources = Vec::new();
        for entry in WalkBuilder::new(root).hidden(false).build() {
            let entry = entry.map_err(io::Error::other)?;
            let path = entry.path().strip_prefix(root).map_err(io::Error::other)?;
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if !is_file || path.starts_with(".git") || !is_read(path) {
                continue;
            }
            let text = fs::read_to_string(entry.path())?;
            let path = path.to_string_lossy().replace('\\', "/");
            sources.push(Source { path, text });
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root: root.into(), sources })
    }

    /// A tree of these files alone, for tests of the checks.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let source = |&(path, text): &(&str, &str)| Source { path: path.into(), text: text.into() };
        Self { root: PathBuf::new(), sources: files.iter().map(source).collect() }
    }
}

fn is_read(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let name = path.file_name().and_then(|name| name.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
        || name.is_some_and(|name| NAMES.contains(&name))
}
