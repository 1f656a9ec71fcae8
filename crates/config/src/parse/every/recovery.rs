//! The loop over the errors of a config, with one set of stand-ins.

use std::collections::{BTreeMap, BTreeSet};

use input::{InputError, Problem, shorten};
use toml::de::DeTable;

use super::layout::Layout;
use super::stand_ins::{SPARE_DISK, SPARE_VOLUME, stand_in};
use super::tree::Tree;
use crate::error::ConfigError;
use crate::limits::{CHECK_STEPS_MAX, ERRORS_MAX};
use crate::plan::Plan;

const VOLUMES: [&str; 2] = ["volume", "pool.volume"];

/// How the names of stand-ins begin.
const STAND_IN: &str = "(stand-in ";

/// The tables with stand-ins for what was refused so far.
pub(super) struct Recovery<'t> {
    layout: &'t Layout,
    tree: Tree<'t>,
    variant: usize,
    errors: Vec<ConfigError>,
    /// The keys that have stand-ins, by their table, and how many were tried.
    tried: BTreeMap<(usize, String), usize>,
    /// Names that no table is called by any more.
    lost: BTreeSet<String>,
    /// The tables with a list of which an element was refused.
    shortened: BTreeSet<usize>,
    /// The headers of tables that are left out.
    left_out: BTreeSet<String>,
    /// The number of tables that were added.
    spares: usize,
}

impl<'t> Recovery<'t> {
    pub(super) fn new(layout: &'t Layout, root: DeTable<'t>, variant: usize) -> Self {
        Self {
            layout,
            tree: Tree::new(root),
            variant,
            errors: Vec::new(),
            tried: BTreeMap::new(),
            lost: BTreeSet::new(),
            shortened: BTreeSet::new(),
            spares: 0,
            left_out: BTreeSet::new(),
        }
    }

    /// Notes that a table is known to be missing.
    pub(super) fn expect_none(&mut self, key: &str) {
        self.tried.insert((0, key.to_owned()), 1);
    }

    /// Notes that the values of these keys are known to be wrong.
    pub(super) fn expect(&mut self, values: &[(usize, String)]) {
        for (line, key) in values {
            let table = self.layout.table_at(*line, key);
            self.tried.entry((table, key.clone())).or_insert(0);
        }
    }

