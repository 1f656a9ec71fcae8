//! The glossary's types: each row names the type that carries its term, and the type exists.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// The glossary, from the root of the tree.
pub const PATH: &str = "docs/src/glossary.md";

/// The names in the glossary's third column (the types), each with its line.
pub fn types(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells.len() < 6 || cells[1] == "term" || cells[1].starts_with("---") {
            continue;
        }
        for name in cells[3].split('`').skip(1).step_by(2) {
            found.push((at + 1, name.to_owned()));
        }
    }
    found
}

/// Every type, function and constant that the crates below `root` define, and their crates' names.
///
/// # Errors
/// If a source cannot be read.
pub fn defined(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name() {
            names.insert(name.to_string_lossy().into_owned());
        }
        collect(&path.join("src"), &mut names)?;
    }
    Ok(names)
}

fn collect(directory: &Path, names: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            definitions(&std::fs::read_to_string(&path)?, names);
        }
    }
    Ok(())
}

/// The names that the lines of a source define.
fn definitions(source: &str, names: &mut BTreeSet<String>) {
    const KINDS: [&str; 6] = ["struct", "enum", "trait", "type", "fn", "const"];
    const BEFORE: [&str; 5] = ["pub", "pub(crate)", "pub(super)", "const", "async"];
    for line in source.lines() {
        let mut words = line.split_whitespace().skip_while(|word| {
            BEFORE.contains(word) && !(*word == "const" && line.contains(" = "))
        });
        let Some(kind) = words.next().filter(|kind| KINDS.contains(kind)) else { continue };
        let name = words.next().unwrap_or_default();
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        if !(kind == "const" && name.starts_with("fn")) {
            names.insert(name[..end].to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_all_kinds_are_found() {
        let mut names = BTreeSet::new();
        let source = "pub struct Pool<'a> {\npub(crate) enum Kind {\n    pub const fn ends() {\n\
                      pub const DEPTH_MAX: u32 = 32;\nlet trap = 1;\n";
        definitions(source, &mut names);
        let found: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(found, ["DEPTH_MAX", "Kind", "Pool", "ends"]);
    }

    #[test]
    fn a_row_names_its_types_in_the_third_column() {
        let page = "| term | meaning | type | source |\n|---|---|---|---|\n\
                    | slack | `x` | `Slack`, `Room` | y |\n";
        let found: Vec<_> = types(page).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["Slack", "Room"]);
    }
}
