//! What pages name in code spans: paths of the tree, and functions of types.

use std::path::Path;

/// The directories with whose names a path in a page begins.
const ROOTS: [&str; 6] = ["crates/", "examples/", "contrib/", "tests/", "docs/", "fuzz/"];

/// The paths in a page's code spans, each with its line. A `*` or `NAME` stands for any name, so
/// such a path is left out.
pub fn paths(page: &str) -> Vec<(usize, String)> {
    let is_path = |span: &&str| {
        ROOTS.iter().any(|root| span.starts_with(root))
            && !span.contains(['*', ' '])
            && !span.contains("NAME")
    };
    spans(page, is_path)
}

/// The functions in a page's code spans, such as `Engine::poll`, each with its line.
pub fn functions(page: &str) -> Vec<(usize, String)> {
    let is_function = |span: &&str| {
        let Some((of, name)) = span.split_once("::") else { return false };
        of.starts_with(char::is_uppercase)
            && name.starts_with(char::is_lowercase)
            && span.chars().all(|c| c.is_alphanumeric() || "_:".contains(c))
    };
    spans(page, is_function)
}

fn spans(page: &str, keep: impl Fn(&&str) -> bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_block = false;
    for (at, line) in page.lines().enumerate() {
        is_block ^= line.trim_start().starts_with("```");
        if !is_block {
            let code = line.split('`').skip(1).step_by(2).filter(&keep);
            found.extend(code.map(|span| (at + 1, span.to_owned())));
        }
    }
    found
}

/// Whether a path of a page exists below `root`.
pub fn exists(root: &Path, path: &str) -> bool {
    root.join(path).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_functions_are_taken_from_code_spans_alone() {
        let page = "crates/a `crates/b` `Engine::poll`\n```\n`crates/c`\n```\n`crates/*/d`\n";
        assert_eq!(paths(page), [(1, "crates/b".into())]);
        assert_eq!(functions(page), [(1, "Engine::poll".into())]);
    }
}
