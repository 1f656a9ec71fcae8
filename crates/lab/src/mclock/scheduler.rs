//! mClock's scheduler: tags at arrival, and the selection of the next request (OSDI 2010 §3).
//!
//! Invariant: the tags of one client's requests do not decrease from its head on, so that the heads
//! alone are looked at.

use std::collections::VecDeque;

use units::{Bytes, Duration, Extent, Instant, Lba};

use super::terms::{Normalisation, Options, RequestRate, Terms};

const SECOND: Duration = Duration::from_secs(1);

/// A client, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientIndex(pub(super) usize);

/// A request, by the number of its submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestId(pub(super) u64);

/// A tag, in nanoseconds from the epoch. R and P tags may lie before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TagTime(i64);

/// The tags of a request. A client without a reservation has no R tags, and one without a limit no
/// L tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tags {
    pub(super) reservation: Option<TagTime>,
    pub(super) limit: Option<TagTime>,
    pub(super) weight: TagTime,
}

/// What made the scheduler serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its R tag was due.
    Constraint,
    /// It had the least P tag, or belongs to a batch.
    Weight,
}

/// The request that is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) client: ClientIndex,
    pub(super) request: RequestId,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug)]
struct Tagged {
    id: RequestId,
    extent: Extent,
    tags: Tags,
}

#[derive(Debug)]
struct Client {
    terms: Terms,
    queue: VecDeque<Tagged>,
    /// The tags of its last request.
    last: Option<Tags>,
    /// Requests that have arrived and are not completed.
    outstanding: u32,
    /// When the last of them was completed.
    completed: Option<Instant>,
}

/// Consecutive requests of one client, as far as they are close to each other.
#[derive(Clone, Copy, Debug)]
struct Batch {
    client: ClientIndex,
    end: Lba,
    requests: u32,
}

/// mClock's scheduler of one disk.
#[derive(Debug)]
pub(super) struct Scheduler {
    clients: Vec<Client>,
    options: Options,
    batch: Option<Batch>,
}

impl TagTime {
    pub(super) fn at(instant: Instant) -> Self {
        Self(i64::try_from(instant.as_nanos()).expect("a run is under 292 years"))
    }

    fn after(self, span: Duration) -> Self {
        Self(self.0 + nanos(span))
    }

    fn before(self, span: Duration) -> Self {
        Self(self.0 - nanos(span))
    }

    /// The instant of the tag, at least the epoch.
    fn instant(self) -> Instant {
        Instant::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).expect("the spacing of tags is under 292 years")
}

impl Normalisation {
    /// The spacing `one` of a request without a size, for a request of `size`. Rounded up.
    fn scaled(self, one: Duration, size: Bytes) -> Duration {
        let unit = u128::from(self.positioning.as_nanos()) * u128::from(self.rate.0);
        let size = u128::from(size.0) * u128::from(SECOND.as_nanos());
        let nanos = (u128::from(one.as_nanos()) * (unit + size)).div_ceil(unit);
        Duration::from_nanos(u64::try_from(nanos).expect("requests are under a GiB"))
    }
}

impl Client {
    /// Whether it has had no request for a time: one that goes on at the instant of an answer has
    /// not been idle.
    fn is_idle(&self, now: Instant) -> bool {
        self.outstanding == 0 && self.completed.is_none_or(|completed| completed < now)
    }
}

impl Scheduler {
    pub(super) fn new(terms: &[Terms], options: Options) -> Self {
        let client = |terms: &Terms| Client {
            terms: *terms,
            queue: VecDeque::new(),
            last: None,
            outstanding: 0,
            completed: None,
        };
        Self { clients: terms.iter().map(client).collect(), options, batch: None }
    }

