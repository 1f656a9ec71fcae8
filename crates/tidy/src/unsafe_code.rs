//! Unsafe code: in the files that are named here, each use with its reason, and nowhere else.
//!
//! The compiler forbids it in every crate whose manifest has the workspace's lints. A crate with
//! one of these files denies it, and the file allows it for itself.

use crate::{Finding, Source, Tree};

/// The files with unsafe code.
pub const FILES: [&str; 2] = ["crates/backend/src/real/ring.rs", "crates/ublk/src/ring.rs"];

/// What lifts the lint; in two parts, so that this file does not.
const LIFTS: [&str; 2] = [concat!("allow(", "unsafe_code"), concat!("expect(", "unsafe_code")];
/// Before each use.
const REASON: &str = "SAFETY:";

/// Uses and permissions of unsafe code outside of [`FILES`], and uses without a reason.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &tree.sources {
        let is_named = FILES.contains(&source.path.as_str());
        if source.has_ending("rs") && is_named {
            found.extend(without_reason(source));
        } else if source.has_ending("rs") {
            let lifts = |line: &str| LIFTS.iter().any(|lift| line.contains(lift));
            let lines = source.text.lines().enumerate().filter(|(_, line)| lifts(line));
            found.extend(lines.map(|(at, _)| {
                let what = "unsafe code is allowed here, and the file is not one of those that \
                            may have it";
                Finding::new(&source.path, at + 1, what.to_owned())
            }));
        } else if source.path.ends_with("Cargo.toml") {
            found.extend(weakened(source));
        }
    }
    found
}

/// A manifest that does not forbid unsafe code, of a crate without a file that may have it.
fn weakened(manifest: &Source) -> Option<Finding> {
    let directory = manifest.path.strip_suffix("Cargo.toml").unwrap_or_default();
    let has_file = !directory.is_empty() && FILES.iter().any(|file| file.starts_with(directory));
    let mut lines = manifest.text.lines().enumerate();
    let (at, _) = lines
        .find(|(_, line)| line.starts_with("unsafe_code =") && !line.ends_with("\"forbid\""))?;
    (!has_file).then(|| {
        let what = "the lint on unsafe code is weakened in a crate that has none";
        Finding::new(&manifest.path, at + 1, what.to_owned())
    })
}

/// Uses of `unsafe` without a reason on the lines before it.
fn without_reason(source: &Source) -> Vec<Finding> {
    let lines: Vec<&str> = source.text.lines().collect();
    let uses = lines.iter().enumerate().filter(|(_, line)| {
        let code = line.trim_start();
        !code.starts_with("//") && (code.contains("unsafe {") || code.starts_with("unsafe impl"))
    });
    let without = uses.filter(|(at, _)| {
        // The statement may begin on the line before.
        let before = lines[..*at].iter().rev().skip_while(|line| line.ends_with(" ="));
        let comment = before.take_while(|line| line.trim_start().starts_with("//"));
        !comment.clone().any(|line| line.contains(REASON))
    });
    without
        .map(|(at, _)| {
            Finding::new(&source.path, at + 1, "unsafe code without a reason".to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_code_outside_of_the_named_files_is_found() {
        let allowed = format!("#![{})]\n", LIFTS[0]);
        let tree = Tree::of(&[("crates/a/src/lib.rs", &allowed), (FILES[0], &allowed)]);
        let found = check(&tree);
        assert_eq!(lines(&found), [1]);
        assert_eq!(found[0].path, "crates/a/src/lib.rs");
        let weak = "[lints.rust]\nunsafe_code = \"deny\"\n";
        let tree = Tree::of(&[("crates/a/Cargo.toml", weak), ("crates/ublk/Cargo.toml", weak)]);
        let found = check(&tree);
        assert_eq!(lines(&found), [2]);
        assert_eq!(found[0].path, "crates/a/Cargo.toml");
    }

    #[test]
    fn each_use_has_its_reason() {
        let text =
            "// SAFETY: it is.\n// Two lines.\nlet a =\n    unsafe { b() };\n\nunsafe { c() };\n";
        let found = check(&Tree::of(&[(FILES[1], text)]));
        assert_eq!(lines(&found), [6]);
    }
}
