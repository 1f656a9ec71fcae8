//! Figures as SVG: lines, points and heat maps with axes, units and a caption.

mod heat;
mod plot;

pub use heat::HeatMap;
pub use plot::{Line, Plot, PlotError};
