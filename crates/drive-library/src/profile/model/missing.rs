//! What a profile lacks for a model or for the engine.

/// Why a profile is not enough for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFindings {
    /// Nothing turns.
    NotRotating,
    /// One turn of the spindle.
    Rotation,
    /// Where sectors lie.
    Layout,
    /// How long the arm takes.
    Seeks,
    /// What random reads of 4 KiB do where nothing turns.
    Rates,
}

impl core::fmt::Display for MissingFindings {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NotRotating => {
                "is of a device on which nothing turns, expected one of a drive with an arm"
            }
            Self::Rotation => "does not say how the spindle turns, expected a stage `rotation`",
            Self::Layout => {
                "does not say where all sectors lie, expected a stage `zones` that came to its end"
            }
            Self::Seeks => "does not say how long the arm takes, expected a stage `seeks`",
            Self::Rates => "does not say how random reads are answered, expected a stage `rates`",
        })
    }
}
