//! Deadlines, and best effort in what they leave (RTAS 2000, the Clockwise scheduler): `edf`, `lst`, `delta-l`, `delta-star`.
//!
//! Each volume's head is in one of three places:
//!
//! ```text
//!                     released                        no block of a stream, or no budget
//!  future (a stream's head that has come early) ──▶ real time, by deadline      best effort, by recent usage
//!    └── is best effort until then ──────────────────────────────────────────────▲
//! ```
//!
//! The policies differ in one number, the *room*: how long a best-effort command may be that goes before real-time
//! requests, those that are released and those that may be while it is served:
//!
//! | policy | room beside released real-time requests | beside none |
//! |---|---|---|
//! | `edf` | none | any |
//! | `lst` | until the latest start of the first request in the queue | any |
//! | `delta-l` | `ΔL_r`: what best effort has left of ΔL since the queue was empty | ΔL |
//! | `delta-star` | the slack of the present state ([`present`]); none in a burst | the same |
//!
//! A *burst* begins when best effort has no room left, and ends when no released request is queued: so the arm goes from
//! best effort to the streams and back once, not after each request. `delta-star`'s ends sooner if the slack has grown
//! (requests take less than at worst) and does for all of best effort that waits, or for four commands of it: then the way is
//! worth while, and who is alone does not wait.
//!
//! Reserves are sporadic servers ([`server`]): their heads are real time as long as their budget pays for them. A block has
//! no use for being early, but whoever has a reserve waits for his answer: so his head is best effort as well, and where there
//! is room it goes in the order of recent usage and costs his budget nothing. Best effort itself may have such a server.
//!
//! **Changes.** A stream or a reserve that is new, or another, *joins*: it releases nothing until there is a moment at which
//! no released request is queued and the drive is idle. Nothing that was begun or let go before can be in its way then, so
//! that what the new set was admitted with holds from there on, and the old set's until there. Until the queue is empty
//! next, `ΔL_r` is at most the new ΔL. Who has not joined yet is best effort.

mod blocks;
mod present;
mod room;
mod server;
mod worst;

use std::collections::BTreeSet;
use std::sync::Arc;

use units::{DiskTime, Duration, Instant, Operation, Share};

use self::blocks::Blocks;
use self::present::{Outlook, Rate};
use self::server::Sporadic;
pub(crate) use self::worst::Worst;
use super::{Dispatch, Pick, Policy, Ticket};
use crate::order::Order;
use crate::request::Kept;
use crate::stream::Task;
use crate::usage::{Usage, Weights};
use crate::{Contract, PolicyName, Settings, VolumeId};
use drive_profile::Profile;

/// What a volume is promised.
#[derive(Debug)]
enum Promise {
    Nothing,
    Stream(Box<Blocks>),
    Reserve(Box<Sporadic>),
}

#[derive(Debug)]
struct Volume {
    contract: Contract,
    usage: Usage,
    promise: Promise,
    /// Whether it may release anything.
    joined: bool,
    /// The rate at which its task has disk time.
    rate: Rate,
    /// What a preemption costs that it may cause.
    extra: DiskTime,
    /// The next command at its worst; none if nothing is queued.
    head: Option<DiskTime>,
    /// Requests queued, the one in service not counted once its last command is issued.
    queued: usize,
    /// What became of the deadlines that it has had.
    kept: Kept,
    /// When its head is due, if it is real time: its key in that order.
    due: Option<Instant>,
}

/// On whose account a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Account {
    /// The volume's own stream or reserve.
    RealTime,
    /// Best effort in the slack.
    Slack,
    /// Best effort, paid by its server.
    Server,
    /// A reserve that is another since.
    Past,
}

