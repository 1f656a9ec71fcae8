//! Devices of this machine: their properties, their users, and aligned memory.

mod guard;
mod kernel;
mod memory;
mod write_cache;

pub use guard::{InUse, check_overwritable, check_unused};
pub use kernel::{DeviceInfo, MEMORY_ALIGN};
pub use memory::AlignedBuffer;
pub(crate) use write_cache::WriteCache;
pub use write_cache::{WriteCacheState, WriteCacheUse};
