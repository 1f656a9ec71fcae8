//! Changes during a case: contracts, priorities, the period, and volumes that come and leave.

use engine::{Contract, Event, Weight};
use units::Duration;

use super::Case;
use super::client::{BLOCKS_MAX, Client, Kind, stream_client};
use super::tasks::{TaskDistribution, generate_shares};
use super::terms::{STREAM, ms, one_of};
use crate::SeededRng;

impl Case {
    /// Makes the changes that are due.
    pub(super) fn apply_changes(&mut self) {
        let now = self.now;
        // A change needs all of the case: it is taken out of it for as long.
        let Some(mut changes) = self.changes.take() else { return };
        while changes.next_at().is_some_and(|at| at <= now) {
            changes.left -= 1;
            // Some changes come together, or 1 ns apart.
            let rng = &mut changes.rng;
            let pause = one_of(rng, &[Duration::ZERO, Duration::from_nanos(1), ms(7), ms(150)]);
            changes.next = now + pause + ms(rng.below(2) * rng.below(400));
            let is_changed = match rng.below(8) {
                0 | 1 => self.change_shares(rng),
                2 => self.change_latency(&changes.tasks, rng),
                3 => self.change_stream(&changes.tasks, rng),
                4 => self.change_priority(rng),
                5 => self.join(&changes.tasks, rng),
                6 => self.leave(rng),
                _ => self.change_period(rng),
            };
            if is_changed {
                self.result.changes += 1;
                self.shares_changed();
            }
        }
        self.changes = Some(changes);
    }

    /// A client whose volume stays, of those that `is_wanted`.
    fn any_client(
        &self,
        rng: &mut SeededRng,
        is_wanted: impl Fn(&Client) -> bool,
    ) -> Option<usize> {
        let wanted =
            |index: &usize| !self.clients[*index].leaves && is_wanted(&self.clients[*index]);
        let count = (0..self.clients.len()).filter(wanted).count() as u64;
        let which = usize::try_from((count > 0).then(|| rng.below(count))?).expect("an index");
        (0..self.clients.len()).filter(wanted).nth(which)
    }

    /// Changes the contract of a client's volume, if it is admitted. The volume of a client of high
    /// priority keeps its contract, whose limit is admitted.
    fn change(&mut self, index: usize, contract: Contract) -> bool {
        let volume = self.clients[index].volume;
        let is_high = self.shares.as_ref().is_some_and(|shares| shares.is_high(volume));
        if is_high || self.engine.admits(volume, contract).is_err() {
            return false;
        }
        self.engine.handle(Event::ContractChanged { volume, contract }, self.now);
        true
    }

    fn change_shares(&mut self, rng: &mut SeededRng) -> bool {
        let has_shares = |client: &Client| !matches!(client.kind, Kind::Stream { .. });
        let Some(index) = self.any_client(rng, has_shares) else { return false };
        let latency = self.engine.contract(self.clients[index].volume).latency;
        let weight = Weight::new(one_of(rng, &[1, 1, 3, 20])).expect("a weight");
        let contract = Contract { latency, weight, ..Contract::BEST_EFFORT };
        let contract = generate_shares(contract, rng);
        self.change(index, contract)
    }

    /// Another bounded latency, or none.
    fn change_latency(&mut self, tasks: &TaskDistribution, rng: &mut SeededRng) -> bool {
        let is_bounded = |client: &Client| matches!(client.kind, Kind::Bounded { .. });
        let Some(index) = self.any_client(rng, is_bounded) else { return false };
        let latency = tasks.latency(rng).filter(|_| rng.below(4) > 0);
        let before = self.engine.contract(self.clients[index].volume);
        if !self.change(index, Contract { latency, ..before }) {
            return false;
        }
        self.forget_deadlines(index);
        if let Kind::Bounded { contract, level, .. } = &mut self.clients[index].kind {
            *contract = latency.unwrap_or(*contract);
            *level = None;
        }
        true
    }

