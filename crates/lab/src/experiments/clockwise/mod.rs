//! "Real-Time Disk Scheduling in a Mixed-Media File System" (RTAS 2000, Clockwise): streams with
//! deadlines, and best effort in their slack.
//!
//! Three `atlas-ii`, each with an engine of its own. A stream's consecutive blocks lie on
//! consecutive disks, whatever their size: only so does a disk serve a stream of 245 KB/s in blocks
//! of 256 KB "approximately every 3 seconds". Of the task sets RTAS 2000 says that in each run
//! "either" a video of 817 or one of 245 KB/s was added, and that there were 40 of them up to 21
//! MB/s. Here the loads are n large videos without and with a small one, which gives as many; one
//! of each by turns would be at 27 MB/s after 40. All streams begin at once, and with the same
//! disk: what ΔL is worked out for, and what gives the queues of blocks of which RTAS 2000 explains
//! LST's losses. They read; RTAS 2000 does not say what its did.
//!
//! ```text
//! fig2   the slack against the load that is admitted
//! fig3   latency of best effort against the load of the streams, by policy
//! ```

mod fig2;
mod fig3;
mod layout;
mod point;
mod settings;

pub(super) use fig2::FIG2;
pub(super) use fig3::FIG3;
pub(crate) use point::OneDisk;
