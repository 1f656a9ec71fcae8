//! The stages of a measurement, and the samples that they exclude.

use core::fmt;

use units::Lba;

/// One part of a measurement. Stages run in the order of [`Stage::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The rotation period and its steadiness, or that nothing rotates.
    Rotation,
    /// Zones: their first blocks, sectors per track, skews.
    Zones,
    /// Heads, cylinders and the order in which surfaces are filled.
    Surfaces,
    /// The seek curve and the variation of seek times.
    Seeks,
    /// Command overheads beside the media time.
    Overheads,
    /// Read-ahead and cache segments.
    ReadBuffer,
    /// The write buffer and destaging.
    WriteBuffer,
    /// Throughput against chunk size.
    Chunks,
    /// Random commands per second against queue depth, and starvation.
    Depth,
    /// The accuracy of rotational predictions.
    Prediction,
    /// Throughput of flash against size and queue depth.
    Rates,
    /// Rate limits: token buckets.
    RateLimit,
}

impl Stage {
    /// All stages, in the order in which they run.
    pub const ALL: [Self; 12] = [
        Self::Rotation,
        Self::Zones,
        Self::Surfaces,
        Self::Seeks,
        Self::Overheads,
        Self::ReadBuffer,
        Self::WriteBuffer,
        Self::Chunks,
        Self::Depth,
        Self::Prediction,
        Self::Rates,
        Self::RateLimit,
    ];

    /// Its name in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotation => "rotation",
            Self::Zones => "zones",
            Self::Surfaces => "surfaces",
            Self::Seeks => "seeks",
            Self::Overheads => "overheads",
            Self::ReadBuffer => "read-buffer",
            Self::WriteBuffer => "write-buffer",
            Self::Chunks => "chunks",
            Self::Depth => "depth",
            Self::Prediction => "prediction",
            Self::Rates => "rates",
            Self::RateLimit => "rate-limit",
        }
    }

    /// The stage of this name. The name `provisioned` of earlier versions is accepted.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = if name == "provisioned" { Self::RateLimit.name() } else { name };
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a sample is excluded from the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutlierReason {
    /// The command failed.
    Failed,
    /// It took much longer than similar commands: a retry or a recalibration.
    Late,
    /// The sector is not where its neighbours predict it: it was remapped.
    Remapped,
}

/// A sample that is excluded from the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// The first logical block of the command.
    pub lba: Lba,
    /// The stage that issued the command.
    pub stage: Stage,
    /// Why it is excluded.
    pub reason: OutlierReason,
}
