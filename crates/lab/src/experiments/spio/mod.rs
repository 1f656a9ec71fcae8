//! "Design and Implementation of Semi-preemptible IO" (FAST 2003): what short commands spare those who wait.
//!
//! The paper's kB are taken for 1,024 bytes: it calls Linux's longest command, of 256 sectors, 128 kB.
//!
//! ```text
//! example            the worked example of §1.1
//! fig5, fig6         throughput against chunk size
//! fig9 … fig12       waiting and throughput against size, first come first served and by elevator
//! fig13              how long commands take
//! fig14, fig15       traces
//! fig16, fig17       what each part gives
//! table2 … table4    responses while requests of higher priority come
//! better, hgst       ours against the paper's, and a drive of today
//! measured           a profile that was measured against the one that is assumed
//! ```

mod better;
mod chunks;
mod durations;
mod example;
mod measured;
mod parts;
mod point;
mod sizes;
mod tables;
mod today;
mod traces;

pub(super) use better::BETTER;
pub(super) use chunks::{FIG5, FIG6};
pub(super) use durations::FIG13;
pub(super) use example::EXAMPLE;
pub(super) use measured::MEASURED;
pub(super) use parts::{FIG16, FIG17};
pub(super) use sizes::{FIG9, FIG10, FIG11, FIG12};
pub(super) use tables::{TABLE2, TABLE3, TABLE4};
pub(super) use today::HGST;
pub(super) use traces::{FIG14, FIG15};

use engine::{Approach, Execution, Jit, Preemptible, SeekSplit};
use units::{Bytes, Duration, Sectors};

/// The sizes of the paper's figures, in kB.
const SIZES: [u32; 6] = [50, 100, 250, 500, 1_000, 2_000];
/// What the paper's cells are held to.
const TOLERANCE: f64 = 0.2;

/// The paper's chunk.
const CHUNK: Sectors = Sectors(50);
/// Half of the cylinders of its drive: longer seeks are split.
const HALF_THE_CYLINDERS: u32 = 15_137;

/// Non-preemptible: commands of 128 kB, and none of anybody else's between those of a request.
const WHOLE: Execution = Execution::Whole { split: Some(Sectors(256)) };
/// The paper's prototype.
const PAPER: Execution = Execution::as_published(CHUNK, HALF_THE_CYLINDERS);
/// The same with free prefetching.
const PAPER_PREFETCHING: Execution =
    Execution::Preemptible(Preemptible { free_prefetch: true, ..of_the_paper(Some(JIT), SPLIT) });
const JIT: Jit = Jit { offset: Duration::from_millis(1), approach: Approach::InTime };
const SPLIT: Option<SeekSplit> = Some(SeekSplit::Always(HALF_THE_CYLINDERS));

/// The paper's chunks, with or without its other parts.
const fn of_the_paper(jit: Option<Jit>, seek_split: Option<SeekSplit>) -> Preemptible {
    Preemptible { chunk: Some(CHUNK), jit, seek_split, free_prefetch: false, preempt_writes: true }
}

/// What `spindle` does if nothing else is said.
fn ours() -> Execution {
    Execution::Preemptible(Preemptible::default())
}

/// So many of the paper's kB.
const fn kb(size: u32) -> Bytes {
    Bytes((size as u64) << 10)
}
