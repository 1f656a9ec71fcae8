//! Exports as block devices of the kernel: its NBD driver, over generic netlink.
//!
//! ```text
//!  nbd::Client ── socket ──▶ Control ── netlink ──▶ the kernel's NBD driver ──▶ /dev/nbdN
//!                            Events ◀── netlink ───────────┘ a connection ended
//!                            Devices ◀─ sysfs ─────────────┘ what is attached
//! ```
//!
//! There is no state file: what is attached is read back from sysfs, where the driver keeps the
//! [`Backend`] that [`Control::attach`] gave it.
//!
//! Invariants:
//! - no message from outside causes a panic, and each is bounded ([`limits`]);
//! - nothing in [`netlink`] and [`protocol`] needs a kernel.

mod backend;
mod connection;
mod control;
mod device;
mod devices;
mod error;
pub mod limits;
mod mounts;
pub mod netlink;
pub mod protocol;
mod supervise;

pub use backend::Backend;
pub use connection::{Connected, connect, describe};
pub use control::{Control, Event, Events, Unflushed};
pub use device::{Device, NoDeviceName, Use};
pub use devices::{Attached, Devices};
pub use error::AttachError;
pub use mounts::{uses, uses_of};
pub use supervise::{Supervised, supervise};
