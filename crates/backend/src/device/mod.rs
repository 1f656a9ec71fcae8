//! Devices of this machine: their properties, their users, and aligned memory.

mod guard;
mod kernel;
mod memory;

pub use guard::{InUse, check_overwritable, check_unused};
pub use kernel::{DeviceInfo, MEMORY_ALIGN};
pub use memory::AlignedBuffer;
