//! Files that are not TOML.

use super::*;

#[test]
fn a_text_that_ends_too_early_is_refused_with_its_last_line() {
    assert_eq!(
        refused(&[], "seed = 1\n[[disk]]\nname = \"d0\n"),
        "plan.toml:3: found `name = \"d0`, expected TOML: invalid basic string, expected `\"`"
    );
}

#[test]
fn a_header_that_is_not_closed() {
    assert_eq!(
        refused(&[], "\n[[disk]\nname = \"d0\"\n"),
        "plan.toml:2: found `[[disk]`, expected TOML: unclosed array table, expected `]`"
    );
}

#[test]
fn a_key_that_is_given_twice() {
    assert_eq!(
        refused(&[], "seed = 1\n\nseed = 2\n"),
        "plan.toml:3: found `seed = 2`, expected TOML: duplicate key"
    );
}

#[test]
fn nesting_without_end() {
    let text = format!("seed = {}", "[".repeat(100_000));
    assert!(error(&text).to_string().starts_with("plan.toml:1: found `seed = [[["));
    assert!(
        error(&text)
            .to_string()
            .ends_with("expected TOML: cannot recurse further; max recursion depth met")
    );
}
