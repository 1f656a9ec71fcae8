//! The key `kind`, which distinguishes the two formats of drive files.

use serde::Deserialize;

/// The kind of a file, read before its other keys, which depend on it.
#[derive(Deserialize)]
pub(super) struct KindTable {
    kind: Option<Kind>,
}

impl KindTable {
    pub(super) fn kind(self) -> Kind {
        self.kind.unwrap_or_default()
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The default, for files without the key.
    #[default]
    Mechanical,
    Flash,
}
