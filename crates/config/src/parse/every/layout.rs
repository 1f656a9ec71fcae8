//! Where the tables and the keys of a config are in its text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The tables of a text; the first is the top of the file.
pub(super) struct Layout {
    pub(super) tables: Vec<TableSpan>,
    /// The offsets of the line breaks.
    newlines: Vec<usize>,
}

/// A step from a table to one within it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A table: with a header, or in braces.
#[derive(Clone, Debug)]
pub(super) struct TableSpan {
    /// The keys that lead to it, such as `disk`, `pool.volume` or `volume.stream`; empty at the
    /// top.
    pub(super) header: String,
    pub(super) path: Vec<Step>,
    /// The table that it is in.
    pub(super) parent: usize,
    /// Its `name`, if it has one.
    pub(super) name: Option<String>,
    keys: Vec<Key>,
    /// Its first and last line; those of tables with headers of their own within it belong to it.
    lines: (usize, usize),
    pub(super) offset: usize,
}

#[derive(Clone, Debug)]
struct Key {
    name: String,
    lines: (usize, usize),
}

impl TableSpan {
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|other| other.name == key)
    }

    /// The key under which the table is in its parent.
    pub(super) fn key(&self) -> Option<&str> {
        self.path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
    }

    pub(super) fn is_element(&self) -> bool {
        matches!(self.path.last(), Some(Step::Index(_)))
    }
}

impl Layout {
    /// The layout of `text`, which was parsed to `root`.
    pub(super) fn of(text: &str, root: &DeTable<'_>) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut layout = Self { tables: Vec::new(), newlines };
        layout.add(String::new(), &[], 0, (0, text.len()), root);
        let starts: Vec<_> = layout.tables.iter().map(|table| table.offset).collect();
        for index in 1..layout.tables.len() {
            let table = &layout.tables[index];
            let has_header = text.get(table.offset..).is_some_and(|text| text.starts_with('['));
            if !has_header {
                continue;
            }
            // The table ends where the next one with a header begins that is not within it.
            let is_behind = |other: &usize| {
                let within = layout.tables[*other].path.starts_with(&table.path);
                starts[*other] > table.offset && !within && layout.has_header(text, *other)
            };
            let end = (1..starts.len()).filter(is_behind).map(|other| starts[other]).min();
            let last = end.map_or(layout.newlines.len() + 1, |end| layout.line(end) - 1);
            layout.tables[index].lines.1 = last;
        }
        layout
    }

    fn has_header(&self, text: &str, table: usize) -> bool {
        text.get(self.tables[table].offset..).is_some_and(|text| text.starts_with('['))
    }

    /// Adds a table and the tables within it.
    fn add(
        &mut self,
        header: String,
        path: &[Step],
        parent: usize,
        (start, end): (usize, usize),
        table: &DeTable<'_>,
    ) {
        let own = self.tables.len();
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let lines = (self.line(start), self.line(end));
        let keys = table.iter().map(|(key, value)| Key {
            name: key.get_ref().to_string(),
            lines: (self.line(key.span().start), self.line(value.span().end.max(key.span().end))),
        });
        let (name, keys) = (name.map(str::to_owned), keys.collect());
        let header_within = header.clone();
        self.tables.push(TableSpan {
            header,
            path: path.to_owned(),
            parent,
            name,
            keys,
            lines,
            offset: start,
        });
        for (key, value) in table {
            let key = key.get_ref().to_string();
            let within = match header_within.as_str() {
                "" => key.clone(),
                header => format!("{header}.{key}"),
            };
            let mut path = path.to_owned();
            path.push(Step::Key(key));
            self.add_value(&within, &path, own, value);
        }
    }

    fn add_value(
        &mut self,
        header: &str,
        path: &[Step],
        parent: usize,
        value: &Spanned<DeValue<'_>>,
    ) {
        let span = |node: &Spanned<DeValue<'_>>| (node.span().start, node.span().end);
        match value.get_ref() {
            DeValue::Table(within) => {
                self.add(header.to_owned(), path, parent, span(value), within);
            }
            DeValue::Array(all) => {
                for (index, node) in all.iter().enumerate() {
                    let DeValue::Table(within) = node.get_ref() else { continue };
                    let mut path = path.to_vec();
                    path.push(Step::Index(index));
                    self.add(header.to_owned(), &path, parent, span(node), within);
                }
            }
            _ => {}
        }
    }

    /// The line, counted from 1, of an offset.
    fn line(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    /// The table that an error on a line is about: the innermost that has its field there, else the
    /// innermost that begins there.
    pub(super) fn table_at(&self, line: usize, field: &str) -> usize {
        let covers = |(first, last): (usize, usize)| (first..=last).contains(&line);
        let mut around: Vec<usize> =
            (1..self.tables.len()).filter(|index| covers(self.tables[*index].lines)).collect();
        around.sort_by_key(|index| core::cmp::Reverse(self.tables[*index].offset));
        let has_field = |index: &&usize| {
            self.tables[**index].keys.iter().any(|key| key.name == field && covers(key.lines))
        };
        let begins = |index: &&usize| self.tables[**index].lines.0 == line;
        let found = around.iter().find(has_field).or_else(|| around.iter().find(begins));
        found.or(around.first()).copied().unwrap_or(0)
    }

    /// The number, from 1, of a table among those with its header.
    pub(super) fn number(&self, table: usize) -> usize {
        let TableSpan { header, offset, .. } = &self.tables[table];
        let is_before = |other: &&TableSpan| other.header == *header && other.offset <= *offset;
        self.tables.iter().filter(is_before).count()
    }
}
