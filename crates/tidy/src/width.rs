//! Widths and lengths: a line of at most 100 columns, a file of at most 600 lines.

use crate::{Finding, Tree};

/// The columns of a line.
pub const COLUMNS_MAX: usize = 100;
/// The lines of a Rust file.
pub const FILE_LINES_MAX: usize = 600;
/// The pages that a newcomer reads first, and how many lines each may have.
pub const PAGES: [(&str, usize); 2] = [("README.md", 120), ("ARCHITECTURE.md", 250)];

/// Lines over [`COLUMNS_MAX`] and files over their number of lines.
///
/// In Markdown the rows of tables and lines that are one word (a link) may be longer, but for the
/// [`PAGES`], which may not.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &tree.sources {
        let page = PAGES.iter().find(|(path, _)| *path == source.path);
        let may_be_wide = source.has_ending("md") && page.is_none();
        for (at, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            let is_whole = line.starts_with('|') || !line.trim().contains(' ');
            if columns > COLUMNS_MAX && !(may_be_wide && is_whole) {
                let what = format!("{columns} columns, at most {COLUMNS_MAX} are allowed");
                found.push(Finding::new(&source.path, at + 1, what));
            }
        }
        let lines = source.text.lines().count();
        let most =
            page.map(|&(_, most)| most).or(source.has_ending("rs").then_some(FILE_LINES_MAX));
        if let Some(most) = most.filter(|&most| lines > most) {
            let what = format!("{lines} lines, at most {most} are allowed");
            found.push(Finding::new(&source.path, 0, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_101_columns_is_found_and_one_of_100_is_not() {
        let (fits, wide) = ("x".repeat(100), format!("// {}", "x".repeat(98)));
        let tree = Tree::of(&[("crates/a/src/lib.rs", &format!("{fits}\n{wide}\n"))]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn the_readme_may_not_have_121_lines() {
        let tree = Tree::of(&[("README.md", &"a line\n".repeat(121))]);
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn a_row_of_a_table_may_be_wide_in_the_book_alone() {
        let row = format!("| {} |", "cell ".repeat(30));
        let tree = Tree::of(&[("docs/src/page.md", &row), ("README.md", &row)]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "README.md");
    }
}
