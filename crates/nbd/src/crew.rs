//! What the loops of one server share.
//!
//! Each loop has its own thread and its own connections. The first accepts all clients and hands each to the loop that has
//! the fewest, itself before others; from then on a connection stays where it is.
//!
//! Invariants:
//! - the places taken are those of all loops together, so that they are bounded as if there were one;
//! - what is asked about an export, and that it is opened, is one step under the lock on [`Crew::opened`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::export::ExportId;
use crate::limits::THREADS_MAX;
use crate::request::ConnectionId;
use crate::splice::Splicer;

/// A connection's number: how many there were before, its loop, its slot there.
const SLOT_BITS: u32 = 16;
const PLACE_BITS: u32 = 4;

const _: () = assert!(THREADS_MAX <= 1 << PLACE_BITS);

/// Which of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

impl Place {
    /// The one that accepts clients.
    pub(crate) const FIRST: Self = Self(0);

    /// All of so many.
    pub(crate) fn all(loops: usize) -> impl Iterator<Item = Self> {
        (0..loops).map(Self)
    }

    /// The loop that has this connection.
    pub(crate) fn of(id: ConnectionId) -> Self {
        Self(low(id.0 >> SLOT_BITS, PLACE_BITS))
    }

    /// The next one, if there are so many.
    pub(crate) fn next(self, loops: usize) -> Option<Self> {
        Some(Self(self.0 + 1)).filter(|next| next.0 < loops)
    }

    /// The number of the `count`th connection here, in this slot.
    pub(crate) const fn number(self, count: u64, slot: usize) -> ConnectionId {
        let place = count << PLACE_BITS | self.0 as u64;
        ConnectionId(place << SLOT_BITS | slot as u64)
    }

    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// The slot of a connection in its loop.
pub(crate) fn slot(id: ConnectionId) -> usize {
    low(id.0, SLOT_BITS)
}

fn low(number: u64, bits: u32) -> usize {
    usize::try_from(number & ((1 << bits) - 1)).expect("a few bits fit")
}

/// What the loops share.
#[derive(Debug)]
pub(crate) struct Crew {
    /// How many connections each export has that are there, not merely at the disks.
    opened: Mutex<BTreeMap<ExportId, usize>>,
    /// Of each loop, how many clients it has, and clients that are gone with something left at the disks.
    taken: Vec<AtomicUsize>,
    connections_max: usize,
    /// Writes to parts of sectors, of all loops.
    splicer: Mutex<Splicer>,
}

impl Crew {
    pub(crate) fn new(loops: usize, connections_max: usize) -> Self {
        let taken = (0..loops).map(|_| AtomicUsize::new(0)).collect();
        let splicer = Mutex::new(Splicer::new(loops));
        Self { opened: Mutex::default(), taken, connections_max, splicer }
    }

    /// Nobody panics while holding the lock; should it happen, the counts are still whole.
    pub(crate) fn opened(&self) -> MutexGuard<'_, BTreeMap<ExportId, usize>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody panics while holding the lock who could have gone on without it.
    pub(crate) fn splicer(&self) -> MutexGuard<'_, Splicer> {
        self.splicer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection has an export open no more.
    pub(crate) fn closed(&self, export: ExportId) {
        let mut opened = self.opened();
        if let Some(connections) = opened.get_mut(&export) {
            *connections -= 1;
            if *connections == 0 {
                opened.remove(&export);
            }
        }
    }

    /// Takes a place for a new client, with the loop that has the fewest; `None` if there are as many as may be. Called
    /// by the first loop alone: others only give back.
    pub(crate) fn take_place(&self) -> Option<Place> {
        let counts = || self.taken.iter().map(|taken| taken.load(Ordering::Relaxed));
        if counts().sum::<usize>() >= self.connections_max {
            return None;
        }
        let (place, _) = counts().enumerate().min_by_key(|(_, count)| *count)?;
        self.taken[place].fetch_add(1, Ordering::Relaxed);
        Some(Place(place))
    }

    /// Whether no place is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.iter().all(|taken| taken.load(Ordering::Relaxed) == 0)
    }

    /// Gives a place back.
    pub(crate) fn give_place(&self, place: Place) {
        self.taken[place.0].fetch_sub(1, Ordering::Relaxed);
    }

    /// The first loop keeps a client that was meant for this one.
    pub(crate) fn keep_place(&self, meant: Place) {
        self.give_place(meant);
        self.taken[0].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_where_its_connection_is() {
        for place in Place::all(THREADS_MAX) {
            for (count, at) in [(1, 0), (1 << 40, 1_023), (77, 65_535)] {
                let id = place.number(count, at);
                assert_eq!((Place::of(id), slot(id)), (place, at));
            }
        }
    }

    #[test]
    fn clients_go_where_the_fewest_are_and_no_more_come_than_may() {
        let crew = Crew::new(3, 7);
        let places: Vec<_> = (0..8).map(|_| crew.take_place().map(Place::index)).collect();
        let expected = [0, 1, 2, 0, 1, 2, 0].map(Some);
        assert_eq!((&places[..7], places[7]), (&expected[..], None));
        crew.give_place(Place(2));
        assert_eq!(crew.take_place(), Some(Place(2)), "one left");
        crew.give_place(Place(1));
        crew.keep_place(Place(2));
        assert_eq!(crew.take_place(), Some(Place(1)), "the first has four, the others one each");
        assert_eq!(crew.take_place(), None);
    }
}
