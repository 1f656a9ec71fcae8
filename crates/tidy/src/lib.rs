//! Checks of the tree itself, run by `cargo test -p spindle-tidy` and by `spindle-tidy` on its own.
//!
//! Each check takes a [`Tree`] and returns its [`Finding`]s; a check passes when it returns none.
//! The checks read the sources as text and as syntax trees. They run nothing of the project.
//!
//! | module | a finding is |
//! |---|---|
//! | [`width`] | a line of more than 100 columns, a file of more than 600 lines |
//! | [`words`] | a word of the banned list |
//! | [`links`] | a relative link whose target does not exist |
//! | [`names`] | two public types of one name in one crate |
//! | [`syntax::orphans`] | a source file that no module declares |
//! | [`circles`] | a circle of imports between the files of one crate |
//! | [`copies`] | a run of lines that stands in two places |
//! | [`assertions`] | a crate with fewer assertions than functions |
//! | [`unsafe_code`] | unsafe code outside of the files that may have it, or without a reason |

pub mod assertions;
pub mod circles;
pub mod copies;
pub mod documents;
pub mod links;
pub mod names;
pub mod syntax;
pub mod tree;
pub mod unsafe_code;
pub mod width;
pub mod words;

pub use tree::{Finding, Source, Tree};