/// The command in the drive.
#[derive(Clone, Copy, Debug)]
struct Served {
    volume: VolumeId,
    account: Account,
    worst: DiskTime,
    /// Whether its request ends with it; and when that is due, if it is a stream's block.
    ends_request: bool,
    due: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Deadline {
    name: PolicyName,
    period: Duration,
    preemption: DiskTime,
    worst: Worst,
    volumes: Vec<Volume>,
    /// Released heads, by deadline.
    real: BTreeSet<(Instant, VolumeId)>,
    /// When a best-effort head may become real time: its release, or a refill of its reserve.
    future: Order<Instant>,
    /// Best-effort heads, by usage and by what they take.
    shares: Order<Usage>,
    costs: Order<DiskTime>,
    weights: Weights,
    /// The server of best effort.
    server: Option<Sporadic>,
    /// Who has a promise, and who of them has not joined.
    promised: BTreeSet<VolumeId>,
    joining: BTreeSet<VolumeId>,
    /// ΔL, and what is left of it since the queue of real-time requests was empty.
    slack: DiskTime,
    left: DiskTime,
    /// What the present slack was at least, and when.
    known: Option<(Instant, DiskTime)>,
    burst: bool,
    /// Whose command was the last: the arm is where that one ended.
    arm: Option<VolumeId>,
    picked: Option<(VolumeId, Account)>,
    served: Option<Served>,
    outlook: Outlook,
}

impl Deadline {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        let deadlines = settings.deadlines;
        let server = deadlines.best_effort;
        let server = server.and_then(|server| served(server.share, server.period));
        Self {
            name: settings.policy,
            period: settings.period,
            preemption: deadlines.preemption,
            worst: Worst::Bound(deadlines.worst),
            volumes: Vec::new(),
            real: BTreeSet::new(),
            future: Order::new(),
            shares: Order::new(),
            costs: Order::new(),
            weights: Weights::new(now),
            server,
            promised: BTreeSet::new(),
            joining: BTreeSet::new(),
            slack: DiskTime::ZERO,
            left: DiskTime::ZERO,
            known: None,
            burst: false,
            arm: None,
            picked: None,
            served: None,
            outlook: Outlook::default(),
        }
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    fn fresh(&self, contract: Contract) -> Volume {
        let promise = match contract.stream {
            Some(stream) => Promise::Stream(Box::new(Blocks::new(stream))),
            None => served(contract.reserve, self.period)
                .map_or(Promise::Nothing, |server| Promise::Reserve(Box::new(server))),
        };
        Volume {
            contract,
            usage: Usage::default(),
            promise,
            joined: false,
            rate: Rate::of(DiskTime::ZERO, self.period),
            extra: DiskTime::ZERO,
            head: None,
            queued: 0,
            kept: Kept::default(),
            due: None,
        }
    }

    /// Gives `volume` what it is promised from now on. What it was promised before is over; it joins when it can.
    fn renew(&mut self, volume: VolumeId) {
        let entry = &self.volumes[volume.0 as usize];
        let Volume { promise, joined, .. } = self.fresh(entry.contract);
        let entry = &mut self.volumes[volume.0 as usize];
        entry.promise = promise;
        entry.joined = joined;
        if let Some(served) = &mut self.served
            && (served.volume, served.account) == (volume, Account::RealTime)
        {
            served.account = Account::Past;
        }
        if let Promise::Stream(blocks) = &mut entry.promise {
            blocks.takes_over(entry.queued);
        }
        if let Promise::Nothing = entry.promise {
            self.promised.remove(&volume);
            self.joining.remove(&volume);
        } else {
            self.promised.insert(volume);
            self.joining.insert(volume);
        }
        self.charge_preemptions();
        self.known = None;
    }

    /// No released request is queued and the drive is idle: whoever waits for that joins.
    fn join(&mut self, now: Instant) {
        self.known = None;
        for volume in core::mem::take(&mut self.joining) {
            let entry = self.volume(volume);
            entry.joined = true;
            if let Promise::Stream(blocks) = &mut entry.promise {
                blocks.joins(now);
            }
            self.place(volume, now);
        }
    }

