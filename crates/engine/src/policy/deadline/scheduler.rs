//! The deadline policies behind the policy interface.

use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Duration, Instant, Operation};

use super::sporadic_server::SporadicServer;
use super::state::{ChargedTo, Deadline, Guarantee, InService};
use super::worst_case::WorstCase;
use crate::policy::interface::{Dispatch, DispatchRecord, Pick, Policy};
use crate::request::DeadlineStats;
use crate::stream::Granularity;
use crate::{Contract, Settings, VolumeId};

impl Policy for Deadline {
    fn add_volume(&mut self, contract: Contract, now: Instant) {
        let fresh = self.fresh(contract);
        let volume = VolumeId(u32::try_from(self.volumes.len()).expect("VOLUMES_MAX fits"));
        self.volumes.push(fresh);
        self.replace_guarantee(volume);
        self.place(volume, now);
    }

    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let entry = self.volume(volume);
        let before = core::mem::replace(&mut entry.contract, contract);
        entry.usage = entry.usage.reweighed(before.weight, contract.weight);
        if (before.stream, before.reserve) != (contract.stream, contract.reserve) {
            self.replace_guarantee(volume);
        }
        self.place(volume, now);
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        assert_eq!(self.volume(volume).head, None, "a volume leaves with nothing queued");
        assert_eq!(self.volume(volume).queued, 0, "a volume leaves with nothing queued");
        let in_service = self.in_service.map(|command| command.volume);
        assert_ne!(in_service, Some(volume), "a volume leaves with nothing in service");
        let fresh = self.fresh(contract);
        self.volumes[volume.0 as usize] = fresh;
        self.replace_guarantee(volume);
        self.place(volume, now);
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        assert!(settings.period > Duration::ZERO, "shares are kept over a period");
        self.period = settings.period;
        let reserves: Vec<VolumeId> = self.guaranteed.iter().copied().collect();
        for volume in reserves {
            if let Guarantee::Reserve(_) = self.volume(volume).guarantee {
                self.replace_guarantee(volume);
                self.place(volume, now);
            }
        }
    }

    fn set_profile(&mut self, profile: &Arc<Profile>) {
        assert!(self.in_service.is_none(), "a profile is set while the drive is idle");
        self.worst = WorstCase::Profile(Arc::clone(profile));
    }

    fn set_static_slack(&mut self, slack: DiskTime) {
        self.slack.set_static(slack);
    }

    fn change_granularity(&mut self, granularity: Granularity, now: Instant) -> bool {
        assert!(self.in_service.is_none(), "the drive is idle");
        self.release(now);
        if !self.real.is_empty() {
            return false;
        }
        self.granularity = granularity;
        self.slack.set_preemption(match granularity {
            Granularity::Whole => DiskTime::ZERO,
            Granularity::Chunks => self.preemption,
        });
        for entry in &mut self.volumes {
            if let Guarantee::Stream(blocks) = &mut entry.guarantee {
                blocks.set_granularity(granularity);
            }
        }
        self.charge_preemptions();
        debug_assert!(self.real.is_empty(), "no released request is queued");
        true
    }

    fn head_changed(&mut self, volume: VolumeId, head: &Operation, now: Instant) {
        let worst = self.worst.of(head);
        debug_assert!(worst >= DiskTime::ZERO, "a worst case is not negative: {worst}");
        let entry = self.volume(volume);
        debug_assert!(entry.head.is_some(), "a queued request gives a head");
        entry.head = Some(worst);
        self.place(volume, now);
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
        debug_assert_eq!(worst.is_some(), entry.queued == 1, "the first of a queue is its head");
        debug_assert!(worst.is_none() || entry.head.is_none(), "an empty queue has no head");
        if let Guarantee::Stream(blocks) = &mut entry.guarantee {
            blocks.on_arrival(asked, now);
        }
        if worst.is_some() {
            entry.head = worst;
            self.place(volume, now);
        }
    }

    fn pick(&mut self, running: usize, now: Instant) -> Pick {
        assert_eq!(running, 0, "one command is in flight at a time");
        assert!(self.in_service.is_none(), "one command is in flight at a time");
        self.scale_back(now);
        self.release(now);
        if self.real.is_empty() {
            self.on_idle(now);
        }
        let mut paid = None;
        if let Some((cheapest, _)) = self.costs.first() {
            let available = self.available_slack(!self.real.is_empty(), now);
            if let Some(volume) = self.best_effort(available) {
                self.picked = Some((volume, ChargedTo::Slack));
                return Pick::Volume(volume);
            }
            self.burst = true;
            // The server's job begins when best effort has no slack.
            paid = self.server.as_mut().and_then(|server| server.update_job(Some(cheapest), now));
        } else if let Some(server) = &mut self.server {
            // The slack served what its job was begun for: kept until more arrives, the job would
            // be due earlier than admission assumes.
            server.update_job(None, now);
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
        let has_head = |(volume, _): (VolumeId, _)| self.volumes[volume.0 as usize].head.is_some();
        debug_assert!(self.picked.is_none_or(has_head), "a picked volume has a head");
        match self.picked {
            Some((volume, _)) => Pick::Volume(volume),
            None => self.next_change().map_or(Pick::Nothing, Pick::Wait),
        }
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let Dispatch { volume, ends_request, next, .. } = dispatch;
        let (picked, charged_to) = self.picked.take().expect("a dispatched volume was picked");
        assert_eq!(picked, volume, "a dispatched volume was picked");
        assert!(self.in_service.is_none(), "one command is in flight at a time");
        let next = next.map(|next| self.worst.of(next));
        let preemption_cost = self.preemption_cost();
        self.set_last_served(volume);
        let entry = &mut self.volumes[volume.0 as usize];
        let worst = entry.head.expect("a dispatched volume has a head");
        entry.head = next;
        entry.queued -= usize::from(ends_request);
        debug_assert_eq!(entry.head.is_some(), entry.queued > 0, "the head is a queued request's");
        let mut due = None;
        if let Guarantee::Stream(blocks) = &mut entry.guarantee
            && ends_request
        {
            due = blocks.on_dispatch(now);
        }
        match (charged_to, &mut entry.guarantee) {
            (ChargedTo::RealTime, Guarantee::Reserve(server)) => server.pay(worst),
            (ChargedTo::RealTime | ChargedTo::Past, _) => {}
            (ChargedTo::Slack, _) => self.slack.spend(worst + preemption_cost),
            (ChargedTo::Server, _) => self.server.as_mut().expect("a server pays").pay(worst),
        }
        self.in_service = Some(InService { volume, charged_to, worst, ends_request, due });
        self.place(volume, now);
        DispatchRecord::new(worst, charged_to == ChargedTo::Slack)
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        _: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        self.scale_back(now);
        let in_service = self.in_service.take().expect("it was dispatched");
        assert_eq!(in_service.volume, volume, "one command is in flight at a time");
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        let over = took - in_service.worst;
        let entry = &mut self.volumes[volume.0 as usize];
        entry.usage.spend((took, entry.contract.weight), now, &self.clock);
        match (in_service.charged_to, &mut entry.guarantee) {
            (ChargedTo::RealTime, Guarantee::Reserve(server)) => server.pay(over),
            (ChargedTo::RealTime | ChargedTo::Past, _) => {}
            (ChargedTo::Slack, _) => self.slack.spend(over),
            (ChargedTo::Server, _) => self.server.as_mut().expect("a server paid").pay(over),
        }
        if let Some(due) = in_service.due {
            entry.deadline_stats.answered(due, now);
        }
        if let Guarantee::Stream(blocks) = &mut entry.guarantee
            && !in_service.ends_request
        {
            blocks.on_partial_service(took, self.slack.preemption());
        }
        self.place(volume, now);
        took
    }

    fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        let entry = &self.volumes[volume.0 as usize];
        let has_stream = matches!(entry.guarantee, Guarantee::Stream(_));
        (has_stream || entry.deadline_stats != DeadlineStats::default())
            .then_some(entry.deadline_stats)
    }

    fn balance(&mut self, volume: VolumeId, _: Instant) -> Option<DiskTime> {
        match &self.volume(volume).guarantee {
            Guarantee::Reserve(server) => Some(server.budget()),
            _ => None,
        }
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            let real = entry.due.is_some_and(|due| self.real.contains(&(due, volume)));
            assert_eq!(real, entry.due.is_some(), "a deadline is in the order of deadlines");
            assert!(!real || entry.head.is_some(), "what is due is queued");
            let waits = real && matches!(entry.guarantee, Guarantee::Stream(_));
            let best_effort = entry.head.is_some() && !waits;
            assert_eq!(self.shares.contains(volume), best_effort, "any other head is best effort");
            assert_eq!(self.costs.contains(volume), best_effort, "and ordered by cost too");
            assert_eq!(entry.head.is_some(), entry.queued > 0, "a head is a queued request's");
            let is_guaranteed = !matches!(entry.guarantee, Guarantee::BestEffort);
            assert_eq!(self.guaranteed.contains(&volume), is_guaranteed, "guarantees are listed");
            let is_activating = self.activating.contains(&volume);
            assert_eq!(is_activating, is_guaranteed && !entry.is_active, "or will be activated");
            if let Guarantee::Reserve(server) = &entry.guarantee {
                server.invariants();
            }
        }
        let real = self.volumes.iter().filter(|entry| entry.due.is_some()).count();
        assert_eq!(self.real.len(), real, "each deadline is a volume's");
        if let Some(server) = &self.server {
            server.invariants();
        }
    }
}
