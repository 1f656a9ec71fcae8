//! Devices of this machine: what the kernel says of them, who uses them, and memory that they take.

mod guard;
mod kernel;
mod memory;

pub use guard::{InUse, may_overwrite, may_serve};
pub use kernel::{Facts, MEMORY_ALIGN};
pub use memory::Aligned;