    /// Puts `volume`'s head where it belongs.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        // A reserve's job goes on as long as the command is in the drive that it pays for: nobody knows what is left.
        let pays = |served: Served| served.volume == volume && served.account == Account::RealTime;
        let pays = self.served.is_some_and(pays);
        let entry = &mut self.volumes[volume.0 as usize];
        let (due, later) = match &mut entry.promise {
            Promise::Nothing => (None, None),
            Promise::Stream(blocks) => match blocks.release().filter(|_| entry.head.is_some()) {
                Some(release) if release <= now => (blocks.deadline(), None),
                release => (None, release),
            },
            Promise::Reserve(_) if !entry.joined || pays => (None, None),
            Promise::Reserve(server) => {
                let due = server.turn(entry.head, now);
                let refill = server.next_refill();
                (due, refill.filter(|_| due.is_none() && entry.head.is_some()))
            }
        };
        if entry.due != due {
            if let Some(before) = entry.due {
                self.real.remove(&(before, volume));
            }
            if let Some(due) = due {
                self.real.insert((due, volume));
            }
            entry.due = due;
        }
        match later {
            Some(later) => self.future.set(volume, later),
            None => self.future.remove(volume),
        }
        // A reserve's head is best effort too where there is room: it need not wait until it is due.
        let waits = due.is_some() && matches!(entry.promise, Promise::Stream(_));
        if let Some(cost) = entry.head.filter(|_| !waits) {
            self.shares.set(volume, entry.usage);
            self.costs.set(volume, cost);
        } else {
            self.shares.remove(volume);
            self.costs.remove(volume);
        }
    }

    /// What has been waited for has come.
    fn release(&mut self, now: Instant) {
        while let Some((_, volume)) = self.future.first().filter(|(at, _)| *at <= now) {
            self.place(volume, now);
        }
    }

    /// When something may change without anybody's doing.
    fn comes_next(&self) -> Option<Instant> {
        let future = self.future.first().map(|(at, _)| at);
        let refill = self.server.as_ref().filter(|_| self.costs.len() > 0);
        future.into_iter().chain(refill.and_then(Sporadic::next_refill)).min()
    }

    /// The best-effort head that goes next if it may take up to `room`: that of whoever has had least, or else the
    /// shortest.
    fn best_effort(&self, room: DiskTime) -> Option<VolumeId> {
        let (_, volume) = self.shares.first()?;
        if self.volumes[volume.0 as usize].head.is_some_and(|cost| cost <= room) {
            return Some(volume);
        }
        self.costs.first().filter(|(cost, _)| *cost <= room).map(|(_, volume)| volume)
    }

    fn scale_back(&mut self, now: Instant) {
        if let Some(halvings) = self.weights.turn(now) {
            self.shares.rescale(|usage| usage.scaled_back(halvings));
            for volume in &mut self.volumes {
                volume.usage = volume.usage.scaled_back(halvings);
            }
        }
    }

    /// No released request is queued, and the drive is idle.
    fn rest(&mut self, now: Instant) {
        if let Some(server) = &mut self.server {
            server.turn(None, now);
        }
        self.left = self.slack;
        self.burst = false;
        if !self.joining.is_empty() {
            self.join(now);
        }
    }
}

/// A server of so much; none of nothing.
fn served(share: Share, period: Duration) -> Option<Sporadic> {
    let cost = share.of(period);
    // Its longest command is of account for admission alone.
    Task::new(period, cost, cost).ok().map(Sporadic::new)
}

impl Policy for Deadline {
    fn add(&mut self, contract: Contract, now: Instant) {
        let fresh = self.fresh(contract);
        let volume = VolumeId(u32::try_from(self.volumes.len()).expect("VOLUMES_MAX fits"));
        self.volumes.push(fresh);
        self.renew(volume);
        self.place(volume, now);
    }

    fn change(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let entry = self.volume(volume);
        let before = core::mem::replace(&mut entry.contract, contract);
        entry.usage = entry.usage.reweighed(before.weight, contract.weight);
        if (before.stream, before.reserve) != (contract.stream, contract.reserve) {
            self.renew(volume);
        }
        self.place(volume, now);
    }

