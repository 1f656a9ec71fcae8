//! What Markdown pages show: commands and configs. A test holds them against the command line and
//! the config's keys.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::Source;

/// The programs whose commands are read.
pub const PROGRAMS: [&str; 3] = ["spindle", "spindle-lab", "make"];

/// A command that a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The line of the page, from 1 on.
    pub line: usize,
    /// The program and its arguments.
    pub words: Vec<String>,
}

/// A block of a page that is marked as `toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of the page on which it begins, from 1 on.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// The commands of a page: lines of code blocks and code in sentences that begin with one of
/// [`PROGRAMS`]. A word that begins with a capital letter, or an ellipsis, stands for something.
pub fn commands(page: &Source) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut block: Option<bool> = None;
    for (event, range) in Parser::new_ext(&page.text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => block = Some(is_console(&kind)),
            Event::End(TagEnd::CodeBlock) => block = None,
            Event::Text(text) if block == Some(true) => {
                let first = line_at(&page.text, range.start);
                for (at, line) in text.lines().enumerate() {
                    shown.extend(command(line).map(|words| Shown { line: first + at, words }));
                }
            }
            Event::Code(text) => {
                let line = line_at(&page.text, range.start);
                shown.extend(command(&text).map(|words| Shown { line, words }));
            }
            _ => {}
        }
    }
    shown
}

/// The blocks of a page that are marked with this language.
pub fn blocks(page: &Source, language: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut inside: Option<Block> = None;
    for (event, range) in Parser::new_ext(&page.text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if *info == *language => {
                let line = line_at(&page.text, range.start);
                inside = Some(Block { line, text: String::new() });
            }
            Event::Text(text) => {
                if let Some(block) = &mut inside {
                    block.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(inside.take()),
            _ => {}
        }
    }
    blocks
}

fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn is_console(kind: &CodeBlockKind<'_>) -> bool {
    match kind {
        CodeBlockKind::Indented => true,
        CodeBlockKind::Fenced(info) => ["", "console", "sh", "text"].contains(&&**info),
    }
}

/// The words of a command, up to a pipe, a redirection or a comment; none if it is another program.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("# ");
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        if word.starts_with(['|', '>', '<', '#', '&', ';']) {
            break;
        }
        let is_last = word.ends_with(';');
        words.push(word.trim_end_matches(';').into());
        if is_last {
            break;
        }
    }
    let program = words.first()?;
    PROGRAMS.contains(&program.as_str()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Source {
        Source { path: "docs/page.md".into(), text: text.into() }
    }

    #[test]
    fn commands_of_blocks_and_sentences_are_read_up_to_a_pipe() {
        let text =
            "Run `spindle top`.\n\n```console\n$ spindle vol ls --json | jq .\nvol1 30 %\n```\n";
        let shown = commands(&page(text));
        assert_eq!(shown.len(), 2, "{shown:?}");
        assert_eq!(shown[0], Shown { line: 1, words: vec!["spindle".into(), "top".into()] });
        assert_eq!(shown[1].line, 4);
        assert_eq!(shown[1].words, ["spindle", "vol", "ls", "--json"]);
    }

    #[test]
    fn configs_are_read_with_their_line() {
        let found = blocks(&page("A config:\n\n```toml\n[[disk]]\n```\n"), "toml");
        assert_eq!(found, [Block { line: 3, text: "[[disk]]\n".into() }]);
    }
}
