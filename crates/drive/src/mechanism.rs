//! The arm, the heads and the spindle: where they are, since when, and how a transfer moves them.
//!
//! Invariant: the mechanism's phase never goes back. A movement that takes no time keeps the phase
//! exactly, so that a transfer that goes on where the last one ended loses no revolution.

use units::{Angle, Duration, Extent, FULL_REVOLUTION, Instant, Lba, Sectors};

use crate::Model;
use crate::layout::Place;
use crate::model::Move;
use crate::rotation::{Phase, Rotation, Sweep};
use crate::seek_jitter::SeekJitter;

/// Where the heads are, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanism {
    cylinder: u32,
    surface: u32,
    phase: Phase,
    /// `phase` in time, rounded up.
    free: Instant,
    /// The address behind the last one that was under the heads: where a sweep over the disk goes
    /// on.
    behind: Lba,
    /// How many addresses from there on lie on the sectors that come next under the heads, at this
    /// very phase, and what one of them sweeps.
    ahead: u64,
    sector: Sweep,
    /// How its movements vary; nothing in a drive that always takes as long as its curve says.
    jitter: Option<SeekJitter>,
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
    /// When as many sectors had passed as the order marks.
    pub(crate) marked: Instant,
    /// How many sectors of the first track had come by before the first that was asked for.
    pub(crate) passed: u64,
}

/// How a transfer is to be done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    pub(crate) write: bool,
    /// The arm does not move before.
    pub(crate) at: Instant,
    /// The heads are not ready before.
    pub(crate) settled: Instant,
    pub(crate) feed: Feed,
    /// After how many sectors to look at the time.
    pub(crate) mark: u64,
    /// Whether to begin with whichever sector comes first.
    pub(crate) zero_latency: bool,
}

/// When the sectors of a write arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feed {
    /// Nothing is written before.
    pub(crate) gate: Instant,
    /// The first sector has arrived.
    pub(crate) first: Instant,
    /// One sector's time on the bus.
    pub(crate) sector: Duration,
}

impl Feed {
    /// How many of `run` sectors, from the `done`th on, can be written when the first begins at
    /// `from`: the media must not overtake the bus.
    fn count(&self, rotation: Rotation, from: Phase, sweep: Sweep, done: u64, run: u64) -> u64 {
        let media = rotation.time(sweep);
        if self.sector <= media {
            return run;
        }
        let arrives = self.first + self.sector * done;
        let slack = rotation.instant(from).saturating_since(arrives);
        (1 + slack.as_nanos() / (self.sector - media).as_nanos()).min(run)
    }

    /// How far the disk has rotated when the `nth` sector has arrived.
    fn phase(&self, rotation: Rotation, nth: u64) -> Phase {
        rotation.phase(self.first + self.sector * nth)
    }
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
    /// At rest over the first track at time zero.
    pub(crate) fn new(rotation: Rotation, jitter: Option<SeekJitter>) -> Self {
        let phase = rotation.phase(Instant::ZERO);
        Self {
            cylinder: 0,
            surface: 0,
            phase,
            free: Instant::ZERO,
            behind: Lba(0),
            ahead: 0,
            sector: Sweep(0),
            jitter,
        }
    }

    pub(crate) fn set_seek_jitter(&mut self, jitter: Option<SeekJitter>) {
        self.jitter = jitter;
    }

    /// When the last transfer ended or will end.
    pub(crate) const fn free(&self) -> Instant {
        self.free
    }

    pub(crate) const fn behind(&self) -> Lba {
        self.behind
    }

    /// The heads at `at`, or when they are free.
    pub(crate) fn heads(&self, rotation: Rotation, at: Instant) -> Heads {
        let (at, phase) =
            if at > self.free { (at, rotation.phase(at)) } else { (self.free, self.phase) };
        Heads { cylinder: self.cylinder, surface: self.surface, at, angle: phase.angle() }
    }

    /// Lets the disk rotate until `at`, if it has not come so far.
    pub(crate) fn rest_until(&mut self, rotation: Rotation, at: Instant) {
        if at > self.free {
            self.phase = rotation.phase(at);
            self.free = at;
            self.ahead = 0;
        }
    }

    /// Keeps the heads where they are for `time`, from `at` on or from when they are free: what is
    /// written there is the drive's own affair.
    pub(crate) fn stay(&mut self, rotation: Rotation, at: Instant, time: Duration) -> Access {
        let begin = at.max(self.free);
        self.rest_until(rotation, begin + time);
        Access { begin, settled: begin, first: begin, end: self.free, marked: self.free, passed: 0 }
    }