    fn begin_anew(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
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
            if let Promise::Reserve(_) = self.volume(volume).promise {
                self.renew(volume);
                self.place(volume, now);
            }
        }
    }

    fn knows(&mut self, profile: &Arc<Profile>) {
        self.worst = Worst::Profile(Arc::clone(profile));
    }

    fn slack_is(&mut self, slack: DiskTime) {
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
        if let Promise::Stream(blocks) = &mut entry.promise {
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
                self.picked = Some((volume, Account::Slack));
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
                Some((volume, Account::RealTime))
            }
            (_, Some(_)) => {
                let budget = self.server.as_ref().map_or(DiskTime::ZERO, Sporadic::budget);
                self.best_effort(budget).map(|volume| (volume, Account::Server))
            }
            _ => None,
        };
        match self.picked {
            Some((volume, _)) => Pick::Volume(volume),
            None => self.comes_next().map_or(Pick::Nothing, Pick::Wait),
        }
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> Ticket {
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
        if let Promise::Stream(blocks) = &mut entry.promise
            && ends_request
        {
            due = blocks.leaves(now);
        }
        match (account, &mut entry.promise) {
            (Account::RealTime, Promise::Reserve(server)) => server.pay(worst),
            (Account::RealTime | Account::Past, _) => {}
            (Account::Slack, _) => self.left -= worst + interrupts,
            (Account::Server, _) => self.server.as_mut().expect("it pays").pay(worst),
        }
        self.served = Some(Served { volume, account, worst, ends_request, due });
        self.place(volume, now);
        Ticket::new(worst, account == Account::Slack)
    }

    fn completed(&mut self, volume: VolumeId, _: Ticket, took: DiskTime, now: Instant) -> DiskTime {
        self.scale_back(now);
        let served = self.served.take().expect("it was dispatched");
        assert_eq!(served.volume, volume, "one command is in the drive at a time");
        let over = took - served.worst;
        let entry = &mut self.volumes[volume.0 as usize];
        entry.usage.spend((took, entry.contract.weight), now, &self.weights);
        match (served.account, &mut entry.promise) {
            (Account::RealTime, Promise::Reserve(server)) => server.pay(over),
            (Account::RealTime | Account::Past, _) => {}
            (Account::Slack, _) => self.left -= over,
            (Account::Server, _) => self.server.as_mut().expect("it paid").pay(over),
        }
        if let Some(due) = served.due {
            entry.kept.answered(due, now);
        }
        if let Promise::Stream(blocks) = &mut entry.promise
            && !served.ends_request
        {
            blocks.has_had(took, self.preemption);
        }
        self.place(volume, now);
        took
    }

    fn kept(&self, volume: VolumeId) -> Option<Kept> {
        let entry = &self.volumes[volume.0 as usize];
        let has_stream = matches!(entry.promise, Promise::Stream(_));
        (has_stream || entry.kept != Kept::default()).then_some(entry.kept)
    }

    fn balance(&mut self, volume: VolumeId, _: Instant) -> Option<DiskTime> {
        match &self.volume(volume).promise {
            Promise::Reserve(server) => Some(server.budget()),
            _ => None,
        }
    }

    fn invariants(&self) {
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            let real = entry.due.is_some_and(|due| self.real.contains(&(due, volume)));
            assert_eq!(real, entry.due.is_some(), "a deadline is in the order of deadlines");
            assert!(!real || entry.head.is_some(), "what is due is queued");
            let waits = real && matches!(entry.promise, Promise::Stream(_));
            let best_effort = entry.head.is_some() && !waits;
            assert_eq!(self.shares.contains(volume), best_effort, "the rest is best effort");
            assert_eq!(self.costs.contains(volume), best_effort, "and ordered by cost too");
            if let Promise::Reserve(server) = &entry.promise {
                server.invariants();
            }
        }
        if let Some(server) = &self.server {
            server.invariants();
        }
    }
}
