//! The position of arm, heads and spindle, and its change by transfers and seeks.
//!
//! Invariant: the mechanism's phase never decreases. A movement that takes no time keeps the phase
//! exactly, so that a transfer that begins where the last one ended loses no revolution.

use units::{Angle, Duration, Extent, FULL_REVOLUTION, Instant, Lba, Sectors};

use crate::Model;
use crate::layout::Place;
use crate::model::Move;
use crate::rotation::{Phase, Rotation, Sweep};
use crate::seek_jitter::SeekJitter;

/// The position of the heads, and the instant from which they are free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mechanism {
    cylinder: u32,
    surface: u32,
    phase: Phase,
    /// The instant of `phase`, rounded up.
    free: Instant,
    /// The address behind the last transfer, or that of the last seek.
    next_lba: Lba,
    /// The number of addresses from `next_lba` on that lie on the sectors after the heads: the
    /// first of them begins at `phase`.
    consecutive: u64,
    /// The rotation during one of these sectors.
    sector: Sweep,
    /// The variation of seek times; `None` for a drive whose seeks follow its curve exactly.
    jitter: Option<SeekJitter>,
}

/// The instants of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The start of the arm's movement.
    pub(crate) begin: Instant,
    /// The instant at which the heads have settled on the first track.
    pub(crate) settled: Instant,
    /// The start of the first sector under the heads.
    pub(crate) first: Instant,
    /// The end of the last sector.
    pub(crate) end: Instant,
    /// The end of the sector number [`Transfer::mark`].
    pub(crate) marked: Instant,
    /// The number of sectors of the first track that passed the heads before the first sector of
    /// the transfer.
    pub(crate) passed: u64,
}

/// The conditions of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) write: bool,
    /// The earliest start of the arm's movement.
    pub(crate) at: Instant,
    /// The earliest instant at which the heads have settled.
    pub(crate) settled: Instant,
    pub(crate) feed: Feed,
    /// The number of the sector, from 1, whose end is [`Access::marked`]; 0 for the last.
    pub(crate) mark: u64,
    /// Whether the transfer begins with the first of its sectors to pass the heads.
    pub(crate) zero_latency: bool,
}

/// The arrival of a write's sectors over the bus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feed {
    /// The earliest start of the write to the media.
    pub(crate) gate: Instant,
    /// The arrival of the first sector.
    pub(crate) first: Instant,
    /// The time of one sector on the bus.
    pub(crate) sector: Duration,
}

impl Feed {
    /// The number of sectors, of `run` sectors from number `done` on, that have arrived whenever
    /// the media needs them, if the first begins at `from`.
    fn count(&self, rotation: Rotation, from: Phase, sweep: Sweep, done: u64, run: u64) -> u64 {
        let media = rotation.time(sweep);
        if self.sector <= media {
            return run;
        }
        let arrives = self.first + self.sector * done;
        let slack = rotation.instant(from).saturating_since(arrives);
        (1 + slack.as_nanos() / (self.sector - media).as_nanos()).min(run)
    }

    /// The phase at the arrival of sector number `nth`.
    fn phase(&self, rotation: Rotation, nth: u64) -> Phase {
        rotation.phase(self.first + self.sector * nth)
    }
}