    fn change_stream(&mut self, tasks: &TaskDistribution, rng: &mut SeededRng) -> bool {
        let is_stream = |client: &Client| matches!(client.kind, Kind::Stream { .. });
        let Some(index) = self.any_client(rng, is_stream) else { return false };
        let Some(stream) = tasks.stream(rng) else { return false };
        if !self.change(index, Contract::stream(stream)) {
            return false;
        }
        self.forget_deadlines(index);
        if let Kind::Stream { task, block, expected, .. } = &mut self.clients[index].kind {
            (*task, *block, *expected) = (stream.task, stream.block, None);
        }
        true
    }

    fn change_priority(&mut self, rng: &mut SeededRng) -> bool {
        let is_load = |client: &Client| matches!(client.kind, Kind::Load { .. });
        let Some(index) = self.any_client(rng, is_load) else { return false };
        let volume = self.clients[index].volume;
        let is_high = self.shares.as_ref().is_some_and(|shares| shares.is_high(volume));
        if is_high {
            return false;
        }
        self.raise_priority(volume);
        true
    }

    /// A volume with a stream, a bounded latency, or shares.
    fn join(&mut self, tasks: &TaskDistribution, rng: &mut SeededRng) -> bool {
        let own = SeededRng::new(rng.below(u64::MAX), STREAM);
        let left = 1 + rng.below(BLOCKS_MAX);
        let next = self.now + ms(rng.below(2) * rng.below(50));
        let kind = rng.below(3);
        if kind == 0 {
            let Some(stream) = tasks.stream(rng) else { return false };
            let added = self.engine.add_volume(Contract::stream(stream), self.now);
            let Ok(volume) = added else { return false };
            let mut client = stream_client(volume, stream, next, rng);
            if let Kind::Stream { expected, .. } = &mut client.kind {
                *expected = None;
            }
            self.clients.push(client);
            self.result.streams += 1;
            return true;
        }
        let latency = tasks.latency(rng).filter(|_| kind == 1);
        let contract = generate_shares(Contract { latency, ..Contract::BEST_EFFORT }, rng);
        let Ok(volume) = self.engine.add_volume(contract, self.now) else { return false };
        let kind = if let Some(contract) = latency {
            self.result.bounded += 1;
            Kind::Bounded { contract, twice: rng.below(2) == 0, level: None }
        } else {
            let (closed, every) = (rng.below(2) == 0, ms(1 + rng.below(100)));
            Kind::Load { sectors: 1 + rng.below(20), every, closed }
        };
        self.clients.push(Client::new(volume, kind, (next, left), own));
        true
    }

    /// A volume is removed when its last request is answered.
    fn leave(&mut self, rng: &mut SeededRng) -> bool {
        let Some(index) = self.any_client(rng, |_| true) else { return false };
        let client = &mut self.clients[index];
        (client.left, client.leaves) = (0, true);
        if client.outstanding == 0 {
            self.remove(index);
        }
        true
    }

    /// Removes a client's volume.
    pub(super) fn remove(&mut self, index: usize) {
        assert!(self.clients[index].is_removed(), "it leaves, and no request is left");
        let volume = self.clients[index].volume;
        self.add_up(volume);
        self.engine.handle(Event::VolumeRemoved { volume }, self.now);
        if let Some(shares) = &mut self.shares {
            shares.removed(volume);
        }
        self.shares_changed();
    }

    fn change_period(&mut self, rng: &mut SeededRng) -> bool {
        let period = ms(one_of(rng, &[100, 200, 400]));
        let batch = one_of(rng, &[Duration::ZERO, period / 4, period]);
        self.engine.handle(Event::PeriodChanged { period, batch }, self.now);
        if let Some(shares) = &mut self.shares {
            shares.settings.period = shares.settings.period.max(period);
            shares.settings.batch = shares.settings.batch.max(batch);
        }
        true
    }
}
