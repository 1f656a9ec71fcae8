//! What is known of a drive: its measured profile and its worst cases, as values.
//!
//! A [`Profile`] is measured by the profiler or derived from a data sheet. It says where a sector
//! should lie and how long a movement should take, and how far both may be off. It is never the
//! drive: only completions tell what happened. The engine predicts with it, admission takes its
//! [worst cases](Profile::worst_case), and the drive library keeps its files.
//!
//! | module | contents |
//! |---|---|
//! | `profile` | [`Profile`], its parts, and what makes one valid |
//! | `band` | [`Band`]: logical blocks on tracks with one layout |
//! | `bus` | [`BusShare`]: the worst share of a bus that several disks have in common |
//! | `seek` | [`SeekTable`]: seek time against distance |
//! | `geometry` | from a logical block to a [`PhysicalAddress`], and times between addresses |
//! | [`findings`] | what measuring has found so far, with errors and confidence |
//! | `worst_case` | the longest service time of a command |
//! | `example` | [`example_profile`]: a small disk with round numbers, for tests |

mod band;
mod bus;
mod example;
pub mod findings;
mod geometry;
mod profile;
mod seek;
mod worst_case;

pub use band::{Band, HeadOrder, Skew};
pub use bus::BusShare;
pub use example::example_profile;
pub use geometry::PhysicalAddress;
pub use profile::{BufferSegments, CommandOverheads, Extremes, Profile};
pub use seek::SeekTable;
pub use worst_case::{SEEK_DEVIATIONS, TransferKind};
