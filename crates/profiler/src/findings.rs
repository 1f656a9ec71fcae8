//! What is known of a drive so far.

use core::fmt;

use units::{Lba, Share};

use crate::flash::Flash;
use crate::geometry::Geometry;
use crate::limits::{NOTES_MAX, OUTLIERS_MAX};
use crate::rotation::Spindle;

/// A figure that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure<T> {
    /// What it is.
    pub value: T,
    /// By how much the value may be off: one standard error, in the same unit.
    pub spread: T,
    /// From how many samples.
    pub samples: u32,
    /// How sure it is that the value is within twice the spread, or exact where the spread is nothing.
    pub confidence: Share,
}

/// What is measured, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// One turn of the spindle, and how steady it is; or that nothing turns.
    Rotation,
    /// Zones: where they begin, sectors a track, skews.
    Zones,
    /// Heads, cylinders and the order in which surfaces are filled.
    Surfaces,
    /// The seek curve and how it varies.
    Seeks,
    /// What commands cost beside the media.
    Overheads,
    /// Read-ahead and its segments.
    ReadBuffer,
    /// The write buffer and destaging.
    WriteBuffer,
    /// Throughput against chunk size.
    Chunks,
    /// Random commands a second against depth, and starvation.
    Depth,
    /// How well rotation is foretold.
    Prediction,
    /// Rates of flash against size and depth.
    Rates,
    /// Whether a rate is provisioned: a token bucket.
    Provisioned,
}

impl Stage {
    /// All of them, in the order in which they are measured.
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
        Self::Provisioned,
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
            Self::Provisioned => "provisioned",
        }
    }

    /// The stage of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why something was kept out of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The command failed.
    Failed,
    /// It took much longer than its like: a retry or a recalibration.
    Late,
    /// The sector does not lie where its neighbours say: it was remapped.
    Elsewhere,
}

/// Something that was kept out of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// Where.
    pub lba: Lba,
    /// While what was measured.
    pub stage: Stage,
    /// Why.
    pub reason: Reason,
}

/// What is known of a drive so far: each part as soon as it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What was measured to the end.
    pub done: Vec<Stage>,
    /// Whether there is a spindle, and how it turns.
    pub spindle: Option<Spindle>,
    /// Where sectors lie.
    pub geometry: Option<Geometry>,
    /// What was kept out of the figures.
    pub outliers: Vec<Outlier>,
    /// How much more was, than is listed.
    pub outliers_more: u64,
    /// What was found of rates, rations and writing, where nothing turns.
    pub flash: Flash,
    /// How the drive moves and what it remembers.
    pub dynamics: crate::dynamics::Dynamics,
    /// What else is worth knowing, in sentences.
    pub notes: Vec<String>,
}

impl Findings {
    /// Lists something that was kept out of the figures, once.
    pub fn outlier(&mut self, outlier: Outlier) {
        if self.outliers.contains(&outlier) {
            return;
        }
        if self.outliers.len() < OUTLIERS_MAX {
            self.outliers.push(outlier);
        } else {
            self.outliers_more += 1;
        }
    }

    /// Keeps a remark, once.
    pub fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether the stage was measured to the end.
    pub fn is_done(&self, stage: Stage) -> bool {
        self.done.contains(&stage)
    }

    /// The stage was measured to the end.
    pub fn finish(&mut self, stage: Stage) {
        if !self.is_done(stage) {
            self.done.push(stage);
        }
    }
}
