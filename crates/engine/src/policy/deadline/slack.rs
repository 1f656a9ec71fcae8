//! The available slack: the longest best-effort command that may go now.

use units::{DiskTime, Duration, Instant};

use super::dynamic_slack::{DemandForecast, Rate, Releases};
use super::sporadic_server::SporadicServer;
use super::state::{Deadline, Guarantee, Volume};
use crate::{PolicyName, VolumeId};

/// Best-effort commands for which a burst of `delta-star` ends: with one, the seeks there and back
/// cost the service of three more; with many, the first waits for the slack of the last. Of 1, 2,
/// 3, 4, 8, 16 and all that wait, 4 had the least mean latency beside the busiest streams of
/// `clockwise-fig3`.
const BURST_COMMANDS: usize = 4;

impl Deadline {
    /// The cost of a best-effort command beyond its own service time: the positioning back to a
    /// request that it interrupts.
    pub(super) fn preemption_cost(&self) -> DiskTime {
        let begun = |volume: VolumeId| match &self.volumes[volume.0 as usize].guarantee {
            Guarantee::Stream(blocks) => blocks.is_begun(),
            _ => false,
        };
        if self.last_served.is_some_and(begun) { self.preemption } else { DiskTime::ZERO }
    }

    /// Notes that `volume` is served. A request that is begun and does not continue now will need
    /// positioning again.
    pub(super) fn set_last_served(&mut self, volume: VolumeId) {
        let preemption = self.preemption;
        let Some(before) = self.last_served.replace(volume).filter(|before| *before != volume)
        else {
            return;
        };
        if let Guarantee::Stream(blocks) = &mut self.volume(before).guarantee
            && blocks.preempt()
            && let Some((_, known_slack)) = &mut self.known_slack
        {
            *known_slack -= preemption;
        }
    }

    /// The longest best-effort command; `waiting`: whether a released request is queued.
    pub(super) fn available_slack(&mut self, waiting: bool, now: Instant) -> DiskTime {
        const ANY: DiskTime = DiskTime::from_nanos(i64::MAX);
        debug_assert_eq!(waiting, !self.real.is_empty(), "released requests are in their order");
        match self.name {
            PolicyName::DeltaL => self.slack_left - self.preemption_cost(),
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
                self.look_ahead(now);
                let latest = self.forecast.latest_start().expect("one is waiting");
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
        debug_assert!(wanted >= DiskTime::ZERO, "a command takes time: {wanted}");
        let since = |then: Instant| DiskTime::from(now.since(then));
        let known_slack = self.known_slack.map(|(then, slack)| slack - since(then));
        let known_slack =
            known_slack.map_or(self.slack_left, |known_slack| known_slack.max(self.slack_left));
        if known_slack >= wanted + self.preemption_cost() {
            return known_slack;
        }
        self.look_ahead(now);
        let slack = self.forecast.slack(now).max(self.slack_left);
        self.known_slack = Some((now, slack));
        slack
    }

    /// Collects the demand from now on.
    fn look_ahead(&mut self, now: Instant) {
        debug_assert!(self.guaranteed.len() <= self.volumes.len(), "a guarantee is a volume's");
        self.forecast.clear();
        for volume in &self.guaranteed {
            let entry = &self.volumes[volume.0 as usize];
            match &entry.guarantee {
                Guarantee::Stream(blocks) if entry.is_active => {
                    let task = blocks.stream.task;
                    if let Some(due) = entry.due {
                        debug_assert!(entry.head.is_some(), "what is due is queued");
                        let head = entry.head.unwrap_or_default();
                        let slack_left = blocks.remaining(head, self.preemption);
                        self.forecast.add_pending(due, slack_left + entry.extra);
                    }
                    let releases = Releases {
                        at_once: 0,
                        first: blocks.next_release(now),
                        period: task.period(),
                        deadline: task.deadline(),
                        cost: task.cost() + entry.extra,
                        rate: entry.rate,
                    };
                    self.forecast.add_releases(releases, now);
                }
                Guarantee::Reserve(server) if entry.is_active => {
                    forecast_server(&mut self.forecast, server, now);
                }
                _ => {}
            }
        }
        if let Some(server) = &self.server {
            forecast_server(&mut self.forecast, server, now);
        }
    }

    /// Charges each task for preempting those that can be preempted, as admission does.
    pub(super) fn charge_preemptions(&mut self) {
        let preemption = self.preemption;
        let preempted = |entry: &Volume| match &entry.guarantee {
            Guarantee::Stream(blocks) if blocks.stream.task.is_preemptible() => {
                blocks.stream.task.period()
            }
            Guarantee::Reserve(server) => server.period(),
            _ => Duration::ZERO,
        };
        let longest = if preemption == DiskTime::ZERO {
            Duration::ZERO
        } else {
            self.volumes.iter().map(preempted).max().unwrap_or_default()
        };
        for entry in &mut self.volumes {
            let Guarantee::Stream(blocks) = &entry.guarantee else { continue };
            let task = blocks.stream.task;
            entry.extra = if task.period() < longest { preemption } else { DiskTime::ZERO };
            entry.rate = Rate::of(task.cost() + entry.extra, task.period());
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
