//! Runs of lines that stand in two places.
//!
//! Lines are compared without their white space and comments; lines without a letter, imports and
//! attributes do not count. What is in tests may repeat: each test reads on its own.

use std::collections::BTreeMap;

use crate::{Finding, Source, Tree};

/// How many lines in a row make a copy.
pub const LINES: usize = 10;

/// A line that counts: its number and what is compared of it.
type Line = (usize, String);

/// Runs of at least [`LINES`] lines that stand in two places; one finding a run.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources: Vec<&Source> =
        tree.sources.iter().filter(|source| source.is_crate_source() && !is_test(source)).collect();
    let lines: Vec<Vec<Line>> = sources.iter().map(|source| code(&source.text)).collect();
    let mut first: BTreeMap<Vec<&str>, (usize, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (nth, lines_here) in lines.iter().enumerate() {
        let mut at = 0;
        while at + LINES <= lines_here.len() {
            let window: Vec<&str> =
                lines_here[at..at + LINES].iter().map(|(_, text)| text.as_str()).collect();
            let Some(&(other, start)) = first.get(&window) else {
                first.insert(window, (nth, at));
                at += 1;
                continue;
            };
            let alike = |by: &usize| {
                let here = lines_here.get(at + by).map(|(_, text)| text);
                here.is_some() && here == lines[other].get(start + by).map(|(_, text)| text)
            };
            let length = (0..lines_here.len() - at).take_while(alike).count();
            let there = lines[other][start].0;
            let what = format!("{length} lines stand at {}:{there} too", sources[other].path);
            found.push(Finding::new(&sources[nth].path, lines_here[at].0, what));
            at += length;
        }
    }
    found
}

fn is_test(source: &Source) -> bool {
    source.path.ends_with("/tests.rs") || source.path.contains("/tests/")
}

/// The lines that count, up to the file's own tests.
fn code(text: &str) -> Vec<Line> {
    let body = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut lines = Vec::new();
    let mut imports = false;
    for (at, line) in body.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().trim();
        imports |= line.starts_with("use ") || line.starts_with("pub use ");
        if imports {
            imports = !line.ends_with(';');
            continue;
        }
        if line.chars().any(char::is_alphabetic) && !line.starts_with("#[") {
            lines.push((at + 1, line.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_in_two_files_are_found_once_and_nine_are_not() {
        let run = |lines: usize| {
            let lines: Vec<String> = (0..lines).map(|n| format!("let a{n} = {n};")).collect();
            lines.join("\n")
        };
        let tree = |text: &str| {
            Tree::of(&[
                ("crates/a/src/lib.rs", text),
                ("crates/b/src/lib.rs", &format!("x\n{text}")),
            ])
        };
        let found = check(&tree(&run(12)));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.starts_with("12 lines"), "{found:?}");
        assert!(check(&tree(&run(9))).is_empty());
    }
}
