//! Figures: lines in a plane, as an SVG file with axes, units and a caption.

use core::fmt;
use core::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::series::DashedLineSeries;

/// One line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Drawn dashed: a guarantee beside a measurement.
    pub dashed: bool,
}

/// One figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// A sentence that names the quantity and the setting.
    pub caption: String,
    /// The quantity on the horizontal axis, with its unit.
    pub x: String,
    /// The quantity on the vertical axis, with its unit.
    pub y: String,
    /// What is drawn. A dashed line takes the colour of the solid line of the same place in its
    /// order.
    pub lines: Vec<Line>,
    /// Whether the horizontal axis is logarithmic; then points at or left of zero are not drawn.
    pub x_log: bool,
    /// Whether points are bars, the lines' side by side: for what has no order, numbered from 1.
    pub bars: bool,
    /// Whether the vertical axis is logarithmic; then points at or under zero are not drawn.
    pub y_log: bool,
}

/// A figure that could not be written.
#[derive(Debug)]
pub struct PlotError(String);

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlotError {}

const SIZE: (u32, u32) = (1_000, 500);
/// The legend stands beside the plane, where it hides nothing.
const LEGEND_WIDTH: u32 = 240;
const LEGEND_TOP: i32 = 30;
const LEGEND_ROW: i32 = 22;
const DASHES_WIDTH: i32 = 26;
/// Most points of a line that are marked one by one.
const POINTS_MARKED_MAX: usize = 16;
const MARK_RADIUS: i32 = 6;
/// How much of the room for them the bars of one place take.
const BARS_WIDTH: f64 = 0.7;
/// How far a logarithmic axis goes on behind the outermost points.
const LOG_MARGIN: f64 = 1.25;
const DASHES: &[(i32, i32)] = &[(0, 5), (10, 15), (20, 25)];
/// Colours that are distinguishable with colour-blindness (Okabe and Ito's set).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
];

impl Plot {
    /// Writes the figure to `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg)?;
        std::fs::write(path, svg).map_err(|error| PlotError(format!("{}: {error}", path.display())))
    }

    /// Whether a point is on the axes at all.
    fn shows(&self, (x, y): (f64, f64)) -> bool {
        (!self.x_log || x > 0.0) && (!self.y_log || y > 0.0)
    }

    /// From where to where the axes go.
    fn bounds(&self) -> (Range<f64>, Range<f64>) {
        let points = || self.lines.iter().flat_map(|line| &line.points).copied();
        let shown = || points().filter(|point| self.shows(*point));
        let axis = |of: fn((f64, f64)) -> f64, log: bool, above: f64| {
            let largest = shown().map(of).fold(f64::MIN_POSITIVE, f64::max);
            let least = if log { shown().map(of).fold(largest, f64::min) } else { 0.0 };
            // An axis of one point needs some length, too.
            least / LOG_MARGIN..(largest * above).max(least * LOG_MARGIN)
        };
        let above = |log| if log { LOG_MARGIN } else { 1.05 };
        if self.bars {
            let most = points().map(|at| at.0).fold(1.0, f64::max);
            return (0.5..most + 0.5, axis(|at| at.1, false, 1.05));
        }
        let (x_above, y_above) = (if self.x_log { LOG_MARGIN } else { 1.0 }, above(self.y_log));
        (axis(|at| at.0, self.x_log, x_above), axis(|at| at.1, self.y_log, y_above))
    }

    fn draw(&self, svg: &mut String) -> Result<(), PlotError> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let below = area.titled(&self.caption, ("sans-serif", 16)).map_err(failed)?;
        let (plane, legend) = below.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        let strokes = self.strokes();
        self.draw_plane(&plane, &strokes)?;
        for (row, (line, stroke)) in (0..).zip(self.lines.iter().zip(&strokes)) {
            let y = LEGEND_TOP + LEGEND_ROW * row;
            let dashes = if line.dashed { DASHES } else { &[(0, DASHES_WIDTH)] };
            for (from, to) in dashes {
                let path = PathElement::new([(*from, y), (*to, y)], *stroke);
                legend.draw(&path).map_err(failed)?;
            }
            let place = (DASHES_WIDTH + 8, y - 6);
            legend
                .draw(&Text::new(line.name.clone(), place, ("sans-serif", 13)))
                .map_err(failed)?;
        }
        area.present().map_err(failed)
    }

    fn draw_plane(&self, plane: &Area<'_>, strokes: &[ShapeStyle]) -> Result<(), PlotError> {
        let (x, y) = self.bounds();
        match (self.x_log, self.y_log) {
            (false, false) => self.draw_on(plane, x, y, strokes),
            (true, false) => self.draw_on(plane, x.log_scale(), y, strokes),
            (false, true) => self.draw_on(plane, x, y.log_scale(), strokes),
            (true, true) => self.draw_on(plane, x.log_scale(), y.log_scale(), strokes),
        }
    }

    fn draw_on<X, Y>(
        &self,
        plane: &Area<'_>,
        x: X,
        y: Y,
        strokes: &[ShapeStyle],
    ) -> Result<(), PlotError>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(plane)
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style(("sans-serif", 14))
            .label_style(("sans-serif", 12))
            .x_label_formatter(if self.x_log { &log_label } else { &label })
            .y_label_formatter(if self.y_log { &log_label } else { &label })
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()
            .map_err(failed)?;
        if self.bars {
            let count: f64 = self.lines.iter().map(|_| 1.0).sum();
            let mut from = -BARS_WIDTH / 2.0;
            for (line, stroke) in self.lines.iter().zip(strokes) {
                let to = from + BARS_WIDTH / count;
                let bar = |(x, y): &(f64, f64)| {
                    Rectangle::new([(x + from, 0.0), (x + to, *y)], stroke.filled())
                };
                chart.draw_series(line.points.iter().map(bar)).map_err(failed)?;
                from = to;
            }
            return Ok(());
        }
        for (line, stroke) in self.lines.iter().zip(strokes) {
            let points = line.points.iter().copied().filter(|point| self.shows(*point));
            let drawn = if line.dashed {
                chart.draw_series(DashedLineSeries::new(points, 5, 5, *stroke)).map(drop)
            } else {
                chart.draw_series(LineSeries::new(points, *stroke)).map(drop)
            };
            drawn.map_err(failed)?;
        }
        // Where points are few, what was worked out is told from what was drawn between. Those of
        // later lines are smaller, so that lines that lie on each other are seen to.
        let few = |line: &&Line| line.points.len() <= POINTS_MARKED_MAX && !line.dashed;
        for (nth, (line, stroke)) in
            (0..).zip(self.lines.iter().zip(strokes)).filter(|(_, (line, _))| few(line))
        {
            let radius = MARK_RADIUS.saturating_sub(2 * nth).max(MARK_RADIUS / 3);
            let shown = line.points.iter().filter(|point| self.shows(**point));
            let marks = shown.map(|at| Circle::new(*at, radius, stroke.filled()));
            chart.draw_series(marks).map_err(failed)?;
        }
        Ok(())
    }

    /// How each line is drawn. What was promised has the colour of what was had.
    fn strokes(&self) -> Vec<ShapeStyle> {
        let (mut solid, mut dashed) = (COLOURS.iter().cycle(), COLOURS.iter().cycle());
        let stroke = |line: &Line| {
            let (order, width) = if line.dashed { (&mut dashed, 1) } else { (&mut solid, 2) };
            order.next().expect("a cycle does not end").stroke_width(width)
        };
        self.lines.iter().map(stroke).collect()
    }
}

