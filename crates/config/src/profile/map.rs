//! Where sectors lie: `[found.map]`.

use engine::{Band, Heads, Skew};
use profiler::{Findings, Map};
use units::{Angle, Extent, Lba, Sectors, Share};

use super::form::{Form, Record};
use super::written::{Written, by_name, named};
use crate::error::ConfigError;
use crate::table::Value;

/// Most bands of a map: a drive with a slip on every tenth track has so many.
const BANDS_MAX: usize = 1 << 16;

pub(super) fn visit(findings: &mut Findings, form: &mut Form<'_>) -> Result<(), ConfigError> {
    form.table("map", &mut findings.map)
}

by_name!(
    Heads,
    "the order of heads",
    Heads::Up = "up",
    Heads::UpOnEven = "up-on-even",
    Heads::DownOnEven = "down-on-even",
);

/// In 2⁻⁶⁴ of a turn, in base sixteen: TOML's numbers end before.
impl Written for Skew {
    const EXPECTED: &'static str =
        "a part of a turn in 2^-64, such as \"0x4000000000000000\" for a quarter";

    fn text(&self) -> String {
        format!("\"{:#018x}\"", self.0)
    }

    fn read(value: &Value<'_>) -> Result<Self, ConfigError> {
        let digits = value.text(Self::EXPECTED)?.strip_prefix("0x");
        let skew = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        skew.map(Self).ok_or_else(|| value.refuse(Self::EXPECTED))
    }
}

impl Record for Map {
    fn blank() -> Self {
        Self { surfaces: 0, cylinders: 0, confidence: Share::NONE, bands: Vec::new() }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.field("surfaces", &mut self.surfaces)?;
        form.field("cylinders", &mut self.cylinders)?;
        form.field("confidence", &mut self.confidence)?;
        form.tables("band", &mut self.bands, BANDS_MAX)?;
        let mut next = Lba(0);
        for (nth, band) in self.bands.iter().enumerate() {
            let nth = nth + 1;
            form.sound(band.lbas.start == next && !band.lbas.is_empty(), "band", || {
                format!("bands that follow one another from sector 0 on; number {nth} does not")
            })?;
            let has = band.sectors_per_track > 0 && band.chunk_read.0 > 0 && band.chunk_write.0 > 0;
            form.sound(has, "band", || format!("tracks and chunks of sectors in band {nth}"))?;
            // The reader has seen that every number is under 2^63.
            next = band.lbas.end();
        }
        form.sound(!self.bands.is_empty(), "band", || "at least one table [[band]]".to_owned())?;
        let turns = self.surfaces > 0 && self.cylinders > 0;
        form.sound(turns, "surfaces", || "heads and cylinders above zero".to_owned())
    }
}

impl Record for Band {
    fn blank() -> Self {
        Self {
            lbas: Extent::default(),
            first_sector: 0,
            first_cylinder: 0,
            sectors_per_track: 0,
            track_skew: Skew::default(),
            cylinder_skew: Skew::default(),
            first_angle: Angle::ZERO,
            heads: Heads::Up,
            chunk_read: Sectors::ZERO,
            chunk_write: Sectors::ZERO,
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.field("first", &mut self.lbas.start)?;
        form.field("sectors", &mut self.lbas.len.0)?;
        form.field("first_sector", &mut self.first_sector)?;
        form.field("first_cylinder", &mut self.first_cylinder)?;
        form.field("sectors_per_track", &mut self.sectors_per_track)?;
        form.field("track_skew", &mut self.track_skew)?;
        form.field("cylinder_skew", &mut self.cylinder_skew)?;
        form.field("first_angle", &mut self.first_angle)?;
        form.field("heads", &mut self.heads)?;
        form.field("chunk_read", &mut self.chunk_read)?;
        form.field("chunk_write", &mut self.chunk_write)
    }
}
