//! The steps of the node's calls: a tool that was started, a tool that has ended, a file or a
//! device that was changed. A test ends the driver after any one of them, as a kill at that moment
//! does, and repeats the call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};

/// After which step the driver ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) after: u64,
    /// Whether the processes that it has started end with it, as in a container that is killed.
    pub(crate) with_group: bool,
}

static TAKEN: AtomicU64 = AtomicU64::new(0);
static END: OnceLock<End> = OnceLock::new();

/// Ends the driver after a step.
pub(crate) fn end(end: End) {
    END.set(end).expect("it is set once, at the start");
}

/// A step was taken.
pub(super) fn taken() {
    let Some(end) = END.get() else { return };
    if TAKEN.fetch_add(1, Ordering::Relaxed) + 1 != end.after {
        return;
    }
    let killed = if end.with_group {
        kill_current_process_group(Signal::KILL)
    } else {
        kill_process(getpid(), Signal::KILL)
    };
    killed.expect("a process may kill itself");
}

/// A step that was taken, with its result.
pub(super) fn after<T>(done: T) -> T {
    taken();
    done
}
