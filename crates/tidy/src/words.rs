//! Words that the project does not use: STYLE.md says why, the glossary has the terms to use.
//!
//! Names of tests may be sentences that state facts, so the line that names a test is not read.
//! Neither is the glossary, nor what stands between backticks in a Markdown page, as that quotes a
//! name. A word counts as a whole word; an underscore separates words.

use crate::{Finding, Tree};

/// What is banned, in lower case, and what to write instead.
pub const BANNED: [(&str, &str); 32] = [
    ("nobody", "name the object: no volume, no thread, no request"),
    ("somebody", "name the object"),
    ("anybody", "name the object"),
    ("everybody", "name the objects"),
    ("whoever", "name the object"),
    ("who", "name the object: the volume that, the client that"),
    ("whom", "name the object"),
    ("he", "name the object"),
    ("him", "name the object"),
    ("his", "name the object"),
    ("haggle", "negotiate"),
    ("haggles", "negotiates"),
    ("haggled", "negotiated"),
    ("haggling", "negotiating"),
    ("foretell", "predict"),
    ("foretells", "predicts"),
    ("foretold", "predicted"),
    ("foretelling", "predicting"),
    ("vigil", "busy poll"),
    ("crew", "group of event loops"),
    ("anew", "again, new"),
    ("dice", "seeded random numbers"),
    ("so many", "name the quantity"),
    ("so much", "name the quantity"),
    ("the paper", "name it: Zygaria, semi-preemptible IO or Clockwise"),
    ("brain", "scheduler, engine"),
    ("tenant", "volume"),
    ("of itself", "by itself"),
    ("ration", "rate limit"),
    ("rations", "rate limits"),
    ("rationed", "rate limited"),
    ("rationing", "rate limiting"),
];

/// The page that explains old words, and this list.
const EXEMPT: [&str; 2] = ["docs/src/glossary.md", "crates/tidy/src/words.rs"];

/// Each banned word of the tree.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_read = |path: &str| !EXEMPT.contains(&path);
    for source in tree.sources.iter().filter(|source| is_read(&source.path)) {
        let mut names_test = false;
        for (at, line) in source.text.lines().enumerate() {
            let code = line.trim_start();
            let is_attribute = code.starts_with("#[");
            if code.starts_with("#[test]") || code.starts_with("#[tokio::test") {
                names_test = true;
            } else if names_test && !is_attribute {
                names_test = !code.contains("fn ") && !code.is_empty();
                if code.contains("fn ") {
                    continue;
                }
            }
            let text = if source.has_ending("md") { without_code(line) } else { line.into() };
            let spaced = spaced(&text);
            for (word, instead) in BANNED {
                if spaced.contains(&format!(" {word} ")) {
                    let what = format!("`{word}` is banned: {instead}");
                    found.push(Finding::new(&source.path, at + 1, what));
                }
            }
        }
    }
    found
}

/// The words of a line in lower case, with one space before, between and behind them.
fn spaced(line: &str) -> String {
    let mut spaced = String::from(" ");
    let letters = |c: char| if c.is_alphanumeric() || c == '\'' { c } else { ' ' };
    let text: String = line.chars().map(letters).collect();
    for word in text.split_whitespace() {
        // `nobody's` counts as `nobody`.
        let word = word.split('\'').next().unwrap_or(word);
        spaced.push_str(&word.to_lowercase());
        spaced.push(' ');
    }
    spaced
}

/// A line of Markdown without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<Finding> {
        check(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn a_banned_word_is_found_in_comments_strings_and_names() {
        assert_eq!(found("crates/a/src/lib.rs", "// Nobody waits.\n").len(), 1);
        assert_eq!(found("crates/a/src/lib.rs", "let s = \"so  many\";\n").len(), 1);
        assert_eq!(found("crates/a/src/lib.rs", "fn roll_dice() {}\n").len(), 1);
        assert_eq!(found("docs/src/page.md", "The paper's range.\n").len(), 1);
    }

    #[test]
    fn parts_of_words_are_not_found() {
        assert!(found("crates/a/src/lib.rs", "// The whole rationale, whose here.\n").is_empty());
    }

    #[test]
    fn the_name_of_a_test_may_have_one() {
        let test = "#[test]\nfn nobody_waits_for_ever() {\n}\n";
        assert!(found("crates/a/src/lib.rs", test).is_empty());
        assert_eq!(found("crates/a/src/lib.rs", &format!("{test}// nobody\n")).len(), 1);
    }

    #[test]
    fn a_quoted_name_in_a_page_is_not_found() {
        assert!(found("CHANGELOG.md", "- `rationed` is now `rate_limited`\n").is_empty());
    }
}
