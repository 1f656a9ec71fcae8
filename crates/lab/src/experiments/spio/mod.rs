//! "Design and Implementation of Semi-preemptible IO" (FAST 2003): the waiting time that short
//! commands save.
//!
//! A kB of FAST 2003 is taken as 1,024 bytes, because FAST 2003 calls Linux's longest command, of
//! 256 sectors, 128 kB.
//!
//! ```text
//! example            the setting of the worked example of §1.1
//! fig5, fig6         throughput against chunk size
//! fig8               the seek curve
//! fig9 … fig12       waiting and throughput against size, first come first served and by elevator
//! fig13              durations of commands
//! fig14, fig15       traces
//! fig16, fig17       the effect of each technique
//! table2 … table4    responses while requests of higher priority come
//! external           a rule of the write buffer for table 3
//! better, hgst       the default settings against FAST 2003's, and a current drive
//! readers            the cost of just-in-time seeks and free prefetching to readers
//! measured           a measured profile against the assumed one
//! ```

mod better;
mod chunks;
mod durations;
mod example;
mod external;
mod measured;
mod parts;
mod point;
mod readers;
mod seek_curve;
mod settings;
mod sizes;
mod tables;
mod today;
mod traces;

pub(super) use better::BETTER;
pub(super) use chunks::{FIG5, FIG6};
pub(super) use durations::FIG13;
pub(super) use example::EXAMPLE;
pub(super) use external::EXTERNAL;
pub(super) use measured::MEASURED;
pub(super) use parts::{FIG16, FIG17};
pub(super) use readers::READERS;
pub(super) use seek_curve::FIG8;
pub(super) use sizes::{FIG9, FIG10, FIG11, FIG12};
pub(super) use tables::{TABLE2, TABLE3, TABLE4};
pub(super) use today::HGST;
pub(super) use traces::{FIG14, FIG15};
