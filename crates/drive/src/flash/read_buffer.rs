//! Sequential streams, and what is read ahead of those that read.

use units::{Extent, Lba, Sectors};

use super::pieces::{List, OpId, Stripe};

/// How many streams each way are told apart.
pub(super) const STREAMS: usize = 8;

/// One of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream(usize);

/// The ends of the last runs: a command that begins at one of them continues it.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    ends: [Lba; STREAMS],
    /// The one to forget next.
    oldest: usize,
}

impl Streams {
    pub(super) const fn new() -> Self {
        // No command begins there: the drive ends before.
        Self { ends: [Lba(u64::MAX); STREAMS], oldest: 0 }
    }

    /// Takes in a command, and says which run it continues, if it does.
    pub(super) fn follow(&mut self, extent: Extent) -> Option<Stream> {
        let known = self.ends.iter().position(|end| *end == extent.start);
        let place = known.unwrap_or_else(|| {
            let place = self.oldest;
            self.oldest = (place + 1) % STREAMS;
            place
        });
        self.ends[place] = extent.end();
        known.map(Stream)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On its way from the die.
    Coming,
    /// On its way, and written to since: of no use to later reads.
    Stale,
    Here,
}

#[derive(Clone, Debug)]
struct Held {
    stripe: Stripe,
    state: State,
    waiting: List,
}

/// The state of a stripe in the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It is there.
    Here,
    /// It is on its way; one may wait for it.
    Coming,
    /// It is not there, and there is a place for it.
    Free,
    /// It is not there, and its place is taken by one on its way.
    Taken,
}

/// Memory for reads. Each stream has a segment of it, and each stripe one place in a segment: a run
/// goes round its segment, and streams do not disturb each other.
#[derive(Clone, Debug)]
pub(super) struct ReadBuffer {
    places: Vec<Option<Held>>,
    /// Places of a segment; none if there is no memory.
    segment: usize,
}

impl ReadBuffer {
    pub(super) fn new(size: Sectors, stripe: Sectors) -> Self {
        let places = usize::try_from(size.0 / stripe.0).expect("a checked buffer is small");
        let segment = places / STREAMS;
        Self { places: vec![None; segment * STREAMS], segment }
    }

    /// How many stripes of a stream it holds.
    pub(super) fn stream_max(&self) -> u64 {
        self.segment as u64
    }

    /// The place of a stripe in the first segment; none if there is no memory.
    fn offset(&self, stripe: Stripe) -> Option<usize> {
        let offset = stripe.0.checked_rem(self.segment as u64)?;
        Some(usize::try_from(offset).expect("one of the places"))
    }

    /// Where a stripe is, or is to be.
    fn find(&self, stripe: Stripe) -> Option<usize> {
        let offset = self.offset(stripe)?;
        let mut places = (offset..self.places.len()).step_by(self.segment);
        places.find(|place| self.places[*place].as_ref().is_some_and(|held| held.stripe == stripe))
    }

    /// The state of a stripe for a read of `stream`, or for a read without a stream.
    pub(super) fn look(&self, stripe: Stripe, stream: Option<Stream>) -> Lookup {
        if let Some(place) = self.find(stripe) {
            return match self.places[place].as_ref().expect("it was found").state {
                State::Here => Lookup::Here,
                State::Coming => Lookup::Coming,
                State::Stale => Lookup::Taken,
            };
        }
        let (Some(Stream(stream)), Some(offset)) = (stream, self.offset(stripe)) else {
            return Lookup::Taken;
        };
        match &self.places[stream * self.segment + offset] {
            Some(Held { state: State::Coming | State::Stale, .. }) => Lookup::Taken,
            Some(_) | None => Lookup::Free,
        }
    }

    /// A stripe that is [`Lookup::Free`] is on its way.
    pub(super) fn expect(&mut self, stripe: Stripe, stream: Stream) {
        assert_eq!(self.look(stripe, Some(stream)), Lookup::Free, "there is a place for it");
        let place = stream.0 * self.segment + self.offset(stripe).expect("it is free");
        self.places[place] = Some(Held { stripe, state: State::Coming, waiting: List::default() });
    }

    /// The pieces that wait for a stripe that is [`Lookup::Coming`].
    pub(super) fn waiting(&mut self, stripe: Stripe) -> &mut List {
        let place = self.find(stripe).expect("it is expected");
        &mut self.places[place].as_mut().expect("it was found").waiting
    }

    /// The stripe has arrived. Returns the first of the pieces that waited.
    pub(super) fn arrive(&mut self, stripe: Stripe) -> Option<OpId> {
        let place = self.find(stripe).expect("it was expected");
        let held = self.places[place].as_mut().expect("it was found");
        let first = core::mem::take(&mut held.waiting).first();
        if held.state == State::Stale {
            self.places[place] = None;
        } else {
            held.state = State::Here;
        }
        first
    }

    /// The stripes from `first` to before `end` were written to: what was read of them is of no
    /// use.
    pub(super) fn forget(&mut self, first: Stripe, end: Stripe) {
        if end.0 - first.0 < self.stream_max() {
            for stripe in first.0..end.0 {
                if let Some(place) = self.find(Stripe(stripe)) {
                    self.forget_place(place);
                }
            }
            return;
        }
        for place in 0..self.places.len() {
            let written = |held: &Held| (first..end).contains(&held.stripe);
            if self.places[place].as_ref().is_some_and(written) {
                self.forget_place(place);
            }
        }
    }

    fn forget_place(&mut self, place: usize) {
        match self.places[place].as_mut().expect("there is something in it") {
            Held { state: State::Here, .. } => self.places[place] = None,
            held => held.state = State::Stale,
        }
    }
}
