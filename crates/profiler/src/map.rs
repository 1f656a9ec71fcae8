//! Where sectors lie: what everything else that is measured of a turning disk stands on.

use engine::{Band, CommandOverheads, Curve, Profile};
use units::{Duration, Sectors, Share};

/// Where sectors lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Heads.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// How sure it is that all of it is so.
    pub confidence: Share,
    /// In the order of addresses, without gaps from address 0 on.
    pub bands: Vec<Band>,
}

impl Map {
    /// The addresses that it knows.
    pub fn capacity(&self) -> Sectors {
        self.bands.last().map_or(Sectors::ZERO, |band| Sectors(band.lbas.end().0))
    }

    /// A profile that knows where sectors lie and nothing of the arm, for a turn of `period`, which may be off by so many
    /// parts in a billion.
    pub fn profile(&self, period: Duration, period_error_ppb: u32) -> Profile {
        Profile {
            period,
            period_error_ppb,
            surfaces: self.surfaces,
            cylinders: self.cylinders,
            bands: self.bands.clone(),
            seek: Curve::default(),
            seek_write: Curve::default(),
            seek_variation: Duration::ZERO,
            head_switch: Duration::ZERO,
            write_settle: Duration::ZERO,
            overheads: CommandOverheads::default(),
            bus_sector: Duration::ZERO,
            completion: Duration::ZERO,
            seek_command: false,
            write_cache: false,
        }
    }

    /// What a profile knows of where sectors lie.
    pub fn of(profile: &Profile, confidence: Share) -> Self {
        let (surfaces, cylinders) = (profile.surfaces, profile.cylinders);
        Self { surfaces, cylinders, confidence, bands: profile.bands.clone() }
    }
}
