//! Where the tables and the keys of a config are in its text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The sections of a text, in its order; the first is the top of the file, without a header.
pub(super) struct Layout<'t> {
    pub(super) sections: Vec<Section<'t>>,
    /// The offsets of the line breaks.
    newlines: Vec<usize>,
}

/// A table with a header, and all of the text up to the next one that is not within it.
#[derive(Clone, Debug)]
pub(super) struct Section<'t> {
    /// The name in its header, such as `disk` or `pool.volume`; empty at the top.
    pub(super) header: String,
    /// Its `name`, if it has one.
    pub(super) name: Option<&'t str>,
    pub(super) start: usize,
    pub(super) end: usize,
    keys: Vec<Key<'t>>,
}

/// A key and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'t> {
    pub(super) name: &'t str,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether the value has keys or elements of its own, which errors may name instead.
    is_compound: bool,
}

impl Section<'_> {
    pub(super) const fn is_top(&self) -> bool {
        self.header.is_empty()
    }
}

impl<'t> Layout<'t> {
    /// The layout of `text`, which was parsed to `root`.
    pub(super) fn of(text: &'t str, root: &'t DeTable<'t>) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut layout = Self { sections: Vec::new(), newlines };
        layout.add(text, String::new(), 0, root);
        // The top is first, also where a header begins the file.
        layout.sections.sort_by_key(|section| (section.start, !section.is_top()));
        let headers: Vec<_> =
            layout.sections.iter().map(|other| (other.start, other.header.clone())).collect();
        for (index, section) in layout.sections.iter_mut().enumerate() {
            let within = format!("{}.", section.header);
            let mut behind = headers[index + 1..].iter();
            let next = behind.find(|(_, header)| section.is_top() || !header.starts_with(&within));
            section.end = next.map_or(text.len(), |(start, _)| *start);
        }
        layout
    }

    /// Adds a table and the tables with headers within it.
    fn add(&mut self, text: &'t str, header: String, start: usize, table: &'t DeTable<'t>) {
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let mut section = Section { header, name, start, end: start, keys: Vec::new() };
        for (key, value) in table {
            let below = if section.is_top() {
                key.get_ref().to_string()
            } else {
                format!("{}.{}", section.header, key.get_ref())
            };
            let with_header = |node: &Spanned<DeValue<'_>>| {
                let starts = text.get(node.span().start..);
                starts.is_some_and(|text| text.starts_with('['))
            };
            match value.get_ref() {
                DeValue::Table(within) if with_header(value) => {
                    self.add(text, below, value.span().start, within);
                }
                DeValue::Array(all) if is_tables(all) && all.iter().all(with_header) => {
                    for node in all {
                        let DeValue::Table(within) = node.get_ref() else { continue };
                        self.add(text, below.clone(), node.span().start, within);
                    }
                }
                other => {
                    let is_compound = matches!(other, DeValue::Table(_) | DeValue::Array(_));
                    let (start, end) = (key.span().start, value.span().end.max(key.span().end));
                    section.keys.push(Key { name: key.get_ref(), start, end, is_compound });
                }
            }
        }
        self.sections.push(section);
    }

    /// The line, counted from 1, of an offset.
    fn line(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    /// The index of the section that a line is in: of nested ones, the innermost.
    pub(super) fn section_at(&self, line: usize) -> usize {
        let behind = self.sections.partition_point(|section| self.line(section.start) <= line);
        behind.saturating_sub(1)
    }

    /// The key that an error on a line of a section is about.
    pub(super) fn key_at(
        &self,
        section: usize,
        line: usize,
        field: Option<&str>,
    ) -> Option<Key<'t>> {
        let covers = |key: &&Key<'_>| (self.line(key.start)..=self.line(key.end)).contains(&line);
        let is_named = |key: &&Key<'_>| key.is_compound || field == Some(key.name);
        let keys = &self.sections[section].keys;
        keys.iter().filter(covers).find(is_named).copied()
    }

    /// The number, from 1, of the section at a line among those with this header.
    pub(super) fn number(&self, header: &str, line: usize) -> usize {
        let is_before = |section: &&Section<'_>| self.line(section.start) <= line;
        let same = self.sections.iter().filter(|section| section.header == header);
        same.filter(is_before).count()
    }
}

fn is_tables(all: &[Spanned<DeValue<'_>>]) -> bool {
    !all.is_empty() && all.iter().all(|node| matches!(node.get_ref(), DeValue::Table(_)))
}
