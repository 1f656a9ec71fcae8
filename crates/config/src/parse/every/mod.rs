//! Every error of a config, not the first alone.
//!
//! The parser stops at its first error. Here that error is recorded, a stand-in takes the place of
//! the value that it names, and the tables are parsed again, until nothing is refused. What is
//! refused only because of a stand-in is not an error of the file: it is not recorded, and gets a
//! stand-in in its turn. A table for which there is none is left out.
//!
//! ```text
//! text ─ syntax ─▶ tables ── parse ──▶ error ── locate ──▶ key ── stand-in ──┐
//!                    ▲                                                       │
//!                    └───────────────────────────────────────────────────────┘
//! ```
//!
//! This is done with several sets of stand-ins ([`VARIANTS`]). An error is one of the file if it is
//! found with each of them.
//!
//! Invariant: each step changes a table or ends the loop, and steps are bounded.

mod layout;
mod recovery;
mod stand_ins;
mod syntax;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use input::{Source, read_text};

use self::layout::Layout;
use self::recovery::Recovery;
use self::stand_ins::VARIANTS;
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

impl Purpose {
    fn plan(self, plan: Plan) -> Result<Plan, ConfigError> {
        match self {
            Self::Serve => plan.for_serve(),
            Self::Simulation => plan.for_sim(),
        }
    }
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
        let parsed = Self::parse(text, file, base_dir).and_then(|plan| purpose.plan(plan));
        let first = match parsed {
            Ok(plan) => return Ok(plan),
            Err(first) => first,
        };
        let repaired = syntax::repair(text, file);
        let source = Source::new(file, &repaired.text);
        let Ok(root) = source.parse() else { return Err(repaired.errors_or(first)) };
        let layout = Layout::of(&repaired.text, &root);
        // Where there is no disk, tables that refer to one get a stand-in: it is not missed then.
        let has_no_disk = purpose == Purpose::Serve && !root.contains_key("disk");
        let no_disk = has_no_disk.then(|| Self::parse("", file, base_dir)?.for_serve());
        let no_disk = no_disk.and_then(Result::err);
        let errors = |variant| {
            let mut recovery = Recovery::new(&layout, root.clone(), variant);
            recovery.expect(&repaired.values);
            if has_no_disk {
                recovery.expect_none("disk");
            }
            recovery.run(|root| {
                Self::of_tables(&source, root, base_dir, &[]).and_then(|plan| purpose.plan(plan))
            })
        };
        let mut found = errors(0);
        // One error cannot be the consequence of another.
        if found.len() + repaired.errors.len() > 1 {
            for variant in 1..VARIANTS {
                let others = errors(variant);
                found.retain(|error| others.iter().any(|other| is_same(error, other)));
            }
        }
        let others = repaired.errors.into_iter().chain(no_disk);
        Err(in_order(others.chain(found)))
    }
}

/// Whether the error is found with other stand-ins too. What is expected may differ where it names
/// the policy's unit, the period or what there is to refer to; where it is how much there is room
/// for, the error depends on the stand-in.
fn is_same(error: &ConfigError, other: &ConfigError) -> bool {
    const DIFFERING: [&str; 8] = [
        "reserve",
        "limit",
        "batch",
        "estimate_sequential",
        "estimate_random",
        "disk",
        "disks",
        "volume",
    ];
    let of_file = |error: &ConfigError| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        (error.line(), text(error.table()), text(error.field()), text(error.found()))
    };
    let may_differ = error.field().is_some_and(|field| DIFFERING.contains(&field))
        && !error.is_refusal()
        && !other.is_refusal();
    of_file(error) == of_file(other) && (may_differ || error.expected() == other.expected())
}

/// The errors in the order of lines; of those on one line, in the order in which they were found.
fn in_order(errors: impl Iterator<Item = ConfigError>) -> Vec<ConfigError> {
    let mut by_line: BTreeMap<usize, Vec<ConfigError>> = BTreeMap::new();
    for error in errors {
        by_line.entry(error.line().unwrap_or(0)).or_default().push(error);
    }
    let errors: Vec<_> = by_line.into_values().flatten().take(ERRORS_MAX).collect();
    assert!(!errors.is_empty(), "the first error is no consequence of another");
    errors
}
