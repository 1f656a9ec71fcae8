//! Residual delays of sectors relative to the map, by location.
//!
//! A zone's first angle and its skews come from a few dozen reads each, and at its ends the map is
//! off by tens of µs. The map is a few hundred track layouts at most: each slipped sector moves all
//! sectors behind it by one, and a layout is fitted through the mean of these steps, so that some
//! of its sectors pass 0.1 ms too soon and others too late. All seeks that end at one location have
//! the same error, and more of them do not reduce it.
//!
//! Every read from the media measures the delay of its location, with the noise of one completion.
//! The model of a zone has a level, slopes along the zone and along its cylinders, and bends. Each
//! of many cells has a further delay of its own, weighted by how far cells differ beyond noise.

use drive_profile::{Band, Profile};
use units::{Angle, Lba, Sectors};

use crate::estimate::number::{fraction, real, round_u32};

/// The number of cells of a disk.
pub(crate) const CELLS: u64 = 256;
/// The locations of a zone's bends, as parts of its length, and their reach on either side.
const BENDS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
const REACH: f64 = 0.2;
/// A level, a slope along the zone and one along each cylinder, and bends.
const TERMS: usize = 3 + BENDS.len();
/// The prior standard deviations of the terms, in ns: slopes at either end.
const PRIOR_DEVIATIONS: [f64; TERMS] =
    [60_000.0, 60_000.0, 30_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0];
/// The initial and the least standard deviation of cells, in ns.
const CELL_DEVIATION: (f64, f64) = (20_000.0, 5_000.0);
/// The number of reads after which the standard deviation of cells is estimated again.
const UPDATE_EVERY: u32 = 128;
/// A larger deviation counts as this one, in standard deviations.
const CLIPPED: f64 = 2.5;

type Terms = [f64; TERMS];

/// The delay model of a zone.
#[derive(Clone, Debug)]
struct ZoneResidual {
    first: Lba,
    len: Sectors,
    /// The normal equations, and their solution.
    products: [Terms; TERMS],
    sums: Terms,
    found: Terms,
}

impl ZoneResidual {
    fn new(first: Lba, len: Sectors) -> Self {
        let mut products = [[0.0; TERMS]; TERMS];
        for (nth, deviation) in PRIOR_DEVIATIONS.iter().enumerate() {
            products[nth][nth] = 1.0 / (deviation * deviation);
        }
        Self { first, len, products, sums: [0.0; TERMS], found: [0.0; TERMS] }
    }

    /// The terms of an address, with its position along the cylinder from −1 to 1.
    fn terms(&self, lba: Lba, on_cylinder: f64) -> Terms {
        let along = real(lba.0.saturating_sub(self.first.0)) / real(self.len.0.max(1));
        let mut terms = [1.0; TERMS];
        terms[1] = 2.0 * along - 1.0;
        terms[2] = on_cylinder;
        for (term, bend) in terms[3..].iter_mut().zip(BENDS) {
            *term = (1.0 - (along - bend).abs() / REACH).max(0.0);
        }
        terms
    }

    fn delay(&self, terms: Terms) -> f64 {
        product(terms, self.found)
    }

    fn learn(&mut self, terms: Terms, delay: f64, weight: f64) {
        for (nth, one) in terms.iter().enumerate() {
            self.sums[nth] += weight * one * delay;
            for (product, other) in self.products[nth].iter_mut().zip(terms) {
                *product += weight * one * other;
            }
        }
        self.found = solved(&self.products, self.sums);
    }
}

fn product(one: Terms, other: Terms) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The solution of the normal equations, by Cholesky decomposition: the prior makes them positive
/// definite.
fn solved(products: &[Terms; TERMS], mut sums: Terms) -> Terms {
    let mut root = [[0.0; TERMS]; TERMS];
    for row in 0..TERMS {
        for column in 0..=row {
            let known: f64 = (0..column).map(|nth| root[row][nth] * root[column][nth]).sum();
            let rest = products[row][column] - known;
            root[row][column] =
                if row == column { rest.sqrt() } else { rest / root[column][column] };
        }
        let known: f64 = (0..row).map(|nth| root[row][nth] * sums[nth]).sum();
        sums[row] = (sums[row] - known) / root[row][row];
    }
    for row in (0..TERMS).rev() {
        let known: f64 = (row + 1..TERMS).map(|nth| root[nth][row] * sums[nth]).sum();
        sums[row] = (sums[row] - known) / root[row][row];
    }
    sums
}

