//! How promised requests become commands, and what their preemptions cost.

use units::{DiskTime, Duration};

use super::Guard;
use crate::policy::deadline::Rate;
use crate::policy::spindle::latency::Latency;
use crate::stream::{Granularity, Task};

impl Guard {
    /// Requests are served at `granularity` from now on, if none is real time; the drive is idle.
    /// Returns whether that is so.
    pub(in crate::policy::spindle) fn change_granularity(
        &mut self,
        granularity: Granularity,
    ) -> bool {
        assert_eq!(self.in_drive(), 0, "the drive is idle");
        if self.real.len() > 0 {
            return false;
        }
        self.granularity = granularity;
        self.slack.set_preemption(match granularity {
            Granularity::Whole => DiskTime::ZERO,
            Granularity::Chunks => self.preemption,
        });
        for stream in self.streams.values_mut() {
            stream.blocks.set_granularity(granularity);
        }
        for latency in self.latencies.values_mut() {
            latency.set_granularity(granularity);
        }
        self.charge_preemptions();
        self.most = None;
        debug_assert_eq!(self.in_drive(), 0, "nothing goes to the drive by a change");
        debug_assert_eq!(self.real.len(), 0, "no block becomes real time by a change");
        true
    }

    /// Charges each stream for preempting those that can be preempted, as admission does.
    pub(super) fn charge_preemptions(&mut self) {
        let preemption = self.slack.preemption();
        let streams = self.streams.values().map(|stream| stream.blocks.task());
        let tasks = streams.chain(self.latencies.values().map(Latency::task));
        let preempted = tasks.filter(Task::is_preemptible);
        let longest = preempted.map(|task| task.deadline()).max().unwrap_or_default();
        let longest = if preemption == DiskTime::ZERO { Duration::ZERO } else { longest };
        for stream in self.streams.values_mut() {
            let task = stream.blocks.task();
            stream.extra = if task.period() < longest { preemption } else { DiskTime::ZERO };
            stream.rate = Rate::of(task.cost() + stream.extra, task.period());
        }
        for latency in self.latencies.values_mut() {
            let pays = latency.contract().within() < longest;
            latency.charge(if pays { preemption } else { DiskTime::ZERO });
        }
        debug_assert!(longest == Duration::ZERO || self.promises() > 0, "a promise's deadline");
    }
}
