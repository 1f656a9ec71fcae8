//! Devices of this machine: what the kernel says of them, who uses them, and memory that they take.

mod guard;
mod kernel;
mod memory;

pub use guard::{InUse, check_overwritable, check_unused};
pub use kernel::{DeviceInfo, MEMORY_ALIGN};
pub use memory::AlignedBuffer;
