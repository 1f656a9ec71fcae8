//! Processors that do not sleep.
//!
//! A processor with nothing to do sleeps, the deeper the longer, and to wake it takes 20 to 100 us: on every side of every
//! command, of the device as far as anybody can tell who only has a clock. Linux lets a process ask for less while it has a file
//! open (`Documentation/power/pm_qos_interface`), as who measures latencies does.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Where a process says how late it may be woken, in us.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// While it lives, processors wait for work without sleeping. They take more power meanwhile.
#[derive(Debug)]
pub struct Awake {
    _asked: File,
}

impl Awake {
    /// Asks for it.
    ///
    /// # Errors
    /// The system does not offer it, or not to this user.
    pub fn keep() -> io::Result<Self> {
        let mut asked = OpenOptions::new().write(true).open(LATENCY)?;
        asked.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _asked: asked })
    }

    /// Asks for it, and says so where that is refused.
    pub fn keep_or_say() -> Option<Self> {
        let refused = |error: &io::Error| {
            eprintln!(
                "processors may sleep between commands ({LATENCY}: {error}): to wake them is in all overheads"
            );
        };
        Self::keep().inspect_err(refused).ok()
    }
}
