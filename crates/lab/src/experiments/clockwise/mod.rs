//! "Real-Time Disk Scheduling in a Mixed-Media File System" (RTAS 2000, Clockwise): streams with
//! deadlines, and best effort in their slack.
//!
//! There are three `atlas-ii`, each with its own engine. A stream's consecutive blocks lie on
//! consecutive disks, whatever their size: only then does a disk serve a stream of 245 KB/s in
//! blocks of 256 KB "approximately every 3 seconds". RTAS 2000 says of its task sets that each run
//! added "either" a video of 817 KB/s or one of 245 KB/s, and that there were 40 sets up to 21
//! MB/s. Here the loads are n large videos, without and with one small video, which gives as many
//! sets. Alternating both kinds would reach 27 MB/s after 40 sets. All streams begin at once and on
//! the same disk. This is the case for which ΔL is computed, and it causes the queues of blocks by
//! which RTAS 2000 explains LST's losses. The streams read; RTAS 2000 does not state the direction.
//!
//! ```text
//! bus    what is admitted, and what is late, on a bus that the disks share
//! fig2   the slack against the load that is admitted
//! fig3   latency of best effort against the load of the streams, by policy
//! pool   figures 2 to 4 with the layouts of a pool
//! ```

mod angles;
mod bus;
mod fig2;
mod fig3;
mod layout;
mod point;
mod pool;
mod pool_fig2;
mod pool_fig3;
mod pool_fig4;
mod pool_load;
mod settings;

pub(crate) use angles::{ANGLES, RELATIVE_DIFFERENCE_MAX, simulate_from_angles};
pub(super) use bus::BUS;
pub(super) use fig2::FIG2;
pub(super) use fig3::{Beside, FIG3, beside_the_highest_loads};
pub(crate) use point::{Measured, OneDisk};
pub(super) use pool_fig2::POOL_FIG2;
pub(super) use pool_fig3::POOL_FIG3;
pub(crate) use pool_fig4::OnPool;
pub(super) use pool_fig4::POOL_FIG4;
