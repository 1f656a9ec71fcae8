//! The cells of a figure, and sections of tables.

use drive_profile::findings::Figure;

/// A figure with its error, its samples and its confidence.
pub(super) fn figure<T: std::fmt::Display>(figure: &Figure<T>) -> Vec<String> {
    vec![
        figure.value.to_string(),
        format!("± {}", figure.spread),
        figure.samples.to_string(),
        figure.confidence.to_string(),
    ]
}

/// The head over the cells of [`figure`].
pub(super) const FIGURE: [&str; 5] = ["", "value", "error", "samples", "confidence"];

/// `text` behind an empty line, if there is text.
pub(super) fn section(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n{text}") }
}
