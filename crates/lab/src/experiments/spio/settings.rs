//! The settings of FAST 2003, and Spindle's default settings.

use drive::DestageBeforeRead;
use engine::{Approach, Execution, FreePrefetch, Jit, Preemptible, SeekSplit};
use units::{Bytes, Duration, Sectors};

/// The sizes of FAST 2003's figures, in kB.
pub(super) const SIZES: [u32; 6] = [50, 100, 250, 500, 1_000, 2_000];
/// The accepted relative difference from a cell of FAST 2003's tables.
pub(super) const TOLERANCE: f64 = 0.2;

/// FAST 2003's chunk length.
pub(super) const CHUNK: Sectors = Sectors(50);
/// Half of the cylinders of FAST 2003's drive. Longer seeks are split.
pub(super) const HALF_THE_CYLINDERS: u32 = 15_137;

/// Non-preemptible execution: commands of 128 kB, with no other request's command between the
/// commands of one request.
pub(super) const WHOLE: Execution = Execution::Whole { split: Some(Sectors(256)) };
/// FAST 2003's prototype.
pub(super) const PAPER: Execution = Execution::as_published(CHUNK, HALF_THE_CYLINDERS);
/// FAST 2003's prototype with free prefetching.
pub(super) const PAPER_PREFETCHING: Execution = Execution::Preemptible(Preemptible {
    free_prefetch: FreePrefetch::ToDrive,
    ..as_published(Some(JIT), SPLIT)
});
pub(super) const JIT: Jit = Jit { offset: Duration::from_millis(1), approach: Approach::Published };
pub(super) const SPLIT: Option<SeekSplit> = Some(SeekSplit::Always(HALF_THE_CYLINDERS));

/// FAST 2003's chunks, with or without its other techniques.
pub(super) const fn as_published(jit: Option<Jit>, seek_split: Option<SeekSplit>) -> Preemptible {
    Preemptible {
        chunk: Some(CHUNK),
        jit,
        seek_split,
        free_prefetch: FreePrefetch::Off,
        preempt_writes: true,
    }
}

/// Spindle's default settings.
pub(super) fn ours() -> Execution {
    Execution::Preemptible(Preemptible::default())
}

/// The write-back rule of the drive, which `spio-external` chooses and tables 3 and 4 use.
pub(super) const WRITE_BACK: DestageBeforeRead =
    DestageBeforeRead { runs: 8, run_max: Sectors(384) };

/// A size in FAST 2003's kB.
pub(super) const fn kb(size: u32) -> Bytes {
    Bytes((size as u64) << 10)
}
