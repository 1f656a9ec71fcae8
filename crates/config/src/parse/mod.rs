//! From the text of a config to a checked [`crate::Plan`].

mod admit;
mod bus;
mod change;
mod chooser;
mod deadlines;
mod disk;
mod every;
mod execution;
mod faults;
mod labels;
mod latency;
mod log;
mod measured;
mod memory;
mod names;
mod nbd;
mod path;
mod pool;
mod pool_stream;
mod read_ahead;
mod real;
mod replay;
mod slowed;
mod stream;
mod stream_parts;
mod top;
mod unkept;
mod volume;
mod words;
mod workload;
mod write_buffer;
mod write_cache;

pub use every::Purpose;
pub(crate) use volume::RATE_KEYS;
