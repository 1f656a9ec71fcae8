//! Values of drive files as text.

use core::fmt::Write;

use units::{Duration, Sectors, Share};

/// The width at which lists are broken.
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

/// A list with as many elements on a line as fit; nothing for an empty list.
pub(super) fn list(
    text: &mut String,
    key: &str,
    all: impl Iterator<Item = String>,
) -> core::fmt::Result {
    let mut line = String::new();
    for (nth, element) in all.enumerate() {
        if nth == 0 {
            writeln!(text, "{key} = [")?;
        }
        if line.len() + element.len() > LINE_CHARS_MAX {
            writeln!(text, "   {line}")?;
            line.clear();
        }
        write!(line, " {element},")?;
    }
    if line.is_empty() { Ok(()) } else { writeln!(text, "   {line}\n]") }
}
