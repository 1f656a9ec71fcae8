//! A request to the kernel that idle processors stay out of their sleep states.
//!
//! An idle processor enters a sleep state, the deeper the longer it is idle, and leaving one takes
//! 20 to 100 us. This exit latency occurs on both sides of each command, and a measurement by the
//! clock alone cannot tell it from the device's time. Linux limits the exit latency while a process
//! keeps a file open (`Documentation/power/pm_qos_interface`), as latency benchmarks do.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// The file that takes the highest accepted exit latency, in us.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps idle processors out of their sleep states until it is dropped, at the cost of power.
#[derive(Debug)]
pub struct CpuLatencyRequest {
    _file: File,
}

impl CpuLatencyRequest {
    /// Requests an exit latency of zero.
    ///
    /// # Errors
    /// The system does not offer the file, or not to this user.
    pub fn acquire() -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(LATENCY)?;
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _file: file })
    }

    /// Requests an exit latency of zero. If the request is refused, prints a warning.
    pub fn acquire_or_warn() -> Option<Self> {
        let warn = |error: &io::Error| {
            eprintln!(
                "processors may sleep between commands ({LATENCY}: {error}): their wake-up \
                 latency is part of all overheads"
            );
        };
        Self::acquire().inspect_err(warn).ok()
    }
}
