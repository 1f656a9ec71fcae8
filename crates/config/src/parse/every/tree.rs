//! A config's tables, changed where a value was refused.
//!
//! Each node keeps its span in the text, and one that takes the place of another has that one's, so
//! that the lines in messages stay those of the file.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::layout::Step;

/// The tables of a text, and those of them that are left out.
pub(super) struct Tree<'t> {
    root: DeTable<'t>,
    left_out: BTreeSet<Vec<Step>>,
}

impl<'t> Tree<'t> {
    pub(super) fn new(root: DeTable<'t>) -> Self {
        Self { root, left_out: BTreeSet::new() }
    }

    /// The tables without those that are left out.
    pub(super) fn root(&self) -> DeTable<'t> {
        let mut root = self.root.clone();
        for path in self.left_out.iter().rev() {
            let Some((Step::Index(index), above)) = path.split_last() else { continue };
            let Some((Step::Key(key), above)) = above.split_last() else { continue };
            let Some(table) = within(&mut root, above) else { continue };
            let Some(node) = table.get_mut(key.as_str()) else { continue };
            if let DeValue::Array(all) = node.get_mut() {
                let others = all.iter().enumerate().filter(|(other, _)| other != index);
                *all = others.map(|(_, node)| node.clone()).collect();
            }
        }
        root
    }

    /// Leaves out a table that is one of several of its header.
    pub(super) fn leave_out(&mut self, path: &[Step]) -> bool {
        self.left_out.insert(path.to_vec())
    }

    /// Removes a key; whether it was there.
    pub(super) fn remove(&mut self, path: &[Step], key: &str) -> bool {
        within(&mut self.root, path).is_some_and(|table| table.remove(key).is_some())
    }

    /// Removes an element of a list of texts, or puts another in its place. Whether there was one,
    /// and others beside it.
    pub(super) fn replace_element(
        &mut self,
        path: &[Step],
        (key, found): (&str, &str),
        by: Option<String>,
    ) -> bool {
        let Some(table) = within(&mut self.root, path) else { return false };
        let Some(node) = table.get_mut(key) else { return false };
        let DeValue::Array(all) = node.get_mut() else { return false };
        let is_it = |node: &Spanned<DeValue<'_>>| {
            node.get_ref().as_str().is_some_and(|text| input::shorten(text) == found)
        };
        let Some(at) = all.iter().rposition(is_it).filter(|_| all.len() > 1) else { return false };
        if let Some(by) = by {
            *all.get_mut(at).expect("it was found").get_mut() = DeValue::String(by.into());
            return true;
        }
        let others = all.iter().enumerate().filter(|(index, _)| *index != at);
        *all = others.map(|(_, node)| node.clone()).collect();
        true
    }

    /// Sets the keys of a text in TOML that the table at `offset` does not have, and returns them.
    pub(super) fn set(&mut self, path: &[Step], offset: usize, text: &'static str) -> Vec<String> {
        let mut set = Vec::new();
        for (key, value) in parsed(text) {
            let has = within(&mut self.root, path).is_some_and(|table| table.contains_key(&key));
            if !has {
                set.push(key.get_ref().to_string());
                self.set_value((path, offset), key.into_inner(), value.into_inner());
            }
        }
        set
    }

    /// Sets a key to a text.
    pub(super) fn set_text(&mut self, at: (&[Step], usize), key: &'static str, text: String) {
        self.set_value(at, key.into(), DeValue::String(text.into()));
    }

    /// Sets a key to a list of texts.
    pub(super) fn set_texts(&mut self, at: (&[Step], usize), key: &'static str, all: Vec<String>) {
        let node = |text: String| Spanned::new(at.1..at.1, DeValue::String(text.into()));
        self.set_value(at, key.into(), DeValue::Array(all.into_iter().map(node).collect()));
    }

    /// Sets a key to a value, in the place of the one that it had.
    fn set_value(&mut self, at: (&[Step], usize), key: DeString<'t>, value: DeValue<'t>) {
        let (path, offset) = at;
        let Some(table) = within(&mut self.root, path) else { return };
        if let Some(node) = table.get_mut(key.as_ref()) {
            *node.get_mut() = value;
            return;
        }
        let span = offset..offset;
        table.insert(Spanned::new(span.clone(), key), Spanned::new(span, value));
    }

    /// Makes `[key]` one of several tables `[[key]]`, or the first of those the only one; whether
    /// it was otherwise.
    pub(super) fn set_repeated(&mut self, path: &[Step], key: &str, is_repeated: bool) -> bool {
        let Some(table) = within(&mut self.root, path) else { return false };
        let Some(node) = table.get_mut(key) else { return false };
        let (span, value) = (node.span(), node.get_mut());
        let changed = match (&*value, is_repeated) {
            (DeValue::Table(_), true) => {
                Some(DeValue::Array([Spanned::new(span, value.clone())].into_iter().collect()))
            }
            (DeValue::Array(all), false) => all.first().map(|node| node.get_ref().clone()),
            _ => None,
        };
        changed.map(|changed| *value = changed).is_some()
    }

    /// Adds a table `[[key]]` with a name and more keys, in TOML, to the file.
    pub(super) fn add(&mut self, key: &'static str, name: String, text: &'static str) {
        self.add_fields(key, vec![("name", name)], text);
    }

    /// Adds a volume on the disk of its name.
    pub(super) fn add_volume(&mut self, name: &str, text: &'static str) {
        self.add_fields("volume", vec![("name", name.to_owned()), ("disk", name.to_owned())], text);
    }

    fn add_fields(
        &mut self,
        key: &'static str,
        texts: Vec<(&'static str, String)>,
        more: &'static str,
    ) {
        let mut fields: DeTable<'t> = parsed(more);
        for (key, text) in texts {
            let text = Spanned::new(0..0, DeValue::String(text.into()));
            fields.insert(Spanned::new(0..0, key.into()), text);
        }
        let node = Spanned::new(0..0, DeValue::Table(fields));
        if let Some(DeValue::Array(all)) = self.root.get_mut(key).map(Spanned::get_mut) {
            all.push(node);
            return;
        }
        let all = DeValue::Array([node].into_iter().collect());
        self.root.insert(Spanned::new(0..0, key.into()), Spanned::new(0..0, all));
    }
}

/// The keys of a text of this module's own.
fn parsed(text: &'static str) -> DeTable<'static> {
    DeTable::parse(text).expect("a stand-in is TOML").into_inner()
}

/// The table at a path. A table that was made one of several is the first of them.
fn within<'a, 't>(table: &'a mut DeTable<'t>, path: &[Step]) -> Option<&'a mut DeTable<'t>> {
    let Some((step, rest)) = path.split_first() else { return Some(table) };
    match step {
        Step::Key(key) => below(table.get_mut(key.as_str())?.get_mut(), rest),
        Step::Index(_) => None,
    }
}

fn below<'a, 't>(value: &'a mut DeValue<'t>, path: &[Step]) -> Option<&'a mut DeTable<'t>> {
    match (value, path) {
        (DeValue::Array(all), [Step::Index(index), rest @ ..]) => {
            below(all.get_mut(*index)?.get_mut(), rest)
        }
        (DeValue::Array(all), _) => below(all.get_mut(0)?.get_mut(), path),
        (DeValue::Table(table), [Step::Index(_), rest @ ..]) => within(table, rest),
        (DeValue::Table(table), _) => within(table, path),
        _ => None,
    }
}
