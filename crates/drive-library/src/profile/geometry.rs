//! The layout of sectors: `[found.geometry]`.

use drive::{CYLINDERS_MAX, SECTORS_PER_TRACK_MAX, SURFACES_MAX, ZONES_MAX};
use drive_profile::findings::limits::BANDS_MAX;
use drive_profile::findings::{Findings, Geometry, Zone};
use drive_profile::{Band, HeadOrder, Skew};
use units::{Angle, Extent, Lba, Sectors, Share};

use super::flash::{no_time, unknown};
use super::form::{Form, Record};
use super::value::Written;
use input::InputError;
use input::Value;

/// The largest number of sectors of a disk, including those without an address: a model's limit.
const SECTORS_MAX: u64 = 1 << 48;

pub(super) fn visit(findings: &mut Findings, form: &mut Form<'_>) -> Result<(), InputError> {
    form.table("geometry", &mut findings.geometry)
}

/// In 2⁻⁶⁴ of a revolution, in hexadecimal: TOML's integers have 63 bits.
impl Written for Skew {
    const EXPECTED: &'static str =
        "a part of a revolution in 2^-64, such as \"0x4000000000000000\" for a quarter";

    fn text(&self) -> String {
        format!("\"{:#018x}\"", self.0)
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        let digits = value.text(Self::EXPECTED)?.strip_prefix("0x");
        let skew = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        skew.map(Self).ok_or_else(|| value.refuse(Self::EXPECTED))
    }
}

impl Record for Geometry {
    fn blank() -> Self {
        let (zones, bands, known) = (Vec::new(), Vec::new(), Sectors::ZERO);
        Self { zones, bands, heads: None, order: None, cylinders: 0, known }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field(("mapped", "known"), &mut self.known)?;
        form.field("cylinders", &mut self.cylinders)?;
        form.figure("heads", &mut self.heads)?;
        form.maybe(("head_order", "order"), &mut self.order)?;
        form.tables("zone", &mut self.zones, ZONES_MAX)?;
        form.tables("band", &mut self.bands, BANDS_MAX)?;
        check_bands(&self.bands, form)?;
        let heads = self.heads.is_none_or(|heads| (1..=SURFACES_MAX).contains(&heads.value));
        let is_valid = (1..=CYLINDERS_MAX).contains(&self.cylinders) && heads;
        form.sound(is_valid, "cylinders", || {
            format!("1 to {CYLINDERS_MAX} cylinders and 1 to {SURFACES_MAX} heads")
        })
    }
}

/// The bands follow one another, and no number of theirs exceeds a model's limits.
fn check_bands(bands: &[Band], form: &Form<'_>) -> Result<(), InputError> {
    let mut next = Lba(0);
    for (nth, band) in (1..).zip(bands) {
        form.sound(band.lbas.start == next && !band.lbas.is_empty(), "band", || {
            format!("bands that follow one another from sector 0 on; number {nth} does not")
        })?;
        let is_valid = (1..=SECTORS_PER_TRACK_MAX).contains(&band.sectors_per_track)
            && band.first_cylinder < CYLINDERS_MAX
            && band.lbas.end().0.max(band.first_sector) <= SECTORS_MAX
            && band.chunk_read.0 > 0
            && band.chunk_write.0 > 0;
        form.sound(is_valid, "band", || {
            format!(
                "tracks of 1 to {SECTORS_PER_TRACK_MAX} sectors, chunks above zero and under \
                 {CYLINDERS_MAX} cylinders and {SECTORS_MAX} sectors in band {nth}"
            )
        })?;
        // The reader has checked that every number is below 2^63.
        next = band.lbas.end();
    }
    Ok(())
}

/// The first sector and the number of sectors.
fn visit_extent(lbas: &mut Extent, form: &mut Form<'_>) -> Result<(), InputError> {
    form.field(("first_lba", "first"), &mut lbas.start)?;
    form.field("sectors", &mut lbas.len.0)
}

impl Record for Zone {
    fn blank() -> Self {
        Self {
            lbas: Extent::default(),
            begin_confidence: Share::NONE,
            sectors_per_track: unknown(0, 0),
            track_skew: no_time(),
            cylinder_skew: no_time(),
            skews_separated: false,
            media_rate: 0,
            sustained_rate: 0,
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        visit_extent(&mut self.lbas, form)?;
        form.field(("begin_confidence", "begins_there"), &mut self.begin_confidence)?;
        form.known("sectors_per_track", &mut self.sectors_per_track)?;
        form.known("track_skew", &mut self.track_skew)?;
        form.known("cylinder_skew", &mut self.cylinder_skew)?;
        form.field(("skews_separated", "skews_apart"), &mut self.skews_separated)?;
        form.field("media_bytes_per_s", &mut self.media_rate)?;
        form.field("sustained_bytes_per_s", &mut self.sustained_rate)
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
            heads: HeadOrder::Up,
            chunk_read: Sectors::ZERO,
            chunk_write: Sectors::ZERO,
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        visit_extent(&mut self.lbas, form)?;
        form.field("first_sector", &mut self.first_sector)?;
        form.field("first_cylinder", &mut self.first_cylinder)?;
        form.field("sectors_per_track", &mut self.sectors_per_track)?;
        form.field("track_skew", &mut self.track_skew)?;
        form.field("cylinder_skew", &mut self.cylinder_skew)?;
        form.field("first_angle", &mut self.first_angle)?;
        form.field(("head_order", "heads"), &mut self.heads)?;
        form.field("chunk_read", &mut self.chunk_read)?;
        form.field("chunk_write", &mut self.chunk_write)
    }
}
