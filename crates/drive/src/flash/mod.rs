//! A flash drive: dies behind channels, a write buffer, a host interface, and what each of them
//! makes the others wait for.
//!
//! ```text
//! host ══ link ══ controller ══ channel 0 ══ die 0, die 8, ...    read:    sense, channel, link
//!                  │ write     ══ channel 1 ══ die 1, die 9, ...    write:   link, buffer: done
//!                  │ buffer, read-ahead                             program: channel, array
//! ```
//!
//! - A read is cut where it goes from one die to the next. Each piece waits for its die, is sensed,
//!   crosses the die's channel and then the host's link. A die that programs or erases makes it
//!   wait, or is suspended.
//! - A write is answered when it is in the buffer. A stripe's worth of written data is a *unit*: it
//!   goes to the next die in turn and stays in the buffer until it is programmed. A full buffer
//!   makes writes wait.
//! - Garbage collection is a factor: each program of a random write causes a number of further
//!   programs, on the same dies. Writes that continue another cause none.
//! - With power-loss protection the buffer is durable. Without it a flush, and a forced write, pad
//!   the open unit and wait until all is programmed.
//! - A trim, and a write of zeroes, change the mapping: one record of 4 KiB goes through the write
//!   buffer.
//!
//! Not modelled: fast cells that some drives write first, wear, read retries, thermal limits, power
//! states, misses of the mapping table, and writing out a part of a unit while the drive is idle.
//!
//! Invariants: as [`crate::Device`]'s. Commands may be answered in another order than they came in;
//! writes whose sectors overlap are answered in theirs. The buffer never holds more than its size.

mod check;
mod device;
mod dies;
mod event_queue;
mod model;
mod pieces;
#[cfg(test)]
mod properties;
mod read_buffer;
mod spec;
mod sustained;
#[cfg(test)]
pub(crate) mod tests;
mod write_buffer;

pub use device::FlashDevice;
pub use model::FlashModel;
pub use spec::{
    AMPLIFICATION_MAX, Amplification, CHANNELS_MAX, DIES_PER_CHANNEL_MAX, FLASH_BUFFER_MAX,
    FLASH_CAPACITY_MAX, FLASH_QUEUE_DEPTH_MAX, FlashSpec, Host, LATENCY_MAX, Memory, Nand,
    PASSED_MAX, PLANES_MAX, RATE_MAX, RATE_MIN, STRIPE_MAX, Suspend, UNITS_PER_BLOCK_MAX,
};
