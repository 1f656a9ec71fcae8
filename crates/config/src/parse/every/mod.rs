//! Every error of a config, not the first alone.
//!
//! The parser stops at its first error. Here that error is recorded, the value or the table that it
//! names is blanked in a copy of the text, and the copy is parsed again, until nothing is refused.
//! Blanking keeps every line break, so that lines and offsets stay those of the file. What is
//! refused only because of something blanked (a required key that is blank now, a disk whose table
//! is) is not an error of the file: its table is blanked without a record.
//!
//! ```text
//! text ── parse ──▶ error ── locate ──▶ span ── blank ──┐
//!   ▲                                                   │
//!   └───────────────────────────────────────────────────┘   at most ERRORS_MAX times
//! ```
//!
//! Invariant: each step blanks at least one character that was not blank, so that the loop ends.

mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use input::{InputError, Problem, Source, read_text};

use self::layout::{Key, Layout, Section};
use crate::error::ConfigError;
use crate::limits::{CONFIG_BYTES_MAX, ERRORS_MAX};
use crate::plan::Plan;

/// What a config is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `spindle serve`.
    Serve,
    /// `spindle sim run`.
    Simulation,
}

impl Plan {
    /// Checks the config at `path`, as [`Plan::check`] does.
    ///
    /// # Errors
    /// As [`Plan::check`], or the one error that the file cannot be read.
    pub fn check_file(path: &Path, purpose: Purpose) -> Result<Self, Vec<ConfigError>> {
        let text = read_text(path, CONFIG_BYTES_MAX).map_err(|error| vec![error.into()])?;
        let file = path.display().to_string();
        Self::check(&text, &file, path.parent().unwrap_or(Path::new("")), purpose)
    }

    /// Checks the config `text` for `purpose`, as [`Plan::parse`] does, and reports every error in
    /// the order of lines: at most [`ERRORS_MAX`].
    ///
    /// # Errors
    /// All that [`Plan::parse`], [`Plan::for_serve`] and [`Plan::for_sim`] would refuse one after
    /// the other, each mended in its turn. The list is not empty.
    pub fn check(
        text: &str,
        file: &str,
        base_dir: &Path,
        purpose: Purpose,
    ) -> Result<Self, Vec<ConfigError>> {
        let parse = |text: &str| {
            let plan = Self::parse(text, file, base_dir)?;
            match purpose {
                Purpose::Serve => plan.for_serve(),
                Purpose::Simulation => plan.for_sim(),
            }
        };
        let first = match parse(text) {
            Ok(plan) => return Ok(plan),
            Err(first) => first,
        };
        let Ok(root) = Source::new(file, text).parse() else { return Err(vec![first]) };
        let mut recovery = Recovery::new(text, Layout::of(text, &root));
        let mut next = Some(first);
        while let Some(error) = next {
            if !recovery.step(error) {
                break;
            }
            next = parse(&recovery.text).err();
        }
        Err(recovery.finish())
    }
}

/// The text with what was refused so far blanked.
struct Recovery<'t> {
    layout: Layout<'t>,
    text: String,
    errors: Vec<ConfigError>,
    /// The keys that are blank, by the offset of their section.
    blanked_keys: BTreeSet<(usize, String)>,
    /// The sections that are blank, by their offset.
    blanked_sections: BTreeSet<usize>,
}

impl<'t> Recovery<'t> {
    fn new(text: &'t str, layout: Layout<'t>) -> Self {
        let text = text.to_owned();
        let (blanked_keys, blanked_sections) = (BTreeSet::new(), BTreeSet::new());
        Self { layout, text, errors: Vec::new(), blanked_keys, blanked_sections }
    }

    /// Records an error and blanks what it names; whether the rest can still be parsed for more.
    fn step(&mut self, error: ConfigError) -> bool {
        if self.errors.len() >= ERRORS_MAX {
            return false;
        }
        let Some(line) = error.line() else {
            self.errors.push(error);
            return false;
        };
        // An error without a table is about the top of the file, whatever its line begins.
        let section = error.table().map_or(0, |_| self.layout.section_at(line));
        let is_consequence = self.is_consequence(&error, section);
        let key = self.layout.key_at(section, line, error.field());
        // A consequence ends its table; so does an error that no single key is the cause of.
        let key = if is_consequence { None } else { key };
        if !is_consequence {
            let numbered = self.numbered(error, line);
            self.errors.push(numbered);
        }
        let section = self.layout.sections[section].clone();
        match key {
            Some(key) => self.blank_key(&section, &key),
            None if section.is_top() => false,
            None => self.blank_section(&section),
        }
    }

    /// Whether the file would not be refused for this if what is blank were mended.
    fn is_consequence(&self, error: &ConfigError, section: usize) -> bool {
        let section = &self.layout.sections[section];
        let field = error.field().unwrap_or_default();
        let is_blank = self.blanked_keys.contains(&(section.start, field.to_owned()));
        let mut blank = self.blanked().filter_map(|section| section.name);
        let refers_to_blank = error.found().is_some_and(|found| blank.any(|name| name == found));
        // At the top: `disk` is missing because each table of a disk is blank.
        let all_blank = section.is_top() && self.blanked().any(|section| section.header == field);
        is_blank || refers_to_blank || all_blank
    }

    fn blanked(&self) -> impl Iterator<Item = &Section<'t>> {
        let is_blank = |section: &&Section<'_>| self.blanked_sections.contains(&section.start);
        self.layout.sections.iter().filter(is_blank)
    }

    fn blank_key(&mut self, section: &Section<'_>, key: &Key<'_>) -> bool {
        self.blanked_keys.insert((section.start, key.name.to_owned()));
        self.blank(key.start, key.end)
    }

    fn blank_section(&mut self, section: &Section<'_>) -> bool {
        self.blanked_sections.insert(section.start);
        self.blank(section.start, section.end)
    }

    /// Blanks the text between two offsets; whether there was anything but white space.
    fn blank(&mut self, start: usize, end: usize) -> bool {
        let is_full = !self.text[start..end].trim().is_empty();
        let line_breaks =
            self.text[start..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' });
        let blank: String = line_breaks.collect();
        assert_eq!(blank.len(), end - start, "offsets stay");
        self.text.replace_range(start..end, &blank);
        is_full
    }

    /// The error with the number that its table has in the file: a table without a name is called
    /// by its number, and blank tables do not count for the parser.
    fn numbered(&self, error: ConfigError, line: usize) -> ConfigError {
        let Some((header, _)) = error.table().and_then(|title| title.split_once("]] #")) else {
            return error;
        };
        if error.admission_failure().is_some() {
            return error;
        }
        let header = header.trim_start_matches('[').to_owned();
        let number = self.layout.number(&header, line);
        let problem = Problem {
            file: error.file().to_owned(),
            line: Some(line),
            table: Some(format!("[[{header}]] #{number}")),
            field: error.field().map(str::to_owned),
            found: error.found().map(str::to_owned),
            expected: error.expected().to_owned(),
            is_refusal: error.is_refusal(),
        };
        InputError::from(problem).into()
    }

    /// The errors, in the order of lines; of those on one line, in the order in which they were
    /// found.
    fn finish(self) -> Vec<ConfigError> {
        assert!(!self.errors.is_empty(), "the first error is no consequence of another");
        let mut by_line: BTreeMap<usize, Vec<ConfigError>> = BTreeMap::new();
        for error in self.errors {
            by_line.entry(error.line().unwrap_or(0)).or_default().push(error);
        }
        by_line.into_values().flatten().collect()
    }
}