/// A number on an axis: without a point where none is needed.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as plotters asks for it")]
pub(crate) fn label(at: &f64) -> String {
    if *at != 0.0 && at.abs() < 0.001 {
        return format!("{at:e}");
    }
    let text = format!("{at:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number on a logarithmic axis: those that crowd towards the end of each decade have no room.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as plotters asks for it")]
fn log_label(at: &f64) -> String {
    let leading = at / 10_f64.powf(at.log10().floor());
    if [1.0, 2.0, 5.0, 10.0].iter().any(|shown| (leading - shown).abs() < 0.01) {
        label(at)
    } else {
        String::new()
    }
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

pub(crate) fn failed(error: impl fmt::Display) -> PlotError {
    PlotError(format!("the figure: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_on_an_axis_has_no_point() {
        assert_eq!([50_000.0, 0.1 + 0.2, -2.5].map(|at| label(&at)), ["50000", "0.3", "-2.5"]);
        assert_eq!([0.0, 0.001, 0.0001].map(|at| label(&at)), ["0", "0.001", "1e-4"]);
    }

    #[test]
    fn a_logarithmic_axis_begins_at_the_least_that_it_can_show() {
        let line =
            Line { name: String::new(), points: vec![(1.0, 0.0), (2.0, 0.01)], dashed: false };
        let plot = Plot { lines: vec![line], y_log: true, ..Plot::default() };
        let (x, y) = plot.bounds();
        assert_eq!((x.start, x.end), (0.0, 2.0));
        assert!(y.start > 0.0 && y.start < 0.01 && y.end > 0.01, "{y:?}");
    }

    #[test]
    fn a_figure_names_its_axes_its_lines_and_what_is_seen() {
        let line = |name: &str, dashed| Line {
            name: name.into(),
            points: vec![(0.0, 0.0), (1.0, 2.0)],
            dashed,
        };
        let plot = Plot {
            caption: "What is seen".into(),
            x: "time, s".into(),
            y: "disk time, s".into(),
            lines: vec![line("had", false), line("promised", true)],
            ..Plot::default()
        };
        let mut svg = String::new();
        plot.draw(&mut svg).expect("it is drawn");
        for word in ["What is seen", "time, s", "disk time, s", "had", "promised"] {
            assert!(svg.contains(word), "{word} is missing");
        }
    }
}
