//! The available slack: the longest best-effort command that may go now.

use std::collections::BTreeSet;

use units::{DiskTime, Duration, Instant};

use super::dynamic_slack::{DemandForecast, Rate, Releases};
use super::slack_bound::{BURST_COMMANDS, SlackBound};
use super::sporadic_server::SporadicServer;
use super::state::{Deadline, Guarantee, Volume};
use crate::{PolicyName, VolumeId};

impl Deadline {
    /// The cost of a best-effort command beyond its own service time: the positioning back to a
    /// request that it interrupts.
    pub(super) fn preemption_cost(&self) -> DiskTime {
        self.slack.preemption_cost(|volume| match &self.volumes[volume.0 as usize].guarantee {
            Guarantee::Stream(blocks) => blocks.is_begun(),
            _ => false,
        })
    }

    /// Notes that `volume` is served.
    pub(super) fn set_last_served(&mut self, volume: VolumeId) {
        let volumes = &mut self.volumes;
        self.slack.served(volume, |before| match &mut volumes[before.0 as usize].guarantee {
            Guarantee::Stream(blocks) => blocks.preempt(),
            _ => false,
        });
    }

    /// The longest best-effort command; `waiting`: whether a released request is queued.
    pub(super) fn available_slack(&mut self, waiting: bool, now: Instant) -> DiskTime {
        const ANY: DiskTime = DiskTime::from_nanos(i64::MAX);
        debug_assert_eq!(waiting, !self.real.is_empty(), "released requests are in their order");
        match self.name {
            PolicyName::DeltaL => self.slack.left() - self.preemption_cost(),
            PolicyName::DeltaStar => {
                let streams = waiting && self.burst;
                let wanted = self.wanted_time(if streams { BURST_COMMANDS } else { 1 });
                let available_slack = self.dynamic_slack(wanted, now) - self.preemption_cost();
                if streams && available_slack < wanted {
                    return DiskTime::ZERO;
                }
                self.burst = false;
                available_slack
            }
            _ if !waiting => ANY,
            PolicyName::Lst => {
                let (guarantees, slack) = self.guarantees();
                let latest = slack.look_ahead(|forecast| guarantees.collect(forecast, now));
                let latest = latest.latest_start().expect("one is waiting");
                let now = i64::try_from(now.as_nanos()).expect("under 292 years");
                DiskTime::from_nanos(latest - now) - self.preemption_cost()
            }
            _ => DiskTime::ZERO,
        }
    }

    /// The disk time that best effort wants for up to `commands` commands: that of the next one for
    /// each that is known to wait.
    fn wanted_time(&self, commands: usize) -> DiskTime {
        debug_assert!(commands > 0, "best effort wants a command at least");
        debug_assert_eq!(self.shares.len(), self.costs.len(), "a head is in both orders");
        let Some((_, first)) = self.shares.first() else { return DiskTime::ZERO };
        let first = &self.volumes[first.0 as usize];
        let head = first.head.expect("it is queued");
        debug_assert!(head >= DiskTime::ZERO, "a worst case is not negative: {head}");
        // Each other volume has at least one.
        let wait = first.queued.max(1) + self.costs.len() - 1;
        (0..commands.min(wait)).fold(DiskTime::ZERO, |sum, _| sum + head)
    }

    /// The dynamic slack, or a lower bound: enough to decide whether `wanted` is available.
    fn dynamic_slack(&mut self, wanted: DiskTime, now: Instant) -> DiskTime {
        let wanted = wanted + self.preemption_cost();
        let (guarantees, slack) = self.guarantees();
        slack.dynamic(wanted, now, |forecast| guarantees.collect(forecast, now))
    }

    /// What demands disk time, apart from the bound of the slack that this leaves.
    fn guarantees(&mut self) -> (Guarantees<'_>, &mut SlackBound) {
        let Self { volumes, guaranteed, server, slack, .. } = self;
        debug_assert!(guaranteed.len() <= volumes.len(), "a guarantee is a volume's");
        let preemption = slack.preemption();
        (Guarantees { volumes, guaranteed, server: server.as_ref(), preemption }, slack)
    }

    /// Charges each task for preempting those that can be preempted, as admission does.
    pub(super) fn charge_preemptions(&mut self) {
        let preemption = self.slack.preemption();
        let preempted = |entry: &Volume| match &entry.guarantee {
            Guarantee::Stream(blocks) if blocks.task().is_preemptible() => blocks.task().period(),
            // Each command of a reserve pays for its own positioning.
            _ => Duration::ZERO,
        };
        let longest = if preemption == DiskTime::ZERO {
            Duration::ZERO
        } else {
            self.volumes.iter().map(preempted).max().unwrap_or_default()
        };
        for entry in &mut self.volumes {
            let Guarantee::Stream(blocks) = &entry.guarantee else { continue };
            let task = blocks.task();
            entry.extra = if task.period() < longest { preemption } else { DiskTime::ZERO };
            entry.rate = Rate::of(task.cost() + entry.extra, task.period());
        }
    }
}

/// The guarantees of a disk.
struct Guarantees<'a> {
    volumes: &'a [Volume],
    guaranteed: &'a BTreeSet<VolumeId>,
    server: Option<&'a SporadicServer>,
    preemption: DiskTime,
}

impl Guarantees<'_> {
    /// Collects the demand from now on.
    fn collect(&self, forecast: &mut DemandForecast, now: Instant) {
        for volume in self.guaranteed {
            let entry = &self.volumes[volume.0 as usize];
            debug_assert!(entry.due.is_none() || entry.head.is_some(), "what is due is queued");
            match &entry.guarantee {
                Guarantee::Stream(blocks) if entry.is_active => {
                    let task = blocks.task();
                    if let Some(due) = entry.due {
                        let head = entry.head.unwrap_or_default();
                        let rest = blocks.remaining(head, self.preemption);
                        forecast.add_pending(due, rest + entry.extra);
                    }
                    let releases = Releases {
                        at_once: 0,
                        first: blocks.next_release(now),
                        period: task.period(),
                        deadline: task.deadline(),
                        cost: task.cost() + entry.extra,
                        rate: entry.rate,
                    };
                    forecast.add_releases(releases, now);
                }
                Guarantee::Reserve(server) if entry.is_active => {
                    forecast_server(forecast, server, now);
                }
                _ => {}
            }
        }
        if let Some(server) = self.server {
            forecast_server(forecast, server, now);
        }
    }
}

/// Adds the demand of a server from now on: its releases of each part of the budget are a period
/// apart.
fn forecast_server(forecast: &mut DemandForecast, server: &SporadicServer, now: Instant) {
    let period = server.period();
    debug_assert!(period > Duration::ZERO, "a server has a period");
    let mut part = |first: Instant, cost: DiskTime| {
        let rate = Rate::of(cost, period);
        let releases = Releases { at_once: 0, first, period, deadline: period, cost, rate };
        forecast.add_releases(releases, now);
    };
    for (at, amount) in server.refills() {
        part(at.max(now), amount);
    }
    match server.job() {
        None => part(now, server.budget()),
        Some(job) => {
            part(job.deadline, server.budget() + job.spent);
            forecast.add_pending(job.deadline, server.budget());
        }
    }
}
