//! The machine underneath: its clock, how late it wakes threads, how deeply its processors sleep,
//! its block devices and limits.
//!
//! Invariant: this crate is the only one that reads the system's clock, and it does so in
//! [`Clock`] alone. Every other crate takes a [`units::Instant`] as an argument.

mod clock;
mod cpu_latency;
mod machine;
mod wait;
mod wakeup_margin;

pub use clock::{Clock, WallTime, thread_processor_time};
pub use cpu_latency::CpuLatencyRequest;
pub use machine::{BlockDevice, DeviceKind, IoUringPolicy, LimitValue, Machine, WriteCache};
pub use wait::wait_until;
pub use wakeup_margin::WakeupMargin;
