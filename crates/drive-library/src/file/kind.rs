//! The key `kind`, which tells the two formats of drive files apart.

use serde::Deserialize;

/// What a file is about: read first, so that the rest is read as what it is.
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
    /// The older kind: its files need not say so.
    #[default]
    Mechanical,
    Flash,
}
