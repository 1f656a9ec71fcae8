//! All findings of one drive.

use units::Share;

use super::dynamics::Dynamics;
use super::flash::Flash;
use super::geometry::Geometry;
use super::limits::{NOTES_MAX, OUTLIERS_MAX};
use super::rotation::Spindle;
use super::stage::{Outlier, Stage};

/// What measuring has found so far. Each part is filled as soon as it is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The completed stages.
    pub done: Vec<Stage>,
    /// Whether the drive rotates, and its rotation.
    pub spindle: Option<Spindle>,
    /// The zone map.
    pub geometry: Option<Geometry>,
    /// Samples that are excluded from the figures.
    pub outliers: Vec<Outlier>,
    /// The number of excluded samples beyond [`OUTLIERS_MAX`].
    pub outliers_more: u64,
    /// Throughput, rate limits and writes of a device that does not rotate.
    pub flash: Flash,
    /// Seeks, overheads and caches.
    pub dynamics: Dynamics,
    /// Remarks, in sentences.
    pub notes: Vec<String>,
}

impl Findings {
    /// Lists an excluded sample, once.
    pub fn add_outlier(&mut self, outlier: Outlier) {
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
    pub fn add_note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether the stage is complete.
    pub fn is_done(&self, stage: Stage) -> bool {
        self.done.contains(&stage)
    }

    /// Marks the stage as complete.
    pub fn finish(&mut self, stage: Stage) {
        if !self.is_done(stage) {
            self.done.push(stage);
        }
    }

    /// The stages with a figure whose confidence is below `confidence_min`, once each.
    pub fn uncertain_stages(&self, confidence_min: Share) -> Vec<Stage> {
        let mut all = self.dynamics.confidences();
        if let Some(Spindle::Rotating(rotation)) = &self.spindle {
            all.push((Stage::Rotation, rotation.period.confidence));
        }
        let zones = self.geometry.iter().flat_map(|map| &map.zones);
        all.extend(zones.map(|zone| (Stage::Zones, zone.begin_confidence)));
        let mut uncertain: Vec<Stage> = all
            .into_iter()
            .filter(|(_, confidence)| *confidence < confidence_min)
            .map(|(stage, _)| stage)
            .collect();
        uncertain.sort_unstable();
        uncertain.dedup();
        uncertain
    }
}
