//! How long a best-effort command may be that goes now.

use units::{DiskTime, Duration, Instant};

use super::dynamic_slack::{DemandForecast, Rate, Releases};
use super::sporadic_server::SporadicServer;
use super::state::{Deadline, Guarantee, Volume};
use crate::{PolicyName, VolumeId};

/// Best-effort commands for which the arm may come back from a burst: with one, the way there and back takes what could have
/// served three more; with many, whoever is first waits for the slack of the last. Of 1, 2, 3, 4, 8, 16 and all that wait, 4
/// had the least mean latency beside the busiest streams of `clockwise-fig3`.
const BURST_COMMANDS: usize = 4;

impl Deadline {
    /// What a best-effort command costs beyond its own time: the way back to a request that it interrupts.
    pub(super) fn interrupts(&self) -> DiskTime {
        let begun = |volume: VolumeId| match &self.volumes[volume.0 as usize].promise {
            Guarantee::Stream(blocks) => blocks.is_begun(),
            _ => false,
        };
        if self.arm.is_some_and(begun) { self.preemption } else { DiskTime::ZERO }
    }

    /// Whose request is begun and does not go on now will have a way back.
    pub(super) fn give_arm(&mut self, volume: VolumeId) {
        let preemption = self.preemption;
        let Some(before) = self.arm.replace(volume).filter(|before| *before != volume) else {
            return;
        };
        if let Guarantee::Stream(blocks) = &mut self.volume(before).promise
            && blocks.loses_arm()
            && let Some((_, known)) = &mut self.known
        {
            *known -= preemption;
        }
    }

    /// How long a best-effort command may be; `waiting`: whether a released request is queued.
    pub(super) fn room(&mut self, waiting: bool, now: Instant) -> DiskTime {
        const ANY: DiskTime = DiskTime::from_nanos(i64::MAX);
        match self.name {
            PolicyName::DeltaL => self.left - self.interrupts(),
            PolicyName::DeltaStar => {
                let streams = waiting && self.burst;
                let wants = self.turn(if streams { BURST_COMMANDS } else { 1 });
                let room = self.present(wants, now) - self.interrupts();
                if streams && room < wants {
                    return DiskTime::ZERO;
                }
                self.burst = false;
                room
            }
            _ if !waiting => ANY,
            PolicyName::Lst => {
                self.look_ahead(now);
                let latest = self.outlook.latest_start().expect("one is waiting");
                let now = i64::try_from(now.as_nanos()).expect("under 292 years");
                DiskTime::from_nanos(latest - now) - self.interrupts()
            }
            _ => DiskTime::ZERO,
        }
    }

    /// What best effort wants for a turn of up to so many commands: as many like the next as are known to wait.
    fn turn(&self, commands: usize) -> DiskTime {
        let Some((_, first)) = self.shares.first() else { return DiskTime::ZERO };
        let first = &self.volumes[first.0 as usize];
        let head = first.head.expect("it is queued");
        // Each of the other volumes has one at least.
        let wait = first.queued.max(1) + self.costs.len() - 1;
        (0..commands.min(wait)).fold(DiskTime::ZERO, |sum, _| sum + head)
    }

    /// The present slack, or less: enough to tell whether there is so much.
    fn present(&mut self, wants: DiskTime, now: Instant) -> DiskTime {
        let since = |then: Instant| DiskTime::from(now.since(then));
        let known = self.known.map(|(then, slack)| slack - since(then));
        let known = known.map_or(self.left, |known| known.max(self.left));
        if known >= wants + self.interrupts() {
            return known;
        }
        self.look_ahead(now);
        let slack = self.outlook.slack(now).max(self.left);
        self.known = Some((now, slack));
        slack
    }

    /// Gathers what has to be done from now on.
    fn look_ahead(&mut self, now: Instant) {
        self.outlook.clear();
        for volume in &self.promised {
            let entry = &self.volumes[volume.0 as usize];
            match &entry.promise {
                Guarantee::Stream(blocks) if entry.joined => {
                    let task = blocks.stream.task;
                    if let Some(due) = entry.due {
                        let head = entry.head.unwrap_or_default();
                        let left = blocks.left(head, self.preemption);
                        self.outlook.is_pending(due, left + entry.extra);
                    }
                    self.outlook.may_release(Releases {
                        first: blocks.next_release(now),
                        period: task.period(),
                        cost: task.cost() + entry.extra,
                        rate: entry.rate,
                    });
                }
                Guarantee::Reserve(server) if entry.joined => {
                    serve_on(&mut self.outlook, server, now);
                }
                _ => {}
            }
        }
        if let Some(server) = &self.server {
            serve_on(&mut self.outlook, server, now);
        }
    }

    /// What each task pays for preempting those that can be preempted: as admission has it.
    pub(super) fn charge_preemptions(&mut self) {
        let preemption = self.preemption;
        let preempted = |entry: &Volume| match &entry.promise {
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
            let Guarantee::Stream(blocks) = &entry.promise else { continue };
            let task = blocks.stream.task;
            entry.extra = if task.period() < longest { preemption } else { DiskTime::ZERO };
            entry.rate = Rate::of(task.cost() + entry.extra, task.period());
        }
    }
}

/// What a server may demand from now on: each part of its budget lies a period apart from itself.
fn serve_on(outlook: &mut DemandForecast, server: &SporadicServer, now: Instant) {
    let period = server.period();
    let mut part = |first: Instant, cost: DiskTime| {
        let rate = Rate::of(cost, period);
        outlook.may_release(Releases { first, period, cost, rate });
    };
    for (at, amount) in server.refills() {
        part(at.max(now), amount);
    }
    match server.job() {
        None => part(now, server.budget()),
        Some(job) => {
            part(job.deadline, server.budget() + job.spent);
            outlook.is_pending(job.deadline, server.budget());
        }
    }
}
