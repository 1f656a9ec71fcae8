//! The choosers by name.

use core::fmt;
use core::str::FromStr;

/// The order in which the requests of one volume go to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChooserName {
    /// In the order of their arrival.
    #[default]
    Arrival,
    /// By ascending address from where the volume's last command ended, circularly. On a
    /// drive that holds several commands the nearest to where one completed last, while few wait.
    Sweep,
    /// The shortest positioning time first, predicted from the drive's profile. Without a profile,
    /// or while predictions fail, as [`ChooserName::Sweep`].
    Predicted,
}

impl ChooserName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Arrival, Self::Sweep, Self::Predicted];

    /// As configurations write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Sweep => "sweep",
            Self::Predicted => "predicted",
        }
    }
}

impl fmt::Display for ChooserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No chooser has this name. Remedy: one of [`ChooserName::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChooser;

impl FromStr for ChooserName {
    type Err = UnknownChooser;
    fn from_str(name: &str) -> Result<Self, UnknownChooser> {
        Self::ALL.into_iter().find(|chooser| chooser.as_str() == name).ok_or(UnknownChooser)
    }
}
