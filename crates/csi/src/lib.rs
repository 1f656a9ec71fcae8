//! The Kubernetes driver: volumes of one daemon over the container storage interface (CSI 1.13).
//!
//! ```text
//!  kubelet, sidecars ── csi.sock ──▶ services ── blocking calls ──▶ Daemon ── api.sock ──▶ spindle
//!                                       └── node: mkfs, fsck, mount ── Transport ──▶ /dev/nbdN
//! ```
//!
//! Identity, controller and node are one process on each node, without a state of its own: what a
//! volume is, the daemon knows; what is attached and mounted, the kernel does. Each call can be
//! repeated, and a call that was cut short is finished by its repetition.
//!
//! Invariants:
//! - a call about a volume, while another one about it runs, is answered with `ABORTED`;
//! - a file system is made only on a device on which `blkid` finds no signature;
//! - a volume that this driver has not created is never removed by it;
//! - the path of the data is the kernel's and the daemon's: it does not end with this process.

mod blocking;
mod capabilities;
mod class;
mod daemon;
pub mod limits;
mod node;
pub mod proto;
mod serve;
mod services;
mod size;

pub use node::transport::TransportKind;
pub use serve::{Options, run};