    /// The errors of the config that `parse` reads from tables.
    pub(super) fn run(
        mut self,
        parse: impl Fn(&DeTable<'_>) -> Result<Plan, ConfigError>,
    ) -> Vec<ConfigError> {
        for _ in 0..CHECK_STEPS_MAX {
            let Err(error) = parse(&self.tree.root()) else { break };
            if !self.step(error) {
                break;
            }
        }
        self.errors
    }

    /// Records an error and puts a stand-in where it is; whether there can be more.
    fn step(&mut self, error: ConfigError) -> bool {
        if self.errors.len() >= ERRORS_MAX {
            return false;
        }
        let (Some(line), Some(field)) = (error.line(), error.field().map(str::to_owned)) else {
            self.errors.push(error);
            return false;
        };
        // An error without a table is about the top of the file, whatever its line begins.
        let table = error.table().map_or(0, |_| self.layout.table_at(line, &field));
        let found = error.found().map(str::to_owned);
        // More tables than there may be, with those that were added.
        if table == 0 && self.spares > 0 && matches!(field.as_str(), "disk" | "volume") {
            return false;
        }
        let is_consequence = self.is_consequence(table, &field, found.as_deref());
        if !is_consequence {
            let numbered = self.as_in_file(error, table);
            self.errors.push(numbered);
        }
        if let Some(found) = found
            && self.replace_element(table, &field, found)
        {
            return true;
        }
        self.replace(table, &field)
    }

    /// Whether the file would not be refused for this if what has stand-ins were mended.
    fn is_consequence(&self, table: usize, field: &str, found: Option<&str>) -> bool {
        let header = self.layout.tables[table].header.as_str();
        let has_stand_in = |of: &[&str], keys: &[&str]| {
            self.tried.keys().any(|(table, key)| {
                of.contains(&self.layout.tables[*table].header.as_str())
                    && keys.contains(&key.as_str())
            })
        };
        let is_lost = || found.is_some_and(|found| self.lost.contains(found));
        let depends = match (header, field) {
            // At the top: `disk` is missing because each table of a disk is left out.
            ("", _) => self.left_out.contains(field),
            // A name that is wrong may be meant to be the one that is referred to.
            ("volume", "disk") | ("pool", "disks") => {
                has_stand_in(&["disk"], &["name"]) || is_lost()
            }
            ("workload", "volume") => {
                has_stand_in(&VOLUMES, &["name"])
                    || has_stand_in(&["change"], &["name"])
                    || is_lost()
            }
            ("change", "volume") => has_stand_in(&["pool.volume"], &["name", "from"]) || is_lost(),
            ("volume", "same_as") => {
                has_stand_in(&["volume"], &["name", "disk", "same_as"]) || is_lost()
            }
            ("pool.volume" | "pool.volume.from", "disks") => {
                has_stand_in(&["disk"], &["name"])
                    || has_stand_in(&["pool"], &["disks"])
                    || self
                        .shortened
                        .iter()
                        .any(|other| self.layout.tables[*other].header == "pool")
                    || self.shortened.contains(&table)
                        && found.is_some_and(|list| list.starts_with('['))
            }
            ("pool.volume", "layout") => self.shortened.contains(&table),
            ("workload", "access") => {
                found == Some("stream") && has_stand_in(&VOLUMES, &["stream"])
            }
            _ => false,
        };
        depends || self.tried.contains_key(&(table, field.to_owned()))
    }

    /// Replaces an element of a list: a disk of the pool by another, so that there are as many as
    /// before.
    fn replace_element(&mut self, table: usize, field: &str, found: String) -> bool {
        let own = &self.layout.tables[table];
        let is_pools = (own.header.as_str(), field) == ("pool", "disks");
        let name = format!("{STAND_IN}{table}, {})", self.spares);
        let by = is_pools.then(|| name.clone());
        if !self.tree.replace_element(&own.path, (field, &found), by) {
            return false;
        }
        self.shortened.insert(table);
        if is_pools {
            self.spares += 1;
            self.tree.add("disk", name, SPARE_DISK);
            self.lost.insert(found);
        }
        true
    }

    /// Puts the next stand-in in the place of a key's value; without one, removes the key, and then
    /// its table. Whether there was any of these.
    fn replace(&mut self, table: usize, field: &str) -> bool {
        let tried = self.tried.entry((table, field.to_owned())).or_insert(0);
        *tried += 1;
        let tried = *tried;
        let own = &self.layout.tables[table];
        let header = own.header.clone();
        if tried == 1 && self.set_bracketed(table, &header, field) {
            return true;
        }
        if self.set_reference(table, &header, field, tried) {
            return true;
        }
        let rule = stand_in(&header, field, |key| own.has(key));
        if let Some(rule) = rule
            && tried <= rule.sets.len()
        {
            let text = rule.sets[(self.variant + tried - 1) % rule.sets.len()];
            for key in rule.removes.iter().copied().chain([field]) {
                self.tree.remove(&own.path, key);
            }
            let set = self.tree.set(&own.path, own.offset, text);
            let removed = rule.removes.iter().map(|key| (*key).to_owned());
            for key in removed.chain(set) {
                self.tried.entry((table, key)).or_insert(0);
            }
            return true;
        }
        self.tree.remove(&own.path, field) || self.leave_out(table)
    }

    /// A table with one bracket where two are meant, or with two where one is.
    fn set_bracketed(&mut self, table: usize, header: &str, field: &str) -> bool {
        let is_repeated = match (header, field) {
            ("", "bus" | "disk" | "volume" | "change" | "workload") | ("pool", "volume") => true,
            ("", "pool" | "listen" | "nbd" | "log") => false,
            _ => return false,
        };
        self.tree.set_repeated(&self.layout.tables[table].path, field, is_repeated)
    }

    /// A name of its own for a table, or a name that it can refer to.
    fn set_reference(&mut self, table: usize, header: &str, field: &str, tried: usize) -> bool {
        let own = &self.layout.tables[table];
        let stand_in = format!("{STAND_IN}{table})");
        match (header, field, tried) {
            ("bus" | "disk" | "volume" | "pool.volume" | "change", "name", 1) => {
                self.lost.extend(own.name.clone());
                self.tree.set_text((&own.path, own.offset), "name", stand_in);
            }
            ("volume", "disk", 1 | 2) => {
                let name = self.existing("disk", tried).unwrap_or_else(|| {
                    self.spares += 1;
                    self.tree.add("disk", stand_in.clone(), SPARE_DISK);
                    stand_in
                });
                self.tree.set_text((&own.path, own.offset), "disk", name);
            }
            ("workload", "volume", 1 | 2) => {
                let name = self.existing("volume", tried).unwrap_or_else(|| {
                    self.spares += 1;
                    self.tree.add("disk", stand_in.clone(), SPARE_DISK);
                    self.tree.add_volume(&stand_in, SPARE_VOLUME);
                    stand_in
                });
                self.tree.set_text((&own.path, own.offset), "volume", name);
            }
            ("pool", "disks", 1) => {
                let names = [0, 1].map(|number| format!("{STAND_IN}{table}, {number})"));
                self.spares += names.len();
                for name in &names {
                    self.tree.add("disk", name.clone(), SPARE_DISK);
                }
                self.tree.set_texts((&own.path, own.offset), "disks", names.to_vec());
            }
            _ => return false,
        }
        true
    }

    /// A table of the file that can be referred to: in each variant another, in the first none.
    fn existing(&self, header: &str, tried: usize) -> Option<String> {
        if tried > 1 {
            return None;
        }
        let is_there = |name: &&String| !self.lost.contains(*name);
        let of_header = self.layout.tables.iter().filter(|table| table.header == header);
        let names: Vec<_> = of_header.filter_map(|table| table.name.as_ref()).collect();
        let mut names = names.into_iter().filter(is_there).cycle();
        names.nth(self.variant.checked_sub(1)?).cloned()
    }

    /// Leaves out a table for which there is no stand-in.
    fn leave_out(&mut self, table: usize) -> bool {
        let own = &self.layout.tables[table];
        let Some(key) = own.key() else { return false };
        if own.is_element() {
            self.lost.extend(own.name.clone());
            self.left_out.insert(own.header.clone());
            return self.tree.leave_out(&own.path);
        }
        let parent = own.parent;
        self.tried.entry((parent, key.to_owned())).or_insert(1);
        self.tree.remove(&self.layout.tables[parent].path, key)
    }

    /// The error as it is without stand-ins. A table without a name is called by its number, and
    /// those that are left out do not count for the parser; nor is a stand-in for a name one.
    fn as_in_file(&self, error: ConfigError, table: usize) -> ConfigError {
        if error.admission_failure().is_some() {
            return error;
        }
        let problem = Problem {
            file: error.file().to_owned(),
            line: error.line(),
            table: error.table().map(|title| self.title(title, table)),
            field: error.field().map(str::to_owned),
            found: error.found().map(str::to_owned),
            expected: without_stand_ins(error.expected()),
            is_refusal: error.is_refusal(),
        };
        InputError::from(problem).into()
    }

    fn title(&self, title: &str, mut table: usize) -> String {
        let Some((header, rest)) = title.split_once("]] ") else { return title.to_owned() };
        let named = rest.starts_with('"') && !rest.contains(STAND_IN);
        if named {
            return title.to_owned();
        }
        let header = header.trim_start_matches('[');
        while self.layout.tables[table].header != header && table != 0 {
            table = self.layout.tables[table].parent;
        }
        let name = self.layout.tables[table].name.as_ref().filter(|name| !name.is_empty());
        let within = match rest.split_once(')') {
            Some((_, within)) if rest.contains(STAND_IN) => within.trim_start_matches('"'),
            _ => rest.trim_start_matches(['#', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']),
        };
        match name {
            Some(name) => format!("[[{header}]] \"{}\"{within}", shorten(name)),
            None => format!("[[{header}]] #{}{within}", self.layout.number(table)),
        }
    }
}

/// A text without the names of stand-ins in its lists.
fn without_stand_ins(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find(&format!("\"{STAND_IN}")) {
        let Some(end) = text[start + 1..].find('"').map(|at| start + at + 2) else { break };
        let (before, behind) = (&text[..start], &text[end..]);
        text = match (before.strip_suffix(", "), behind.strip_prefix(", ")) {
            (Some(before), _) => format!("{before}{behind}"),
            (None, Some(behind)) => format!("{before}{behind}"),
            (None, None) => {
                let kind = before.trim_end().trim_start_matches("one of the ");
                format!("the name of a {}, and there is none", kind.trim_end_matches('s'))
            }
        };
    }
    text
}
