//! The deadline policies behind the interface of policies.

use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Instant, Operation};

use super::sporadic_server::SporadicServer;
use super::state::{ChargedTo, Deadline, Guarantee, Served};
use super::worst_case::WorstCase;
use crate::policy::interface::{Dispatch, DispatchRecord, Pick, Policy};
use crate::request::DeadlineStats;
use crate::{Contract, Settings, VolumeId};

impl Policy for Deadline {
    fn add_volume(&mut self, contract: Contract, now: Instant) {
        let fresh = self.fresh(contract);
        let volume = VolumeId(u32::try_from(self.volumes.len()).expect("VOLUMES_MAX fits"));
        self.volumes.push(fresh);
        self.renew(volume);
        self.place(volume, now);
    }

    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let entry = self.volume(volume);
        let before = core::mem::replace(&mut entry.contract, contract);
        entry.usage = entry.usage.reweighed(before.weight, contract.weight);
        if (before.stream, before.reserve) != (contract.stream, contract.reserve) {
            self.renew(volume);
        }
        self.place(volume, now);
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        assert_eq!(self.volume(volume).head, None, "a volume leaves with nothing queued");
        let fresh = self.fresh(contract);
        self.volumes[volume.0 as usize] = fresh;
        self.renew(volume);
        self.place(volume, now);
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        self.period = settings.period;
        let reserves: Vec<VolumeId> = self.promised.iter().copied().collect();
        for volume in reserves {
            if let Guarantee::Reserve(_) = self.volume(volume).promise {
                self.renew(volume);
                self.place(volume, now);
            }
        }
    }

    fn set_profile(&mut self, profile: &Arc<Profile>) {
        self.worst = WorstCase::Profile(Arc::clone(profile));
    }

    fn set_static_slack(&mut self, slack: DiskTime) {
        self.slack = slack;
        self.left = self.left.min(slack);
        self.known = None;
    }

    fn queued(
        &mut self,
        volume: VolumeId,
        asked: &Operation,
        head: Option<&Operation>,
        now: Instant,
    ) {
        let worst = head.map(|head| self.worst.of(head));
        let entry = self.volume(volume);
        entry.queued += 1;
        if let Guarantee::Stream(blocks) = &mut entry.promise {
            blocks.comes(asked, now);
        }
        if worst.is_some() {
            entry.head = worst;
            self.place(volume, now);
        }
    }

    fn pick(&mut self, running: usize, now: Instant) -> Pick {
        assert_eq!(running, 0, "one command is in the drive at a time");
        self.scale_back(now);
        self.release(now);
        if self.real.is_empty() {
            self.rest(now);
        }
        let mut paid = None;
        if let Some((cheapest, _)) = self.costs.first() {
            let room = self.room(!self.real.is_empty(), now);
            if let Some(volume) = self.best_effort(room) {
                self.picked = Some((volume, ChargedTo::Slack));
                return Pick::Volume(volume);
            }
            self.burst = true;
            // The server's job begins when best effort has nothing else.
            paid = self.server.as_mut().and_then(|server| server.turn(Some(cheapest), now));
        } else if let Some(server) = &mut self.server {
            // The slack took what its job was begun for: kept until more comes, it would be due earlier than anybody counted on.
            server.turn(None, now);
        }
        let first = self.real.first().copied();
        self.picked = match (first, paid) {
            (Some((due, volume)), paid) if paid.is_none_or(|paid| due <= paid) => {
                Some((volume, ChargedTo::RealTime))
            }
            (_, Some(_)) => {
                let budget = self.server.as_ref().map_or(DiskTime::ZERO, SporadicServer::budget);
                self.best_effort(budget).map(|volume| (volume, ChargedTo::Server))
            }
            _ => None,
        };
        match self.picked {
            Some((volume, _)) => Pick::Volume(volume),
            None => self.comes_next().map_or(Pick::Nothing, Pick::Wait),
        }
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let Dispatch { volume, ends_request, next, .. } = dispatch;
        let (picked, account) = self.picked.take().expect("who goes was picked");
        assert_eq!(picked, volume, "who goes was picked");
        let next = next.map(|next| self.worst.of(next));
        let interrupts = self.interrupts();
        self.give_arm(volume);
        let entry = &mut self.volumes[volume.0 as usize];
        let worst = entry.head.expect("who goes has something to do");
        entry.head = next;
        entry.queued -= usize::from(ends_request);
        let mut due = None;
        if let Guarantee::Stream(blocks) = &mut entry.promise
            && ends_request
        {
            due = blocks.leaves(now);
        }
        match (account, &mut entry.promise) {
            (ChargedTo::RealTime, Guarantee::Reserve(server)) => server.pay(worst),
            (ChargedTo::RealTime | ChargedTo::Past, _) => {}
            (ChargedTo::Slack, _) => self.left -= worst + interrupts,
            (ChargedTo::Server, _) => self.server.as_mut().expect("it pays").pay(worst),
        }
        self.served = Some(Served { volume, account, worst, ends_request, due });
        self.place(volume, now);
        DispatchRecord::new(worst, account == ChargedTo::Slack)
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        _: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        self.scale_back(now);
        let served = self.served.take().expect("it was dispatched");
        assert_eq!(served.volume, volume, "one command is in the drive at a time");
        let over = took - served.worst;
        let entry = &mut self.volumes[volume.0 as usize];
        entry.usage.spend((took, entry.contract.weight), now, &self.clock);
        match (served.account, &mut entry.promise) {
            (ChargedTo::RealTime, Guarantee::Reserve(server)) => server.pay(over),
            (ChargedTo::RealTime | ChargedTo::Past, _) => {}
            (ChargedTo::Slack, _) => self.left -= over,
            (ChargedTo::Server, _) => self.server.as_mut().expect("it paid").pay(over),
        }
        if let Some(due) = served.due {
            entry.kept.answered(due, now);
        }
        if let Guarantee::Stream(blocks) = &mut entry.promise
            && !served.ends_request
        {
            blocks.has_had(took, self.preemption);
        }
        self.place(volume, now);
        took
    }

    fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        let entry = &self.volumes[volume.0 as usize];
        let has_stream = matches!(entry.promise, Guarantee::Stream(_));
        (has_stream || entry.kept != DeadlineStats::default()).then_some(entry.kept)
    }

    fn balance(&mut self, volume: VolumeId, _: Instant) -> Option<DiskTime> {
        match &self.volume(volume).promise {
            Guarantee::Reserve(server) => Some(server.budget()),
            _ => None,
        }
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            let real = entry.due.is_some_and(|due| self.real.contains(&(due, volume)));
            assert_eq!(real, entry.due.is_some(), "a deadline is in the order of deadlines");
            assert!(!real || entry.head.is_some(), "what is due is queued");
            let waits = real && matches!(entry.promise, Guarantee::Stream(_));
            let best_effort = entry.head.is_some() && !waits;
            assert_eq!(self.shares.contains(volume), best_effort, "the rest is best effort");
            assert_eq!(self.costs.contains(volume), best_effort, "and ordered by cost too");
            if let Guarantee::Reserve(server) = &entry.promise {
                server.invariants();
            }
        }
        if let Some(server) = &self.server {
            server.invariants();
        }
    }
}
