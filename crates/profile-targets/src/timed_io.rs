//! A timed system call.

use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use backend::device::{AlignedBuffer, MEMORY_ALIGN};
use host::Clock;
use profiler::{Completion, Outcome, Tag};
use rustix::io::{ReadWriteFlags, pwritev2};
use units::{Duration, Op, Operation, SECTOR_BYTES, Sectors};

/// The processor time of a transfer in this process, without interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferCost {
    pub(crate) len: Sectors,
    pub(crate) processor: Duration,
}

/// Makes system calls with a buffer of its own.
pub(crate) struct TimedFile {
    file: Arc<File>,
    clock: Clock,
    memory: AlignedBuffer,
    /// The bytes of the buffer that hold write data.
    filled: usize,
}

impl TimedFile {
    pub(crate) fn new(file: Arc<File>, clock: Clock) -> Self {
        Self { file, clock, memory: AlignedBuffer::new(0, MEMORY_ALIGN), filled: 0 }
    }

    /// Performs an operation and times it. The clock is read directly before and after the system
    /// call.
    pub(crate) fn perform(&mut self, tag: Tag, operation: Operation) -> (Completion, TransferCost) {
        let len = operation.extent.len;
        let bytes = len.bytes_usize();
        if bytes > self.memory.len() {
            (self.memory, self.filled) = (AlignedBuffer::new(bytes, MEMORY_ALIGN), 0);
        }
        if operation.op == Op::Write && self.filled < bytes {
            fill(self.memory.bytes(bytes));
            self.filled = bytes;
        }
        if operation.op == Op::Read {
            self.filled = 0;
        }
        let processor = host::thread_processor_time();
        let submitted = self.clock.now();
        let outcome = self.make(operation, bytes);
        let completed = self.clock.now();
        let processor = host::thread_processor_time().saturating_sub(processor);
        (Completion { tag, submitted, completed, outcome }, TransferCost { len, processor })
    }

    fn make(&mut self, operation: Operation, bytes: usize) -> Outcome {
        let at = operation.extent.start.0 * SECTOR_BYTES;
        let memory = self.memory.bytes(bytes);
        let whole = |moved: usize| moved == bytes;
        let done = match operation.op {
            Op::Read => self.file.read_at(memory, at).is_ok_and(whole),
            Op::Write if operation.fua => {
                let from = [IoSlice::new(memory)];
                pwritev2(&*self.file, &from, at, ReadWriteFlags::DSYNC).is_ok_and(whole)
            }
            Op::Write => self.file.write_at(memory, at).is_ok_and(whole),
            Op::Flush => self.file.sync_data().is_ok(),
            Op::Seek | Op::Trim | Op::WriteZeroes => {
                panic!("the facts allow no {}", operation.op)
            }
        };
        if done { Outcome::Done } else { Outcome::Failed }
    }
}

/// Fills a buffer with data that no device compresses (Marsaglia, Xorshift RNGs, 2003: 13, 7, 17).
pub(crate) fn fill(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for piece in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
    }
}
