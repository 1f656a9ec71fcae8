//! The keys of a profile file, as its reader knows them.

use drive_library::profile::keys;

use crate::keys::tables;
use crate::markdown::{head, paragraph};

const INTRODUCTION: [&str; 3] = [
    "The file that `spindle profile` writes and `[[disk]] profile` reads, in TOML. \
     [Measure a drive](../guide/measure.md) shows how to make one, \
     [Profiles](../concepts/profiles.md) how the figures are found. `spindle profile --json` and \
     `spindle profile show --json` have the same tables under `profile`, renamed keys under both \
     names.",
    "A key that is not below is refused, with its line. Times, sizes and shares are quantities in \
     quotes (`\"8333us\"`, `\"256KiB\"`, `\"95%\"`); sectors are of 512 bytes. A quantity that \
     was not measured is absent.",
    "A **figure** is `{ value = …, spread = …, samples = …, confidence = … }`: the value, its \
     standard error in the same unit, the number of samples, and the probability that the value \
     is within twice the spread.",
];

/// The reference page.
pub(crate) fn page() -> String {
    let mut text = head("Profile files", "`crates/drive-library/src/profile/`");
    let paragraphs: Vec<_> = INTRODUCTION.into_iter().map(paragraph).collect();
    text.push_str(&paragraphs.join("\n"));
    text.push_str(&tables(&keys()));
    text
}
