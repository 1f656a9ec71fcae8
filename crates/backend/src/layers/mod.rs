//! Layers: disks that stand before another disk. A layer implements what it changes and forwards
//! the rest with [`forward`].

pub(crate) mod health;
pub(crate) mod random_faults;
pub(crate) mod reopen;
pub(crate) mod scripted_faults;
pub(crate) mod slow_disk;

/// Forwards the named methods of [`Disk`](crate::Disk) to the field `disk`.
macro_rules! forward {
    ($($method:ident)*) => { $($crate::layers::forward_one!($method);)* };
}

/// One forwarded method of [`Disk`](crate::Disk).
macro_rules! forward_one {
    (capacity) => {
        fn capacity(&self) -> units::Sectors {
            self.disk.capacity()
        }
    };
    (start) => {
        fn start(&mut self) {
            self.disk.start();
        }
    };
    (set_waker) => {
        fn set_waker(&mut self, waker: crate::Waker) {
            self.disk.set_waker(waker);
        }
    };
    (completion_fd) => {
        fn completion_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.disk.completion_fd()
        }
    };
    (has_completions) => {
        fn has_completions(&mut self) -> bool {
            self.disk.has_completions()
        }
    };
    (io_method) => {
        fn io_method(&self) -> Option<crate::IoMethod> {
            self.disk.io_method()
        }
    };
    (write_cache) => {
        fn write_cache(&self) -> Option<crate::device::WriteCacheState> {
            self.disk.write_cache()
        }
    };
    (completes_synchronously) => {
        fn completes_synchronously(&self) -> bool {
            self.disk.completes_synchronously()
        }
    };
    (allocation) => {
        fn allocation(
            &mut self,
            extent: units::Extent,
        ) -> Option<(crate::Allocation, units::Sectors)> {
            self.disk.allocation(extent)
        }
    };
    (read_blocking) => {
        fn read_blocking(&mut self, extent: units::Extent) -> Result<Vec<u8>, crate::Failure> {
            self.disk.read_blocking(extent)
        }
    };
    (reopen) => {
        fn reopen(&mut self) {
            self.disk.reopen();
        }
    };
    (parts) => {
        fn parts(&self) -> Option<crate::Parts> {
            self.disk.parts()
        }
    };
    (times) => {
        fn times(&self) -> Option<crate::ServiceTimes> {
            self.disk.times()
        }
    };
}

pub(crate) use {forward, forward_one};
