//! The zone map.

use units::{Duration, Extent, Lba, Sectors, Share};

use super::figure::Figure;
use crate::{Band, BufferSegments, CommandOverheads, Extremes, HeadOrder, Profile, SeekTable};

/// Consecutive logical blocks on tracks with equally many sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The logical blocks.
    pub lbas: Extent,
    /// The probability that the zone begins exactly at its first block.
    pub begin_confidence: Share,
    /// Sectors on a track.
    pub sectors_per_track: Figure<u32>,
    /// The delay of a track's first sector after that of the track before it on its cylinder.
    pub track_skew: Figure<Duration>,
    /// The delay of a cylinder's first sector after that of the last track of the cylinder before.
    pub cylinder_skew: Figure<Duration>,
    /// Whether the two skews were separated. If not, both are their mean.
    pub skews_separated: bool,
    /// Bytes that pass under a head in a second.
    pub media_rate: u64,
    /// Bytes that pass in a second over many tracks, track changes included.
    pub sustained_rate: u64,
}

/// The map from logical blocks to zones and bands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The zones, from logical block 0 on.
    pub zones: Vec<Zone>,
    /// The same as the scheduler needs it, split where the layout changes. Chunks are one sector:
    /// they are not geometry.
    pub bands: Vec<Band>,
    /// Tracks on a cylinder, if the measurement shows where cylinders begin.
    pub heads: Option<Figure<u32>>,
    /// The order in which a cylinder's heads are used. Without a value the order is not
    /// observable, and has no effect on predictions.
    pub order: Option<HeadOrder>,
    /// Cylinders, or tracks if the number of tracks on a cylinder is unknown.
    pub cylinders: u32,
    /// The first logical block behind the bands. Zones behind it are coarse, or missing.
    pub known: Sectors,
}

impl Geometry {
    /// The zone of a logical block, if the map covers it.
    pub fn zone(&self, lba: Lba) -> Option<&Zone> {
        let behind = self.zones.partition_point(|zone| zone.lbas.start <= lba);
        self.zones.get(behind.checked_sub(1)?).filter(|zone| lba < zone.lbas.end())
    }

    /// A profile with this map and the rotation period, without seek times and overheads.
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
            read_buffer: BufferSegments::default(),
            extremes: Extremes::default(),
        }
    }

    /// Whether the bands cover a disk of `sectors` sectors to its end.
    pub fn is_complete(&self, sectors: Sectors) -> bool {
        self.bands.last().is_some_and(|band| band.lbas.end().0 == sectors.0)
    }
}

/// Twice the standard error of the period, in parts per billion of it.
fn error_ppb(period: &Figure<Duration>) -> u32 {
    let off = u128::from(period.spread.as_nanos()) * 2_000_000_000;
    u32::try_from(off / u128::from(period.value.as_nanos().max(1))).unwrap_or(u32::MAX)
}
