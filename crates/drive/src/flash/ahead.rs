//! Sequential streams, and what is read ahead of those that read.

use units::{Extent, Lba, Sectors};

use super::dies::{List, OpId};

/// How many streams each way are told apart.
const STREAMS: usize = 8;

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

    /// Takes in a command, and says whether it continues a run.
    pub(super) fn follow(&mut self, extent: Extent) -> bool {
        let known = self.ends.iter().position(|end| *end == extent.start);
        let place = known.unwrap_or_else(|| {
            let place = self.oldest;
            self.oldest = (place + 1) % STREAMS;
            place
        });
        self.ends[place] = extent.end();
        known.is_some()
    }
}

/// A stripe of the drive, counted from its first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stripe(pub(super) u64);

impl Stripe {
    pub(super) const fn of(lba: Lba, len: Sectors) -> Self {
        Self(lba.0 / len.0)
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

/// How a stripe stands with the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is there.
    Here,
    /// It is on its way; one may wait for it.
    Coming,
    /// It is not there, and there is a place for it.
    Free,
    /// It is not there, and its place is taken by one on its way.
    Taken,
}

/// Memory for reads: each stripe has one place in it, so that a run fills it like a ring.
#[derive(Clone, Debug)]
pub(super) struct ReadBuffer {
    places: Vec<Option<Held>>,
}

impl ReadBuffer {
    pub(super) fn new(size: Sectors, stripe: Sectors) -> Self {
        let places = usize::try_from(size.0 / stripe.0).expect("a checked buffer is small");
        Self { places: vec![None; places] }
    }

    /// None if there is no memory.
    fn place(&self, stripe: Stripe) -> Option<usize> {
        let places = self.places.len() as u64;
        let place = stripe.0.checked_rem(places)?;
        Some(usize::try_from(place).expect("one of the places"))
    }

    pub(super) fn look(&self, stripe: Stripe) -> Look {
        let Some(place) = self.place(stripe) else { return Look::Taken };
        match &self.places[place] {
            Some(held) if held.stripe == stripe => match held.state {
                State::Here => Look::Here,
                State::Coming => Look::Coming,
                State::Stale => Look::Taken,
            },
            Some(Held { state: State::Coming | State::Stale, .. }) => Look::Taken,
            Some(_) | None => Look::Free,
        }
    }

    /// A stripe that is [`Look::Free`] is on its way.
    pub(super) fn expect(&mut self, stripe: Stripe) {
        assert_eq!(self.look(stripe), Look::Free, "there is a place for it");
        let place = self.place(stripe).expect("it is free");
        self.places[place] = Some(Held { stripe, state: State::Coming, waiting: List::default() });
    }

    /// Those who wait for a stripe that is [`Look::Coming`].
    pub(super) fn waiting(&mut self, stripe: Stripe) -> &mut List {
        let place = self.place(stripe).expect("it is expected");
        let held = self.places[place].as_mut().filter(|held| held.stripe == stripe);
        &mut held.expect("it is expected").waiting
    }

    /// It is here. Gives the first of those who waited.
    pub(super) fn arrive(&mut self, stripe: Stripe) -> Option<OpId> {
        let place = self.place(stripe).expect("it was expected");
        let held = self.places[place].as_mut().filter(|held| held.stripe == stripe);
        let held = held.expect("it was expected");
        let first = core::mem::take(&mut held.waiting).first();
        if held.state == State::Stale {
            self.places[place] = None;
        } else {
            held.state = State::Here;
        }
        first
    }

    /// The stripes from `first` to before `end` were written to: what was read of them is of no use.
    pub(super) fn forget(&mut self, first: Stripe, end: Stripe) {
        let count = self.places.len() as u64;
        if end.0 - first.0 < count {
            for stripe in first.0..end.0 {
                let place = self.place(Stripe(stripe)).expect("there are places");
                self.forget_place(place, first, end);
            }
        } else {
            (0..self.places.len()).for_each(|place| self.forget_place(place, first, end));
        }
    }

    fn forget_place(&mut self, place: usize, first: Stripe, end: Stripe) {
        let written = |held: &&mut Held| (first..end).contains(&held.stripe);
        let Some(held) = self.places[place].as_mut().filter(written) else { return };
        match held.state {
            State::Here => self.places[place] = None,
            State::Coming | State::Stale => held.state = State::Stale,
        }
    }
}
