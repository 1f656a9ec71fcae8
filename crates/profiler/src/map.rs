//! From where sectors lie to what a scheduler takes of it, before anything is known of the arm.

use drive_profile::{CommandOverheads, Extremes, Profile, SeekTable};
use units::{Duration, Sectors};

use crate::findings::Figure;
use crate::geometry::Geometry;

impl Geometry {
    /// A profile that knows where sectors lie and nothing of the arm, for a turn of `period`.
    pub fn profile(&self, period: &Figure<Duration>) -> Profile {
        Profile {
            rotation_period: period.value,
            rotation_error_ppb: error_ppb(period),
            surfaces: self.heads.map_or(1, |heads| heads.value),
            cylinders: self.cylinders,
            bands: self.bands.clone(),
            seek: SeekTable::default(),
            seek_write: SeekTable::default(),
            seek_variation: Duration::ZERO,
            head_switch: Duration::ZERO,
            write_settle: Duration::ZERO,
            overheads: CommandOverheads::default(),
            bus_sector: Duration::ZERO,
            completion: Duration::ZERO,
            seek_command: false,
            write_cache: false,
            extremes: Extremes::default(),
        }
    }

    /// Whether the map goes to the end of a disk of so many sectors.
    pub fn is_whole(&self, sectors: Sectors) -> bool {
        self.bands.last().is_some_and(|band| band.lbas.end().0 == sectors.0)
    }
}

/// Twice the standard error, in parts of a billion of the period.
fn error_ppb(period: &Figure<Duration>) -> u32 {
    let off = u128::from(period.spread.as_nanos()) * 2_000_000_000;
    u32::try_from(off / u128::from(period.value.as_nanos().max(1))).unwrap_or(u32::MAX)
}
