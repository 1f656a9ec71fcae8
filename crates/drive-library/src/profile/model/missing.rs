//! The findings that a model or an engine needs and a profile lacks.

/// Why a profile is not sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFindings {
    /// The device does not rotate.
    NotRotating,
    /// The rotation period is missing.
    Rotation,
    /// The layout of sectors is missing.
    Layout,
    /// Seek times are missing.
    Seeks,
    /// The rates of random reads of 4 KiB are missing, for a device that does not rotate.
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
