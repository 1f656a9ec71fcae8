//! What this process may use of the kernel.

/// The processes that may set up an io_uring: `kernel.io_uring_disabled`, since Linux 6.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUringPolicy {
    /// Every process; so do older kernels, which have no such setting.
    All,
    /// Processes with `CAP_SYS_ADMIN`, and those of one group.
    Privileged,
    /// No process.
    Disabled,
}

/// The soft limit of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitValue {
    /// At most this, in the unit of `/proc/self/limits`.
    At(u64),
    /// No limit.
    Unlimited,
}