    /// A request arrives and gets its tags.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        ClientIndex(index): ClientIndex,
        (id, extent): (RequestId, Extent),
    ) -> Tags {
        let is_first = self.clients[index].is_idle(now);
        if is_first {
            self.adjust_weight_tags(now, index);
        }
        let terms = self.clients[index].terms;
        let rate = |rate: RequestRate| self.spacing(rate.get(), extent);
        let (reservation, limit) = (terms.reservation.map(rate), terms.limit.map(rate));
        let weight = self.spacing(terms.weight.as_u32(), extent);
        let credit = SECOND * u64::from(terms.idle_credit) / u64::from(terms.weight.as_u32());
        let client = &mut self.clients[index];
        let present = TagTime::at(now);
        let next = |last: Option<TagTime>, spacing| {
            last.map_or(present, |last| last.after(spacing).max(present))
        };
        let last = client.last;
        let tags = Tags {
            reservation: reservation.map(|spacing| next(last.and_then(|l| l.reservation), spacing)),
            limit: limit.map(|spacing| next(last.and_then(|l| l.limit), spacing)),
            weight: match last.filter(|_| !is_first) {
                Some(last) => last.weight.after(weight).max(present.before(credit)),
                None => present.before(credit),
            },
        };
        client.last = Some(tags);
        client.outstanding += 1;
        client.queue.push_back(Tagged { id, extent, tags });
        tags
    }

    /// Shifts the P tags of all clients that are not idle, so that the least of them is the
    /// present, in which the first P tag of the client that becomes active lies.
    fn adjust_weight_tags(&mut self, now: Instant, index: usize) {
        let active = self.clients.iter().filter(|client| !client.is_idle(now));
        let first = |client: &Client| client.queue.front().map(|head| head.tags).or(client.last);
        let Some(least) = active.filter_map(first).map(|tags| tags.weight).min() else { return };
        let by = least.0 - TagTime::at(now).0;
        let others = self.clients.iter_mut().enumerate().filter(|(other, _)| *other != index);
        for (_, client) in others {
            let queued = client.queue.iter_mut().map(|request| &mut request.tags);
            queued.chain(&mut client.last).for_each(|tags| tags.weight.0 -= by);
        }
    }

    /// The spacing of the tags before a request, at `rate` requests a second. Rounded up.
    fn spacing(&self, rate: u32, extent: Extent) -> Duration {
        let one = Duration::from_nanos(SECOND.as_nanos().div_ceil(u64::from(rate)));
        let scaled = |by: Normalisation| by.scaled(one, extent.len.bytes());
        self.options.normalisation.map_or(one, scaled)
    }

    /// Takes the request that is served at `now`; `None` if no tag is due.
    pub(super) fn select(&mut self, now: Instant) -> Option<Selected> {
        let (index, phase) = self.batched(now).or_else(|| self.by_tags(now))?;
        let head = self.clients[index].queue.pop_front().expect("it has a request");
        if phase == Phase::Weight
            && let Some(reservation) = self.clients[index].terms.reservation
        {
            let by = self.spacing(reservation.get(), head.extent);
            let client = &mut self.clients[index];
            let queued = client.queue.iter_mut().map(|request| &mut request.tags);
            for tag in queued.chain(&mut client.last).filter_map(|tags| tags.reservation.as_mut()) {
                *tag = tag.before(by);
            }
        }
        let client = ClientIndex(index);
        let before = self.batch.filter(|batch| self.goes_on(batch, client, head.extent));
        let requests = before.map_or(0, |batch| batch.requests) + 1;
        self.batch = Some(Batch { client, end: head.extent.end(), requests });
        Some(Selected { client, request: head.id, phase })
    }

    /// Whether a request belongs to the batch of the ones before it.
    fn goes_on(&self, batch: &Batch, client: ClientIndex, extent: Extent) -> bool {
        self.options.batch.is_some_and(|options| {
            batch.client == client
                && batch.requests < options.requests_max
                && extent.start.distance(batch.end) <= options.within
        })
    }

    /// The client whose batch goes on, if one does.
    fn batched(&self, now: Instant) -> Option<(usize, Phase)> {
        let batch = self.batch?;
        let head = self.clients[batch.client.0].queue.front()?;
        let goes_on = self.goes_on(&batch, batch.client, head.extent);
        let goes_on = goes_on && is_due(head.tags.limit, now);
        let is_constraint = head.tags.reservation.is_some_and(|tag| tag <= TagTime::at(now));
        let phase = if is_constraint { Phase::Constraint } else { Phase::Weight };
        goes_on.then_some((batch.client.0, phase))
    }

    /// The client that the tags choose. Of equal tags, the first client's.
    fn by_tags(&self, now: Instant) -> Option<(usize, Phase)> {
        let heads = || {
            let all = self.clients.iter().enumerate();
            all.filter_map(|(index, client)| Some((index, client.queue.front()?.tags)))
        };
        let reserved = heads().filter_map(|(index, tags)| Some((tags.reservation?, index)));
        let due = reserved.filter(|(tag, _)| *tag <= TagTime::at(now)).min();
        let weighted = || {
            let within = heads().filter(|(_, tags)| is_due(tags.limit, now));
            within.map(|(index, tags)| (tags.weight, index)).min()
        };
        match due {
            Some((_, index)) => Some((index, Phase::Constraint)),
            None => weighted().map(|(_, index)| (index, Phase::Weight)),
        }
    }

    /// The earliest instant at which a tag of what is queued is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let heads = self.clients.iter().filter_map(|client| client.queue.front());
        let due = |head: &Tagged| {
            let limit = head.tags.limit.map_or(Instant::ZERO, TagTime::instant);
            head.tags.reservation.map_or(limit, |tag| tag.instant().min(limit))
        };
        heads.map(due).min()
    }

    /// A request that was selected is completed.
    pub(super) fn complete(&mut self, now: Instant, ClientIndex(index): ClientIndex) {
        let client = &mut self.clients[index];
        client.outstanding -= 1;
        client.completed = Some(now);
    }

    /// Panics unless the tags of each queue are in order.
    pub(super) fn invariants(&self) {
        for client in &self.clients {
            let tags = client.queue.iter().map(|request| request.tags);
            assert!(tags.clone().is_sorted_by_key(|tags| tags.reservation), "R tags are in order");
            assert!(tags.clone().is_sorted_by_key(|tags| tags.limit), "L tags are in order");
            assert!(tags.is_sorted_by_key(|tags| tags.weight), "P tags are in order");
        }
    }
}

fn is_due(tag: Option<TagTime>, now: Instant) -> bool {
    tag.is_none_or(|tag| tag <= TagTime::at(now))
}
