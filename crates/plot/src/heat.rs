//! Figures: a quantity over a plane, as bands of colour beside a scale.

use std::path::Path;

use plotters::prelude::*;

use crate::plot::{Area, PlotError, failed, label};

/// One figure. `cells[column][row]` is drawn from the left and from below.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// A sentence that names the quantity and the setting.
    pub caption: String,
    /// The quantity on the horizontal axis, with its unit.
    pub x: String,
    /// The quantity on the vertical axis, with its unit.
    pub y: String,
    /// The quantity of the colours, with its unit.
    pub value: String,
    /// The ends of the axes, which begin at 0.
    pub ends: (f64, f64),
    /// The quantity in columns of equal width, each of rows of equal height.
    pub cells: Vec<Vec<f64>>,
}

const SIZE: (u32, u32) = (1_000, 500);
const BAR_WIDTH: u32 = 130;
/// A colour map of rising lightness, readable in grey and with colour-blindness (viridis, in five
/// steps).
const COLOURS: [RGBColor; 5] = [
    RGBColor(68, 1, 84),
    RGBColor(59, 82, 139),
    RGBColor(33, 145, 140),
    RGBColor(94, 201, 98),
    RGBColor(253, 231, 37),
];
/// More bands than this are not distinguishable.
const BANDS_MAX: f64 = 40.0;

impl HeatMap {
    /// Writes the figure to `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    ///
    /// # Panics
    /// If there is nothing to draw.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg)?;
        std::fs::write(path, svg).map_err(|error| failed(format!("{}: {error}", path.display())))
    }

    fn draw(&self, svg: &mut String) -> Result<(), PlotError> {
        let cells = || self.cells.iter().flatten().copied();
        assert!(cells().next().is_some(), "there is something to draw");
        let bands = Bands::over(cells().fold(f64::INFINITY, f64::min), cells().fold(0.0, f64::max));
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let below = area.titled(&self.caption, ("sans-serif", 16)).map_err(failed)?;
        let (plane, bar) = below.split_horizontally(SIZE.0 - BAR_WIDTH);
        self.draw_plane(&plane, bands)?;
        self.draw_bar(&bar, bands)?;
        area.present().map_err(failed)
    }

    #[expect(clippy::cast_precision_loss, reason = "drawn, never computed with")]
    fn draw_plane(&self, plane: &Area<'_>, bands: Bands) -> Result<(), PlotError> {
        let (x_end, y_end) = self.ends;
        let mut chart = ChartBuilder::on(plane)
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..x_end, 0.0..y_end)
            .map_err(failed)?;
        let width = x_end / self.cells.len() as f64;
        for (column, rows) in self.cells.iter().enumerate() {
            let height = y_end / rows.len() as f64;
            // Each overlaps the next, because viewers show a seam between adjacent rectangles.
            let left = column as f64 * width;
            let right = (left + 1.5 * width).min(x_end);
            // Neighbours of one colour are merged, which makes the file ten times smaller.
            let mut from = 0;
            for run in rows.chunk_by(|one, other| bands.of(*one) == bands.of(*other)) {
                let (low, high) =
                    (from as f64 * height, ((from + run.len()) as f64 + 0.5) * height);
                let style = bands.colour(bands.of(run[0])).filled();
                let cell = Rectangle::new([(left, low), (right, high.min(y_end))], style);
                chart.draw_series([cell]).map_err(failed)?;
                from += run.len();
            }
        }
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style(("sans-serif", 14))
            .label_style(("sans-serif", 12))
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()
            .map_err(failed)
    }

    fn draw_bar(&self, bar: &Area<'_>, bands: Bands) -> Result<(), PlotError> {
        let mut chart = ChartBuilder::on(bar)
            .margin(14)
            .margin_bottom(60)
            .margin_right(20)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..1.0, bands.bottom(0)..bands.bottom(bands.count))
            .map_err(failed)?;
        for band in 0..bands.count {
            let corners = [(0.0, bands.bottom(band)), (1.0, bands.bottom(band + 1))];
            let style = bands.colour(band).filled();
            chart.draw_series([Rectangle::new(corners, style)]).map_err(failed)?;
        }
        chart
            .configure_mesh()
            .disable_mesh()
            .disable_x_axis()
            .y_desc(&self.value)
            .axis_desc_style(("sans-serif", 14))
            .label_style(("sans-serif", 12))
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()
            .map_err(failed)
    }
}

/// Steps of a round height, from under the least to over the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bands {
    /// The bottom of the first, in steps.
    first: f64,
    step: f64,
    count: u32,
}

impl Bands {
    fn over(least: f64, largest: f64) -> Self {
        let range = (largest - least).max(f64::MIN_POSITIVE);
        let power = 10_f64.powf((range / BANDS_MAX).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
        let step = steps.into_iter().find(|step| range / step < BANDS_MAX).unwrap_or(steps[3]);
        let mut bands = Self { first: (least / step).floor(), step, count: 0 };
        bands.count = bands.of(largest) + 1;
        bands
    }

    /// The band of a value, from 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to BANDS_MAX, and a cast saturates"
    )]
    fn of(self, value: f64) -> u32 {
        ((value / self.step).floor() - self.first) as u32
    }

    fn bottom(self, band: u32) -> f64 {
        (self.first + f64::from(band)) * self.step
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and positive, and a colour"
    )]
    fn colour(self, band: u32) -> RGBColor {
        let along =
            f64::from(band) / f64::from((self.count - 1).max(1)) * (COLOURS.len() - 1) as f64;
        let below = (along.floor() as usize).min(COLOURS.len() - 2);
        let part = along - below as f64;
        let mix =
            |one: u8, other: u8| (f64::from(one) * (1.0 - part) + f64::from(other) * part) as u8;
        let (one, other) = (COLOURS[below], COLOURS[below + 1]);
        RGBColor(mix(one.0, other.0), mix(one.1, other.1), mix(one.2, other.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_round_and_hold_every_value() {
        let bands = Bands::over(0.3, 37.9);
        assert_eq!((bands.step, bands.bottom(0), bands.bottom(bands.count)), (1.0, 0.0, 38.0));
        assert_eq!([0.3, 1.0, 37.9].map(|value| bands.of(value)), [0, 1, 37]);
        let flat = Bands::over(5.0, 5.0);
        assert_eq!((flat.of(5.0), flat.count), (0, 1));
    }

    #[test]
    fn a_figure_names_its_axes_its_colours_and_what_is_seen() {
        let map = HeatMap {
            caption: "What is seen".into(),
            x: "distance, cylinders".into(),
            y: "offset, turns".into(),
            value: "service time, ms".into(),
            ends: (100.0, 1.0),
            cells: vec![vec![1.0, 2.0], vec![3.0, 4.0]],
        };
        let mut svg = String::new();
        map.draw(&mut svg).expect("it is drawn");
        for word in [map.caption, map.x, map.y, map.value] {
            assert!(svg.contains(&word), "{word} is missing");
        }
    }
}
