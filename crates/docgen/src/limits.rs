//! The page of limits: the constants of each `limits.rs` with their comments.

use core::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::markdown::{cell, head, paragraph};

/// A constant of a `limits.rs`.
#[derive(Debug, PartialEq, Eq)]
struct Limit {
    name: String,
    value: String,
    comment: String,
}

/// The page, from the sources below `root`.
pub(crate) fn page(root: &Path) -> io::Result<String> {
    let mut text = head("Limits", "the `limits.rs` files");
    text.push_str(&paragraph(
        "Nothing that input can make grow is unbounded. Each crate names its limits in one file; \
         constant assertions relate them to each other. Values are as in the source; sizes are in \
         bytes and lengths in sectors of 512 bytes where the type does not say otherwise.",
    ));
    for path in files(&root.join("crates"))? {
        let source = std::fs::read_to_string(&path)?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let _ = writeln!(text, "\n## {}\n\n`{shown}`\n", title(&shown));
        text.push_str("| limit | value | meaning |\n|---|---|---|\n");
        for Limit { name, value, comment } in limits(&source) {
            let _ = writeln!(text, "| `{name}` | `{}` | {} |", cell(&value), cell(&comment));
        }
    }
    Ok(text)
}

/// `crates/volume/src/pool/limits.rs`: `volume/pool`.
fn title(path: &str) -> String {
    let parts = path.split('/').filter(|part| !["crates", "src", "limits.rs"].contains(part));
    parts.collect::<Vec<_>>().join("/")
}

/// Every `limits.rs` below a directory, sorted.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_own = path == Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        if path.is_dir() && !is_own && !path.ends_with("docgen") {
            found.extend(files(&path)?);
        } else if path.ends_with("limits.rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The public constants of a source, with what stands before each as its comment.
fn limits(source: &str) -> Vec<Limit> {
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut statement: Option<String> = None;
    for line in source.lines().map(str::trim) {
        if let Some(mut begun) = statement.take() {
            begun.push(' ');
            begun.push_str(line);
            statement = finish(begun, &mut comment, &mut found);
        } else if let Some(more) = line.strip_prefix("/// ") {
            comment.push_str(more);
            comment.push(' ');
        } else if let Some(constant) = line.strip_prefix("pub const ") {
            statement = finish(constant.to_owned(), &mut comment, &mut found);
        } else if !line.starts_with("///") {
            comment.clear();
        }
    }
    found
}

/// A constant that ends with `;` joins the limits; another is given back.
fn finish(statement: String, comment: &mut String, found: &mut Vec<Limit>) -> Option<String> {
    let Some(whole) = statement.strip_suffix(';') else { return Some(statement) };
    let comment = without_links(core::mem::take(comment).trim_end());
    if let Some((name, value)) = whole.split_once(": ").filter(|(name, _)| !name.starts_with("fn "))
        && let Some((_, value)) = value.split_once(" = ")
    {
        found.push(Limit { name: name.to_owned(), value: value.trim().to_owned(), comment });
    }
    None
}

/// A comment with the names of its rustdoc links alone: their targets are no pages of the book.
fn without_links(comment: &str) -> String {
    let (mut plain, mut rest) = (String::new(), comment);
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, behind)) = link.split_once("`]") else { break };
        let _ = write!(plain, "{before}`{name}`");
        let target = behind.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(behind, |(_, behind)| behind);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustdoc_links_become_their_names() {
        assert_eq!(without_links("See [`A::b`](crate::A::b), [`C`]."), "See `A::b`, `C`.");
    }

    #[test]
    fn a_constant_has_its_comment_and_its_value_over_several_lines() {
        let source = "/// Volumes of\n/// one disk.\npub const VOLUMES_MAX: usize =\n    64;\n\n\
                      /// Lost.\nconst OTHER: u8 = 1;\npub const BARE: u8 = 2;\n";
        let found = limits(source);
        let expected = [("VOLUMES_MAX", "64", "Volumes of one disk."), ("BARE", "2", "")];
        let found: Vec<_> = found.iter().map(|l| (&*l.name, &*l.value, &*l.comment)).collect();
        assert_eq!(found, expected);
    }
}
