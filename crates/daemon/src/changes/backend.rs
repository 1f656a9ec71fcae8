//! What a change to a volume takes where the volume lies.
//!
//! The two implementations differ in the order of their steps. A volume on one disk gets its space
//! erased before the config is replaced, so that a crash leaves the old config. A pool has metadata
//! of its own, so there the config is replaced first and restored if the rest fails: the next start
//! makes true what a crash left in the config.

use config::{Document, VolumeEdit};
use units::Bytes;

use super::error::ChangeError;
use crate::routing::routes::Route;

/// A volume that is to be created.
pub(super) trait NewVolumeBackend {
    /// Whether a volume of this name is in the config: `Some(true)` if it equals this one.
    fn equals_existing(&self, before: &Document) -> Result<Option<bool>, ChangeError>;

    /// The config with this volume, which has passed admission.
    fn add_to(&self, before: &Document) -> Result<Document, ChangeError>;

    /// Allocates the volume's space, replaces the config, and lets clients open the volume. After a
    /// failure nothing has changed.
    fn create(&self, before: &Document, after: &Document) -> Result<(), ChangeError>;
}

/// An existing volume.
pub(super) trait VolumeBackend {
    /// Its size as clients see it.
    fn size(&self) -> Bytes;

    /// The config with this volume edited, which has passed admission, and its new size.
    fn edit_in(
        &self,
        before: &Document,
        edit: &VolumeEdit,
    ) -> Result<(Document, Bytes), ChangeError>;

    /// Refuses a size for which there is no space, as far as the config does not know it.
    fn check_space(&self, size: Bytes) -> Result<(), ChangeError>;

    /// The config without this volume.
    fn remove_from(&self, before: &Document) -> Result<Document, ChangeError>;

    /// Gives the volume its new size and replaces the config. No client has a volume open that
    /// shrinks. After a failure nothing has changed.
    fn resize(&self, before: &Document, after: &Document, size: Bytes) -> Result<(), ChangeError>;

    /// Gives the engines the volume's terms.
    fn apply_terms(&self, after: &Document) -> Result<(), ChangeError>;

    /// The volume's route after a change of its size.
    fn resized_route(&self, after: &Document, route: Route) -> Result<Route, ChangeError>;

    /// Replaces the config and frees the volume's space. No client has the volume open. After a
    /// failure nothing has changed.
    fn remove(&self, before: &Document, after: &Document) -> Result<(), ChangeError>;
}
