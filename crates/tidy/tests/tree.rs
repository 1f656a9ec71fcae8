//! The checks over this tree. Each finding is printed with its file and line;
//! `cargo run -p spindle-tidy -- CHECK` prints the same.

use tidy::{Finding, Tree};

fn holds(check: fn(&Tree) -> Vec<Finding>) {
    let tree = Tree::of_workspace().expect("the tree can be read");
    assert!(tree.sources.len() > 100, "the tree has {} files", tree.sources.len());
    let found = check(&tree);
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} found:\n{}", found.len(), lines.join("\n"));
}

#[test]
fn lines_and_files_are_short() {
    holds(tidy::width::check);
}

#[test]
fn no_banned_word_is_used() {
    holds(tidy::words::check);
}

#[test]
fn relative_links_resolve() {
    holds(tidy::links::check);
}

#[test]
fn public_types_of_a_crate_have_names_of_their_own() {
    holds(tidy::names::check);
}

#[test]
fn a_module_declares_each_file() {
    holds(tidy::syntax::orphans);
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    holds(tidy::circles::check);
}

#[test]
fn no_run_of_lines_stands_in_two_places() {
    holds(tidy::copies::check);
}

#[test]
fn the_engine_and_the_volumes_have_an_assertion_a_function() {
    holds(tidy::assertions::check);
}

#[test]
fn unsafe_code_is_in_the_files_that_may_have_it() {
    holds(tidy::unsafe_code::check);
}