/// Weighted sums of the reads of one cell.
#[derive(Clone, Copy, Debug, Default)]
struct CellSums {
    weight: f64,
    delay: f64,
    terms: Terms,
}

impl CellSums {
    /// The weighted sum of the cell's delays beyond its zone's model.
    fn beyond(&self, zone: &ZoneResidual) -> f64 {
        self.delay - zone.delay(self.terms)
    }
}

/// Consecutive addresses of one zone, and the first one's sector within its first cylinder.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Lba,
    first_sector: u64,
    sectors_per_track: u64,
    zone: usize,
}

/// The observations of all zones and cells.
#[derive(Clone, Debug)]
pub(crate) struct ResidualMap {
    runs: Vec<Run>,
    surfaces: u64,
    zones: Vec<ZoneResidual>,
    /// The sectors of one cell.
    each: u64,
    /// Sums by zone and cell.
    seen: Vec<Vec<CellSums>>,
    /// The standard deviation of cells beyond their zones' models, in ns.
    cell_deviation: f64,
    reads: u32,
}

/// The cell of an address, and its terms.
struct Cell {
    zone: usize,
    index: usize,
    terms: Terms,
}

impl ResidualMap {
    /// A map without observations.
    pub(crate) fn new(map: &Profile) -> Self {
        Self::of(&map.bands, map.surfaces, map.capacity())
    }

    fn of(bands: &[Band], surfaces: u32, sectors: Sectors) -> Self {
        let (mut runs, mut zones): (Vec<Run>, Vec<ZoneResidual>) = (Vec::new(), Vec::new());
        for band in bands {
            let sectors_per_track = u64::from(band.sectors_per_track);
            let before = runs.last().map(|run| run.sectors_per_track);
            match zones.last_mut() {
                Some(zone) if before == Some(sectors_per_track) => {
                    zone.len = Sectors(band.lbas.end().0 - zone.first.0);
                }
                _ => zones.push(ZoneResidual::new(band.lbas.start, band.lbas.len)),
            }
            let (first, first_sector) = (band.lbas.start, band.first_sector);
            runs.push(Run { first, first_sector, sectors_per_track, zone: zones.len() - 1 });
        }
        let each = sectors.0.div_ceil(CELLS).max(1);
        let cells =
            |zone: &ZoneResidual| usize::try_from(zone.len.0.div_ceil(each)).expect("few").max(1);
        let seen = zones.iter().map(|zone| vec![CellSums::default(); cells(zone)]).collect();
        let surfaces = surfaces.into();
        Self { runs, surfaces, zones, each, seen, cell_deviation: CELL_DEVIATION.0, reads: 0 }
    }

    fn cell_of(&self, lba: Lba) -> Option<Cell> {
        let run = self.runs.partition_point(|run| run.first <= lba).checked_sub(1)?;
        let Run { first, first_sector, sectors_per_track, zone } = self.runs[run];
        let track = (first_sector + lba.0 - first.0) / sectors_per_track.max(1);
        let last = self.surfaces.saturating_sub(1);
        let on_cylinder = 2.0 * real(track % self.surfaces.max(1)) / real(last.max(1)) - 1.0;
        let on_cylinder = if last == 0 { 0.0 } else { on_cylinder };
        let cell = usize::try_from((lba.0 - self.zones[zone].first.0) / self.each).ok()?;
        let cell = cell.min(self.seen[zone].len() - 1);
        Some(Cell { zone, index: cell, terms: self.zones[zone].terms(lba, on_cylinder) })
    }

    /// The estimated delay of an address relative to the map, in ns.
    pub(crate) fn delay(&self, lba: Lba) -> f64 {
        let Some(Cell { zone, index: cell, terms }) = self.cell_of(lba) else { return 0.0 };
        let (seen, zone) = (&self.seen[zone][cell], &self.zones[zone]);
        zone.delay(terms)
            + seen.beyond(zone) / (seen.weight + 1.0 / (self.cell_deviation * self.cell_deviation))
    }

