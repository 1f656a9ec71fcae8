//! Quantities and lists as text for messages and files.

use core::fmt::Display;

use units::{Bytes, Duration};

const FOUND_CHARS_MAX: usize = 60;
const LISTED_MAX: usize = 32;

/// A size that parses back to the same size: the short form if it is exact, else a number of bytes.
pub fn size_text(bytes: Bytes) -> String {
    let short = bytes.to_string();
    if short.parse() == Ok(bytes) { short } else { format!("{}B", bytes.0) }
}

/// A time as users write it: `0s` rather than `0ns`.
pub fn time_text(duration: Duration) -> String {
    if duration == Duration::ZERO { "0s".to_owned() } else { duration.to_string() }
}

/// The names in quotes, separated by commas; of a long list only its beginning.
pub fn list(names: impl Iterator<Item = impl Display>, quote: char) -> String {
    let mut names = names.map(|name| format!("{quote}{name}{quote}"));
    let first: Vec<_> = names.by_ref().take(LISTED_MAX).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The text on one line of a message: short, and without characters that a terminal would
/// interpret.
pub fn shorten(text: &str) -> String {
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == FOUND_CHARS_MAX {
            shown.push('…');
            break;
        }
        if matches!(c, '"' | '\'' | '\\') {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown
}
