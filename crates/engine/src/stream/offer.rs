//! What would fit instead of a stream that was refused.

use units::Bytes;

use super::{Task, TaskSet};

/// What a stream asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Bytes a second.
    pub bandwidth: Bytes,
    /// Bytes a request.
    pub block: Bytes,
}

/// What would fit: each of them has passed the same test, and takes one thing back only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterOffers {
    /// The largest block, of the halves of what was asked for, that fits at the asked bandwidth.
    pub block: Option<Bytes>,
    /// The largest bandwidth, in bytes a second, that fits with the asked block.
    pub bandwidth: Option<Bytes>,
}

impl CounterOffers {
    /// Looks for what would fit beside `set`. `task` says what a stream asks of the disk; `None` is a stream that the disk
    /// can't have at all, such as one with a block that is no whole number of sectors. With a smaller bandwidth the period
    /// must not be shorter, and the cost the same.
    pub fn find(set: &TaskSet, asked: Asked, mut task: impl FnMut(Asked) -> Option<Task>) -> Self {
        let mut fits = |asked: Asked| task(asked).is_some_and(|task| set.verdict(task).is_ok());
        let halves = core::iter::successors(Some(asked.block.0 / 2), |block| Some(block / 2));
        let block = halves
            .take_while(|&block| block > 0)
            .map(Bytes)
            .find(|&block| fits(Asked { block, ..asked }));
        let bandwidth = largest_bandwidth(set, asked, task);
        Self { block, bandwidth }
    }
}

/// The largest bandwidth below the asked one that fits.
///
/// With a longer period a task demands less everywhere and is blocked by fewer; but it blocks more, up to its own period.
/// So the periods that fit are an interval: from the shortest at which its *demand* fits (which grows with bandwidth, so
/// that halving finds it) to the longest at which its *command* does. If the first of them does not fit, none does.
fn largest_bandwidth(
    set: &TaskSet,
    asked: Asked,
    mut task: impl FnMut(Asked) -> Option<Task>,
) -> Option<Bytes> {
    let mut at = |bandwidth: u64| task(Asked { bandwidth: Bytes(bandwidth), ..asked });
    let (mut fits, mut too_much) = (0, asked.bandwidth.0);
    while too_much - fits > 1 {
        let middle = fits + (too_much - fits) / 2;
        // No task at a lower bandwidth is one whose period is too long: as a demand it is less than any.
        if at(middle).is_none_or(|task| set.demand_fits(task)) {
            fits = middle;
        } else {
            too_much = middle;
        }
    }
    let found = at(fits).filter(|_| fits > 0)?;
    set.verdict(found).is_ok().then_some(Bytes(fits))
}
