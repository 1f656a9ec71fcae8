//! The arm, the heads and the spindle: where they are, since when, and how a transfer moves them.
//!
//! Invariant: the mechanism's phase never goes back. A movement that takes no time keeps the phase exactly,
//! so that a transfer that goes on where the last one ended loses no turn.

use units::{Angle, Duration, Extent, Instant, Lba, Sectors};

use crate::Model;
use crate::layout::Place;
use crate::model::Move;
use crate::spin::{Phase, Spin, Sweep};

/// Where the heads are, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanism {
    cylinder: u32,
    surface: u32,
    phase: Phase,
    /// `phase` in time, rounded up.
    free: Instant,
    /// The address behind the last one that was under the heads: where a sweep over the disk goes on.
    behind: Lba,
    /// How many addresses from there on lie on the sectors that come next under the heads, at this very
    /// phase, and what one of them sweeps.
    ahead: u64,
    sector: Sweep,
}

/// A transfer that has been worked out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// When the arm began to move.
    pub(crate) begin: Instant,
    /// When the heads were on the first track.
    pub(crate) settled: Instant,
    /// When the first sector came under them.
    pub(crate) first: Instant,
    /// When the last sector had passed.
    pub(crate) end: Instant,
}

/// The heads as they are at an instant, or as soon as they are free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    pub(crate) at: Instant,
    /// What is under them then.
    pub(crate) angle: Angle,
}

impl Access {
    pub(crate) fn seek(&self) -> Duration {
        self.settled.since(self.begin)
    }

    pub(crate) fn rotation(&self) -> Duration {
        self.first.since(self.settled)
    }

    pub(crate) fn transfer(&self) -> Duration {
        self.end.since(self.first)
    }
}

impl Mechanism {
    /// At rest over the first track when the world begins.
    pub(crate) fn new(spin: Spin) -> Self {
        let phase = spin.phase(Instant::ZERO);
        Self {
            cylinder: 0,
            surface: 0,
            phase,
            free: Instant::ZERO,
            behind: Lba(0),
            ahead: 0,
            sector: Sweep(0),
        }
    }

    /// When the last transfer ended or will end.
    pub(crate) const fn free(&self) -> Instant {
        self.free
    }

    pub(crate) const fn behind(&self) -> Lba {
        self.behind
    }

    /// The heads at `at`, or when they are free.
    pub(crate) fn heads(&self, spin: Spin, at: Instant) -> Heads {
        let (at, phase) =
            if at > self.free { (at, spin.phase(at)) } else { (self.free, self.phase) };
        Heads { cylinder: self.cylinder, surface: self.surface, at, angle: phase.angle() }
    }

    /// Lets the disk turn on until `at`, if it has not come so far.
    pub(crate) fn rest_until(&mut self, spin: Spin, at: Instant) {
        if at > self.free {
            self.phase = spin.phase(at);
            self.free = at;
            self.ahead = 0;
        }
    }

    /// Moves to `extent` from `at` on (or from when the mechanism is free) and transfers it. The first sector
    /// is not begun before `data`, when what is to be written has arrived.
    pub(crate) fn access(
        &mut self,
        model: &Model,
        extent: Extent,
        write: bool,
        (at, data): (Instant, Instant),
    ) -> Access {
        let spin = model.spin();
        let begin = at.max(self.free);
        let place = model.place(extent.start);
        let settled = begin + model.movement(self.move_to(place, write));
        // Movement and waiting are rounded once; where they take no time the exact phase is left alone.
        self.rest_until(spin, settled.max(data));
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        let start = self.phase.until(place.position.angle);
        self.pass(place, start, extent.len.0.min(place.run), extent.start);
        while self.behind < extent.end() {
            let left = extent.end().0 - self.behind.0;
            let (place, start) = self.next(model, self.behind, write);
            self.pass(place, start, left.min(place.run), self.behind);
        }
        self.free = spin.instant(self.phase);
        Access { begin, settled, first: spin.instant(start), end: self.free }
    }

    /// Reads on from `lba`, up to `limit` or until `stop` as far as whole sectors pass, and returns the first
    /// address that has not passed.
    pub(crate) fn read_on(
        &mut self,
        model: &Model,
        lba: Lba,
        limit: Lba,
        stop: Option<Instant>,
    ) -> Lba {
        let spin = model.spin();
        let stop = stop.map(|at| spin.phase(at));
        let mut next = lba;
        if lba == self.behind && self.ahead > 0 && lba < limit {
            // On the same track: no need to look up where.
            let mut count = self.ahead.min(limit.0 - lba.0);
            if let Some(stop) = stop {
                count = count.min(stop.since(self.phase).0 / self.sector.0);
            }
            self.ahead -= count;
            self.phase += Sweep(self.sector.0 * count);
            self.behind = lba + Sectors(count);
            next = self.behind;
        }
        while next < limit && (self.ahead == 0 || next != self.behind) {
            let (place, start) = self.next(model, next, false);
            let mut count = place.run.min(limit.0 - next.0);
            if let Some(stop) = stop {
                let whole = stop.since(start).0 / place.sector.0;
                if whole == 0 {
                    break;
                }
                count = count.min(whole);
            }
            self.pass(place, start, count, next);
            next = self.behind;
        }
        self.free = spin.instant(self.phase);
        next
    }

    /// The place of `lba` and when its sector begins, if the heads go there from where they are.
    fn next(&self, model: &Model, lba: Lba, write: bool) -> (Place, Phase) {
        let place = model.place(lba);
        let to = self.move_to(place, write);
        let mut phase = self.phase;
        if to.distance > 0 || to.head_differs {
            phase += model.spin().sweep(model.movement(to));
        }
        (place, phase.until(place.position.angle))
    }

    fn move_to(&self, place: Place, write: bool) -> Move {
        Move {
            distance: self.cylinder.abs_diff(place.position.cylinder),
            head_differs: self.surface != place.position.surface,
            write,
        }
    }

    /// Lets `count` sectors from `lba` on pass, which begin at `start`.
    fn pass(&mut self, place: Place, start: Phase, count: u64, lba: Lba) {
        debug_assert!(start >= self.phase, "the disk turns one way");
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        self.phase = start + Sweep(place.sector.0 * count);
        self.behind = lba + Sectors(count);
        self.ahead = place.run - count;
        self.sector = place.sector;
    }
}