/// The position of the heads at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    pub(crate) at: Instant,
    /// The angle under the heads at this instant.
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
    /// Heads on the first track, at time zero.
    pub(crate) fn new(rotation: Rotation, jitter: Option<SeekJitter>) -> Self {
        let phase = rotation.phase(Instant::ZERO);
        Self {
            cylinder: 0,
            surface: 0,
            phase,
            free: Instant::ZERO,
            next_lba: Lba(0),
            consecutive: 0,
            sector: Sweep(0),
            jitter,
        }
    }

    pub(crate) fn set_seek_jitter(&mut self, jitter: Option<SeekJitter>) {
        self.jitter = jitter;
    }

    /// The end of the last transfer or movement.
    pub(crate) const fn free(&self) -> Instant {
        self.free
    }

    /// The address behind the last transfer, or that of the last seek.
    pub(crate) const fn next_lba(&self) -> Lba {
        self.next_lba
    }

    /// The position of the heads at `at`, or at the end of the last transfer if that is later.
    pub(crate) fn heads(&self, rotation: Rotation, at: Instant) -> Heads {
        let (at, phase) =
            if at > self.free { (at, rotation.phase(at)) } else { (self.free, self.phase) };
        Heads { cylinder: self.cylinder, surface: self.surface, at, angle: phase.angle() }
    }

    /// Keeps the heads in place until `at`, unless the last transfer ends later.
    pub(crate) fn rest_until(&mut self, rotation: Rotation, at: Instant) {
        if at > self.free {
            self.phase = rotation.phase(at);
            self.free = at;
            self.consecutive = 0;
        }
    }

    /// Occupies the heads for `time` without a movement, from `at` on or from the end of the last
    /// transfer: the drive writes its log.
    pub(crate) fn stay(&mut self, rotation: Rotation, at: Instant, time: Duration) -> Access {
        let begin = at.max(self.free);
        self.rest_until(rotation, begin + time);
        Access { begin, settled: begin, first: begin, end: self.free, marked: self.free, passed: 0 }
    }

    /// Moves to `extent` from `order.at` on, or from the end of the last transfer, and transfers
    /// it. No sector is written before its arrival.
    pub(crate) fn access(&mut self, model: &Model, extent: Extent, order: &Transfer) -> Access {
        let rotation = model.rotation();
        let begin = order.at.max(self.free);
        let place = model.place(extent.start);
        let settled = (begin + self.movement(model, place, order.write)).max(order.settled);
        // Movement and waiting are rounded once. If they take no time, the exact phase stays.
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
            (next, from) = self.next(model, self.next_lba, order.write);
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

    /// Moves to the track of `lba`, from `at` on or from the end of the last transfer. Returns the
    /// start of the movement and the instant at which the heads have settled.
    pub(crate) fn seek(&mut self, model: &Model, lba: Lba, at: Instant) -> (Instant, Instant) {
        let begin = at.max(self.free);
        let place = model.place(lba);
        let settled = begin + self.movement(model, place, false);
        self.rest_until(model.rotation(), settled);
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        (self.next_lba, self.consecutive) = (lba, 0);
        (begin, settled)
    }

    /// The time of the next movement to `place`, with its jitter.
    fn movement(&mut self, model: &Model, place: Place, write: bool) -> Duration {
        let to = self.move_to(place, write);
        let time = model.movement(to);
        match &mut self.jitter {
            Some(jitter) if to.distance > 0 => jitter.of(time),
            _ => time,
        }
    }

    /// Ends a run in which the heads settled, at `landed`, behind its first sector. The transfer
    /// began with the sectors behind the heads and ended with those before them, so that it took
    /// one revolution at most.
    fn wrap(&mut self, place: Place, landed: Phase, start: Phase, run: u64) {
        let missed = FULL_REVOLUTION.saturating_sub(start.since(landed).0);
        let missed = missed.div_ceil(place.sector.0);
        if missed < run {
            self.phase = start + Sweep(place.sector.0 * missed);
            // The sector that follows under the heads is not the one that follows in address.
            self.consecutive = 0;
        }
    }

    /// Reads from `lba` to `limit`, or all sectors that end by `stop`. Returns the first address
    /// that has not passed the heads.
    pub(crate) fn read_ahead(
        &mut self,
        model: &Model,
        lba: Lba,
        limit: Lba,
        stop: Option<Instant>,
    ) -> Lba {
        let rotation = model.rotation();
        let stop = stop.map(|at| rotation.phase(at));
        let mut next = lba;
        if lba == self.next_lba && self.consecutive > 0 && lba < limit {
            // The sectors follow on the same track: the layout need not be consulted.
            let mut count = self.consecutive.min(limit.0 - lba.0);
            if let Some(stop) = stop {
                count = count.min(stop.since(self.phase).0 / self.sector.0);
            }
            self.consecutive -= count;
            self.phase += Sweep(self.sector.0 * count);
            self.next_lba = lba + Sectors(count);
            next = self.next_lba;
        }
        while next < limit && (self.consecutive == 0 || next != self.next_lba) {
            let (place, start) = self.next(model, next, false);
            let mut count = place.run.min(limit.0 - next.0);
            if let Some(stop) = stop {
                let whole = stop.since(start).0 / place.sector.0;
                if whole == 0 {
                    self.begin_move(model, place);
                    break;
                }
                count = count.min(whole);
            }
            self.pass(place, start, count, next);
            next = self.next_lba;
        }
        self.free = rotation.instant(self.phase);
        next
    }

    /// Moves to the track of the next sector, if it is another. A movement that has begun is
    /// completed even if the read-ahead stops.
    fn begin_move(&mut self, model: &Model, place: Place) {
        let to = self.move_to(place, false);
        if to.distance > 0 || to.head_differs {
            self.phase += model.rotation().sweep(model.movement(to));
            (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        }
    }

    /// The place of `lba`, and the phase at which its sector begins after a movement from the
    /// present position.
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

    /// Transfers `count` sectors from `lba` on, the first of which begins at `start`.
    fn pass(&mut self, place: Place, start: Phase, count: u64, lba: Lba) {
        debug_assert!(start >= self.phase, "the phase never decreases");
        (self.cylinder, self.surface) = (place.position.cylinder, place.position.surface);
        self.phase = start + Sweep(place.sector.0 * count);
        self.next_lba = lba + Sectors(count);
        self.consecutive = place.run - count;
        self.sector = place.sector;
    }
}
