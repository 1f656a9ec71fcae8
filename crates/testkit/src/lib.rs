//! What the tests of several crates share: scratch directories, the project's binaries run to their
//! end or serving, other projects' clients, and seeded noise.
//!
//! Nothing here waits for time to pass: a server reports when it listens, and a process when it
//! has ended.

mod data;
mod export;
mod noise;
mod process;
mod scratch;
mod server;

pub use data::{pattern, verified, verifying};
pub use export::Export;
pub use noise::noise;
pub use process::{Ran, binary, client, lab, run, spindle, succeed};
pub use scratch::{Scratch, held};
pub use server::{Server, config};