    /// Moves to `extent` from `order.at` on (or from when the mechanism is free) and transfers it.
    /// No sector is written before it has arrived.
    pub(crate) fn access(&mut self, model: &Model, extent: Extent, order: &Order) -> Access {
        let rotation = model.rotation();
        let begin = order.at.max(self.free);
        let place = model.place(extent.start);
        let settled = (begin + self.movement(model, place, order.write)).max(order.settled);
        // Movement and waiting are rounded once; where they take no time the exact phase is left
        // alone.
        self.rest_until(rotation, settled.max(order.feed.gate));
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        let landed = self.phase;
        let start = landed.until(place.position.angle);
        let passed = start.since(landed).0 / place.sector.0;
        let mut marked = None;
        let (mut next, mut from) = (place, start);
        let mut done = 0;
        loop {
            let run = next.run.min(extent.len.0 - done);
            let count = order.feed.count(rotation, from, next.sector, done, run);
            if done < order.mark && order.mark <= done + count {
                marked = Some(rotation.instant(from + Sweep(next.sector.0 * (order.mark - done))));
            }
            self.pass(next, from, count, extent.start + Sectors(done));
            if done == 0 && count == run && order.zero_latency {
                self.wrap(next, landed, from, run);
            }
            done += count;
            if done >= extent.len.0 {
                break;
            }
            self.phase = self.phase.max(order.feed.phase(rotation, done));
            (next, from) = self.next(model, self.behind, order.write);
        }
        self.free = rotation.instant(self.phase);
        let first = rotation.instant(start);
        Access {
            begin,
            settled,
            first,
            end: self.free,
            marked: marked.unwrap_or(self.free),
            passed,
        }
    }

    /// Moves to where `lba` lies, from `at` on or from when the mechanism is free, and says when it
    /// began and when the heads have settled.
    pub(crate) fn seek(&mut self, model: &Model, lba: Lba, at: Instant) -> (Instant, Instant) {
        let begin = at.max(self.free);
        let place = model.place(lba);
        let settled = begin + self.movement(model, place, false);
        self.rest_until(model.rotation(), settled);
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        (self.behind, self.ahead) = (lba, 0);
        (begin, settled)
    }

    /// What the movement to `place` takes, this time.
    fn movement(&mut self, model: &Model, place: Place, write: bool) -> Duration {
        let to = self.move_to(place, write);
        let time = model.movement(to);
        match &mut self.jitter {
            Some(jitter) if to.distance > 0 => jitter.of(time),
            _ => time,
        }
    }

    /// The heads came down inside of the run: what they had missed of it came last, and one
    /// revolution was enough.
    fn wrap(&mut self, place: Place, landed: Phase, start: Phase, run: u64) {
        let missed = FULL_REVOLUTION.saturating_sub(start.since(landed).0);
        let missed = missed.div_ceil(place.sector.0);
        if missed < run {
            self.phase = start + Sweep(place.sector.0 * missed);
            // What comes next under the heads is not what comes next in order.
            self.ahead = 0;
        }
    }

    /// Reads on from `lba`, up to `limit` or until `stop` as far as whole sectors pass, and returns
    /// the first address that has not passed.
    pub(crate) fn read_on(
        &mut self,
        model: &Model,
        lba: Lba,
        limit: Lba,
        stop: Option<Instant>,
    ) -> Lba {
        let rotation = model.rotation();
        let stop = stop.map(|at| rotation.phase(at));
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
                    self.head_for(model, place);
                    break;
                }
                count = count.min(whole);
            }
            self.pass(place, start, count, next);
            next = self.behind;
        }
        self.free = rotation.instant(self.phase);
        next
    }

    /// Begins to move to where the next sector to be read lies, if that is elsewhere: a movement
    /// that has begun is finished.
    fn head_for(&mut self, model: &Model, place: Place) {
        let to = self.move_to(place, false);
        if to.distance > 0 || to.head_differs {
            self.phase += model.rotation().sweep(model.movement(to));
            (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        }
    }

    /// The place of `lba` and when its sector begins, if the heads go there from where they are.
    fn next(&self, model: &Model, lba: Lba, write: bool) -> (Place, Phase) {
        let place = model.place(lba);
        let to = self.move_to(place, write);
        let mut phase = self.phase;
        if to.distance > 0 || to.head_differs {
            phase += model.rotation().sweep(model.movement(to));
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
        debug_assert!(start >= self.phase, "the disk rotates one way");
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        self.phase = start + Sweep(place.sector.0 * count);
        self.behind = lba + Sectors(count);
        self.ahead = place.run - count;
        self.sector = place.sector;
    }
}
