//! Limits of the disks' backends.

/// The buffers that one system call or command of io_uring transfers. A longer list has parts of
/// less than 2 KiB, if it is a merged command of 128 KiB: to copy them costs less than to hand each
/// to the kernel.
pub const PARTS_MAX: usize = 64;
