//! Data sheets of drive models: what a drive does, measured by asking its model in virtual time.
//!
//! [`Mechanical`] and [`Flash`] are the figures of one drive; [`Surface`] is a mechanical drive's
//! service time by seek distance and rotational offset, [`Depth`] a flash drive's rates and
//! latencies by queue depth. All are shown by `spindle drive` and drawn by `spindle-lab plot`.

mod flash;
mod mechanical;
mod surface;

pub use flash::{Depth, Flash, depths};
pub use mechanical::{DurableWrites, Mechanical, Zone, sequential_rate, zones};
pub use surface::Surface;
