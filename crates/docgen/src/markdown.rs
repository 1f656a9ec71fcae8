//! Markdown text: paragraphs of at most [`COLUMNS`] columns, cells of tables.

/// The width of a paragraph's lines.
const COLUMNS: usize = 98;

/// The comment at the head of a generated page.
pub(crate) fn head(title: &str, source: &str) -> String {
    let command = crate::COMMAND;
    format!("# {title}\n\n<!-- Generated from {source};\n     `{command}` writes it. -->\n\n")
}

/// A paragraph, broken at spaces outside of code spans.
pub(crate) fn paragraph(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in words(text) {
        let columns = word.chars().count();
        if width > 0 && width + 1 + columns > COLUMNS {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(&word);
        width += columns;
    }
    lines.push('\n');
    lines
}

/// The words of a text, a code span with its neighbours being one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_code = false;
    for word in text.split_whitespace() {
        match words.last_mut().filter(|_| is_code) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        is_code ^= word.matches('`').count() % 2 == 1;
    }
    words
}

/// A cell of a table: one line, bars escaped.
pub(crate) fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A sentence with a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() || text.ends_with(['.', '?', ':']) { text } else { text + "." }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_not_broken_within_code() {
        let text = format!("{} `one two` three", "word ".repeat(18));
        let broken = paragraph(&text);
        assert!(broken.contains("`one two`"), "{broken}");
        assert!(broken.lines().all(|line| line.chars().count() <= COLUMNS), "{broken}");
    }

    #[test]
    fn a_bar_does_not_end_a_cell() {
        assert_eq!(cell("a |\n b"), "a \\| b");
    }
}
