//! Exports as block devices of the kernel, through its ublk driver.
//!
//! ```text
//!  program ─▶ /dev/ublkbN ─▶ driver ─▶ a ring of the event loop ─▶ router ─▶ disk
//!  operator ─▶ Control: adds, starts, recovers, resizes and removes devices (/dev/ublk-control)
//! ```
//!
//! A device is a client of one event loop ([`nbd::QueueClient`]). The loop's thread fetches
//! requests from the driver and commits their results on an io_uring; the data are copied by
//! `pread` and `pwrite` on the device's control node (`UBLK_F_USER_COPY`), so that the driver
//! touches no memory of this process but that of the ring.
//!
//! A device outlives the daemon. The driver keeps its requests while no daemon serves it
//! (`UBLK_F_USER_RECOVERY`), and gives those that were under way to the next one
//! (`UBLK_F_USER_RECOVERY_REISSUE`). There is no state file: each device carries a mark of its
//! volume and config ([`Mark`]) in a field that the driver keeps for its server.
//!
//! The structures are those of the kernel's `include/uapi/linux/ublk_cmd.h`; the protocol is that
//! of its document `Documentation/block/ublk.rst`. What the driver can do is asked of it
//! ([`Features`]), and never derived from the kernel's version.

mod client;
mod control;
mod device;
mod error;
pub mod limits;
mod mark;
mod nodes;
mod queue;
mod ring;
mod uapi;

pub use client::UblkClient;
pub use control::{Control, DeviceInfo, DeviceState, Features, Lifetime};
pub use device::{BlockDevice, Geometry, Growth, Served, remove};
pub use error::UblkError;
pub use mark::Mark;
pub use nodes::{DeviceId, NoDeviceName};
