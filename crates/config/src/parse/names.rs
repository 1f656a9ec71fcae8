//! Names: unique within their list, and resolved for the tables that refer to them.

use std::collections::BTreeMap;

use crate::limits::NAME_BYTES_MAX;
use input::{InputError, Table, Value, list};

/// The names so far, with their indices and lines.
#[derive(Default)]
pub(crate) struct Names<'a>(BTreeMap<&'a str, (usize, usize)>);

impl<'a> Names<'a> {
    /// Names of an earlier list, with the list's indices.
    pub(crate) fn of(names: impl Iterator<Item = (&'a str, usize)>) -> Self {
        Self(names.enumerate().map(|(index, (name, line))| (name, (index, line))).collect())
    }

    /// Checks the table's `name` and gives it the next index.
    pub(crate) fn add(&mut self, table: &'a Table<'a>) -> Result<&'a str, InputError> {
        let value = table.require("name", "a name")?;
        let name = value.text("a name")?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(value.refuse(format_args!("a name of 1 to {NAME_BYTES_MAX} bytes")));
        }
        // A character that is escaped on a terminal is invisible or has an effect there.
        let visible = name.escape_debug().eq(name.chars());
        if !visible || name.contains('/') || name.trim() != name {
            return Err(value.refuse(
                "a name of printable characters without /, \\ and quotes, and without blanks at \
                 its ends",
            ));
        }
        if let Some((_, line)) = self.0.get(name) {
            return Err(
                value.refuse(format_args!("a name of its own (line {line} has this one already)"))
            );
        }
        self.0.insert(name, (self.0.len(), value.line()));
        Ok(name)
    }

    /// Whether the name is taken.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The index of the `kind` that the value names.
    pub(crate) fn find(&self, value: &Value<'_>, kind: &str) -> Result<usize, InputError> {
        let name = value.text(format_args!("the name of a {kind}"))?;
        let plural = if kind.ends_with('s') { "es" } else { "s" };
        self.0.get(name).map(|(index, _)| *index).ok_or_else(|| match self.0.len() {
            0 => value.refuse(format_args!("the name of a {kind}, and there is none")),
            _ => {
                value.refuse(format_args!("one of the {kind}{plural} {}", list(self.0.keys(), '"')))
            }
        })
    }
}
