//! Values of drive files as text.

use core::fmt::Write;

use units::{Duration, Sectors, Share};

/// The width at which lists are broken, in bytes.
pub(crate) const LINE_CHARS_MAX: usize = 100;

/// A time in a unit that represents it exactly.
pub(crate) fn exact_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    match nanos {
        0 => "\"0s\"".to_owned(),
        _ if nanos.is_multiple_of(1_000_000) => format!("\"{}ms\"", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!("\"{}us\"", nanos / 1_000),
        _ => format!("\"{nanos}ns\""),
    }
}

pub(super) fn size(size: Sectors) -> String {
    format!("\"{}B\"", size.bytes().0)
}

/// A share, exactly: in 10⁻⁹, with up to seven decimals.
pub(super) fn share(share: Share) -> String {
    let percent = share.ppb() / 10_000_000;
    format!("\"{percent}.{:07}%\"", share.ppb() % 10_000_000)
}

/// Writes the list `key`, one element at least on each line; nothing for an empty list.
pub(super) fn list(
    text: &mut String,
    key: &str,
    elements: impl Iterator<Item = String>,
) -> core::fmt::Result {
    let elements: Vec<_> = elements.collect();
    if elements.is_empty() { Ok(()) } else { writeln!(text, "{key} = {}", wrapped_list(&elements)) }
}

/// A list in brackets, broken into lines of at most `LINE_CHARS_MAX` bytes, each with as many
/// elements as fit.
pub(crate) fn wrapped_list(elements: &[String]) -> String {
    const INDENT: &str = "   ";
    let mut text = String::from("[");
    let mut width = LINE_CHARS_MAX;
    for element in elements {
        let added = element.len() + " ,".len();
        if width + added > LINE_CHARS_MAX {
            text.push('\n');
            text.push_str(INDENT);
            width = INDENT.len();
        }
        text.extend([" ", element, ","]);
        width += added;
    }
    text + "\n]"
}