    /// Adds a read of an address with an observed delay, and the noise of its completion, in ns.
    pub(crate) fn learn(&mut self, lba: Lba, delay: f64, noise: f64) {
        let Some(Cell { zone, index: cell, terms }) = self.cell_of(lba) else { return };
        let (known, weight) = (self.delay(lba), 1.0 / (noise * noise));
        let delay = delay.clamp(known - CLIPPED * noise, known + CLIPPED * noise);
        self.zones[zone].learn(terms, delay, weight);
        let seen = &mut self.seen[zone][cell];
        seen.weight += weight;
        seen.delay += weight * delay;
        for (sum, term) in seen.terms.iter_mut().zip(terms) {
            *sum += weight * term;
        }
        self.reads += 1;
        if self.reads.is_multiple_of(UPDATE_EVERY) {
            self.update_cell_deviation();
        }
    }

    /// Estimates the standard deviation of cells: the variance of their sums beyond noise.
    fn update_cell_deviation(&mut self) {
        let (mut squares, mut weights) = (0.0, 0.0);
        for (cells, zone) in self.seen.iter().zip(&self.zones) {
            for seen in cells {
                let beyond = seen.beyond(zone);
                squares += beyond * beyond - seen.weight;
                weights += seen.weight * seen.weight;
            }
        }
        self.cell_deviation = (squares / weights).max(CELL_DEVIATION.1 * CELL_DEVIATION.1).sqrt();
    }
}

/// The angle that passes in `delay` ns, with a rotation period of `period` ns.
pub(crate) fn angle(delay: f64, period: f64) -> Angle {
    Angle(round_u32(fraction(delay / period) * real(1 << 32)))
}

#[cfg(test)]
mod tests {
    use drive_profile::{HeadOrder, Skew};
    use units::Extent;

    use super::*;

    const NOISE: f64 = 200_000.0;

    /// A disk of one zone, of a million sectors.
    fn cells() -> ResidualMap {
        let lbas = Extent::new(Lba(0), Sectors(1_000_000));
        let band = Band {
            lbas,
            first_sector: 0,
            first_cylinder: 0,
            sectors_per_track: 500,
            track_skew: Skew(0),
            cylinder_skew: Skew(0),
            first_angle: Angle(0),
            heads: HeadOrder::Up,
            chunk_read: Sectors(1),
            chunk_write: Sectors(1),
        };
        ResidualMap::of(&[band], 4, Sectors(1_000_000))
    }

    /// Nearly normal noise.
    fn noise(nth: u64) -> f64 {
        let draw = |nth: u64| fraction(real(nth) * 0.569_840_290_998_053);
        NOISE * ((1..=12).map(|salt| draw(nth * 12 + salt)).sum::<f64>() - 6.0)
    }

    /// The largest error of the estimates after `reads` reads of delays `is`.
    fn worst(reads: u64, is: impl Fn(u64) -> f64) -> f64 {
        let mut cells = cells();
        for nth in 1..=reads {
            let lba = nth * 618_034 % 1_000_000;
            cells.learn(Lba(lba), is(lba) + noise(nth), NOISE);
        }
        let off = |lba: u64| (cells.delay(Lba(lba)) - is(lba)).abs();
        (0..1_000_000).step_by(9_973).map(off).fold(0.0, f64::max)
    }

    #[test]
    fn a_zone_that_drifts_away_from_the_map_is_followed() {
        let off = worst(2_000, |lba| 60e3 - 0.12 * real(lba));
        assert!(off < 25e3, "{off} ns off");
    }

    #[test]
    fn places_that_differ_are_told_apart() {
        // Ten cells one way, ten the other.
        let ten = 10 * 1_000_000_u64.div_ceil(CELLS);
        let off = worst(40_000, |lba| if (lba / ten).is_multiple_of(2) { 80e3 } else { -80e3 });
        assert!(off < 60e3, "{off} ns off");
    }

    #[test]
    fn tracks_of_a_cylinder_are_told_apart() {
        let off = worst(2_000, |lba| 20e3 * real(lba / 500 % 4));
        assert!(off < 25e3, "{off} ns off");
    }

    #[test]
    fn what_is_in_order_stays_where_it_is() {
        let mut cells = cells();
        assert!(cells.delay(Lba(500)).abs() < 1e-9);
        cells.learn(Lba(500), 100e3, NOISE);
        let once = cells.delay(Lba(500));
        assert!(once > 5e3 && once < 30e3, "{once} ns after one read");
        // A hundredth of a revolution.
        let angle = f64::from(angle(cells.delay(Lba(500)), 100.0 * once).0) / 4_294_967_296.0;
        assert!((angle - 0.01).abs() < 1e-6, "{angle} revolutions");
    }
}
