//! Positioning: when to move the arm, in how many parts, and when to send the transfer.

use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use super::arm::Arm;
use super::execution::{Approach, Jit, Preemptible, SeekSplit};
use super::rotation::RotationTracker;
use drive_profile::{PhysicalAddress, Profile};

/// The least guard time: how much earlier than rotation requires a command is sent.
pub(super) const GUARD_MIN: Duration = Duration::from_micros(50);
/// The most parts of a seek: each costs a start and a stop of the arm.
const PARTS_MAX: u32 = 4;
/// The sectors of a short read: the physical block of most drives.
const SHORT_READ: Sectors = Sectors(8);
/// The standard deviations of a movement's time that are allowed for.
const SPREAD_DEVIATIONS: u64 = 3;

/// The next step of a positioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositioningStep {
    /// Send the transfer command: it moves the arm if a movement remains.
    Go,
    /// Nothing before this instant: the head would only wait for the sector.
    Wait(Instant),
    /// Move the arm.
    Seek {
        /// The destination: the target, or a position between.
        to: Lba,
        /// The parts of the movement that remain after it.
        left: u32,
    },
    /// Move the arm to the target's track by a read of these sectors of it.
    Read(Extent),
}

/// The inputs of a decision.
pub(super) struct PositioningContext<'a> {
    pub(super) profile: &'a Profile,
    pub(super) phase: &'a RotationTracker,
    pub(super) settings: &'a Preemptible,
    pub(super) jit: Jit,
    pub(super) arm: &'a Arm,
    /// Whether a short read moves the arm where the drive has no seek command.
    pub(super) short_reads: bool,
    /// The guard time: how much earlier than rotation requires a command is sent.
    pub(super) guard: Duration,
    /// Whether [`Approach::InTime`] has lost more revolutions than it may: it then allows for the
    /// same spread as the others.
    pub(super) is_careful: bool,
    /// The bus time of the read's first sectors, which the drive's buffer has: they go to the host
    /// while the arm moves and the disk rotates, but not before the transfer command.
    pub(super) buffered: Duration,
    /// The target of a wait or a movement in progress.
    pub(super) target: Option<Lba>,
    /// The parts of that movement that remain, if it is made in several.
    pub(super) parts_left: Option<u32>,
    pub(super) now: Instant,
}

/// One plan of a movement by seek commands.
#[derive(Clone, Copy, Debug)]
struct Parts {
    count: u32,
    /// The idle time before the first of them.
    slack: Duration,
    /// Σ T² of its commands: the wait that the plan causes to others.
    cost: u128,
}

impl PositioningContext<'_> {
    /// The next step; `None` if the rotation is not known.
    pub(super) fn next(&self, head: &Operation) -> Option<PositioningStep> {
        debug_assert!(matches!(head.op, Op::Read | Op::Write), "a transfer needs positioning");
        debug_assert!(self.arm.cylinder < self.profile.cylinders, "the arm is on a cylinder");
        let start = head.extent.start;
        let target = self.profile.locate(start);
        let electronics = self.electronics(head);
        let writes = head.op == Op::Write;
        let movement =
            self.profile.movement_time((self.arm.cylinder, self.arm.surface), &target, writes);
        if movement == Duration::ZERO || self.arm.arrived == Some(start) {
            return self.in_position(&target, electronics + self.buffered);
        }
        let ahead = matches!(self.jit.approach, Approach::Ahead | Approach::ShortRead);
        if ahead && self.profile.seek_command {
            return self.ahead(start, &target, electronics, movement);
        }
        let short =
            self.short_reads.then(|| self.short_read(start, &target, electronics, movement));
        short.flatten().or_else(|| self.in_time(start, &target, electronics, movement))
    }

    /// A read of a block of the target's track that moves the arm there at no cost, or the wait
    /// before it: the block passes after an arrival as late as is allowed for, and is read before
    /// the transfer command is due. It lies in front of the target, so that the read-ahead behind
    /// it stays on the track. `None` if the rotational wait does not hide it.
    fn short_read(
        &self,
        start: Lba,
        target: &PhysicalAddress,
        electronics: Duration,
        movement: Duration,
    ) -> Option<PositioningStep> {
        debug_assert!(!self.profile.seek_command, "a seek command costs less");
        debug_assert!(movement > Duration::ZERO, "an arm in position does not move");
        let profile = self.profile;
        let spread = self.spread(movement);
        let direct = self.phase.next(target.angle, self.now + electronics + movement)?;
        let early = direct.since(self.now + electronics + movement);
        if early + spread / SPREAD_DEVIATIONS > profile.rotation_period {
            // A seek that is slightly faster than predicted reaches the sector a revolution
            // earlier. Beyond one deviation fewer than one in six do.
            return None;
        }
        // As for a transfer: what the drive reads ahead may move the heads meanwhile, too.
        let margin = self.jit.offset.max(spread);
        let arrives_after = profile.overheads.read + movement + margin;
        let arrival = self.now + arrives_after;
        let wait = target.angle - self.phase.angle_at(arrival)?;
        let before = u64::from(wait.0 / target.sector.0.max(1));
        // Where the heads would arrive behind the target, the track's first block is the next.
        let track = u64::from(profile.band(start).sectors_per_track);
        let before = before.min(track.saturating_sub(target.run.0));
        // A drive whose read-ahead has ended in front of the target may go back for the rest.
        let ahead = profile.read_buffer.read_ahead_max;
        let before = if ahead == Sectors::ZERO { before } else { before.min(ahead.0) };
        let lba = Lba(start.0.checked_sub(before)?.next_multiple_of(SHORT_READ.0));
        let extent = Extent::new(lba, SHORT_READ);
        if extent.end() > start {
            return None;
        }
        let at = profile.locate(lba);
        if (at.cylinder, at.surface) != (target.cylinder, target.surface) {
            return None;
        }
        let passes = self.phase.next(at.angle, arrival)?;
        let bus = profile.bus_sector * extent.len.0;
        let ends = passes + profile.transfer_time(extent) + profile.completion + bus;
        let ready = ends + electronics + self.buffered + self.guard;
        let after = self.phase.next(target.angle, ready)?;
        if after > direct {
            return None;
        }
        // One that would wait for its block on the track is sent later: the wait can be preempted.
        let until = passes.saturating_sub(arrives_after);
        let is_early = until.saturating_since(self.now) > profile.transfer_time(extent) * 2;
        let read = PositioningStep::Read(extent);
        Some(if is_early { PositioningStep::Wait(until) } else { read })
    }

    /// The time from sending the transfer command to the first sector's transfer, the arm being in
    /// position.
    fn electronics(&self, head: &Operation) -> Duration {
        let overheads = &self.profile.overheads;
        match head.op {
            Op::Write if self.profile.write_cache && !head.fua => {
                // The drive accesses the media when the command's data is in its write buffer.
                overheads.cached + self.profile.bus_sector * head.extent.len.0
            }
            Op::Write => overheads.write,
            _ => overheads.read,
        }
    }

    /// How much longer or shorter than predicted a movement may take, but for one in hundreds: a
    /// seek that misses its sector waits for it a revolution, most of what a random request takes.
    fn spread(&self, movement: Duration) -> Duration {
        self.profile.seek_variation.min(movement / 8) * SPREAD_DEVIATIONS
    }

    fn distance(&self, target: &PhysicalAddress) -> u32 {
        let distance = self.arm.cylinder.abs_diff(target.cylinder);
        debug_assert!(distance < self.profile.cylinders, "the arm moves over the disk");
        distance
    }

    /// The arm is in position: the rest is rotation.
    fn in_position(
        &self,
        target: &PhysicalAddress,
        electronics: Duration,
    ) -> Option<PositioningStep> {
        let ready = self.now + electronics;
        let passes = self.phase.next(target.angle, ready)?;
        if passes.since(ready) <= self.guard {
            return Some(PositioningStep::Go);
        }
        let early = electronics + self.guard;
        Some(PositioningStep::Wait(passes.saturating_sub(early).max(self.now)).unless_now(self.now))
    }

    /// The transfer command moves the arm (FAST 2003 §3.2), unless the seek is split (§3.3).
    fn in_time(
        &self,
        start: Lba,
        target: &PhysicalAddress,
        electronics: Duration,
        movement: Duration,
    ) -> Option<PositioningStep> {
        debug_assert!(movement > Duration::ZERO, "an arm in position does not move");
        let arrival = self.now + electronics + movement;
        let passes = self.phase.next(target.angle, arrival)?;
        let distance = self.distance(target);
        let split = match self.settings.seek_split {
            Some(_) if !self.profile.seek_command => false,
            Some(SeekSplit::Always(longest)) => self.in_parts_to(start) || distance > longest,
            Some(SeekSplit::Hidden) => {
                let halves = self.arrival(2, distance) + electronics;
                let hidden = self.phase.next(target.angle, halves + self.jit.offset)? <= passes;
                self.in_parts_to(start) || hidden && distance > self.profile.cylinders / 2
            }
            None => false,
        };
        if !split {
            let early = passes.since(arrival).saturating_sub(self.buffered);
            let slack = self.slack(early, movement);
            return Some(PositioningStep::Wait(self.now + slack).unless_now(self.now));
        }
        let left = if self.in_parts_to(start) { 1 } else { 2 };
        let arrival = self.arrival(left, distance) + electronics;
        let passes = self.phase.next(target.angle, arrival)?;
        let slack = passes.since(arrival).saturating_sub(self.jit.offset);
        if slack > Duration::ZERO && left == 2 {
            return Some(PositioningStep::Wait(self.now + slack));
        }
        Some(self.seek(start, target, left))
    }

    /// How long a transfer command that moves the arm can wait, if the head would arrive that long
    /// before its sector. With [`Approach::InTime`] as in FAST 2003, up to the offset, unless that
    /// has cost too much.
    fn slack(&self, early: Duration, movement: Duration) -> Duration {
        debug_assert!(early < self.profile.rotation_period * 2, "the next passage is near");
        let is_tight = match self.jit.approach {
            Approach::Published => true,
            Approach::InTime => !self.is_careful,
            Approach::Ahead | Approach::ShortRead | Approach::Transfer => false,
        };
        if is_tight {
            return early.saturating_sub(self.jit.offset);
        }
        let spread = self.spread(movement);
        let just_missed = early + spread > self.profile.rotation_period;
        if just_missed {
            return Duration::ZERO;
        }
        early.saturating_sub(self.jit.offset.max(spread))
    }

    /// A seek command moves the arm, sent so early that its own variation does not matter.
    fn ahead(
        &self,
        start: Lba,
        target: &PhysicalAddress,
        electronics: Duration,
        movement: Duration,
    ) -> Option<PositioningStep> {
        debug_assert!(movement > Duration::ZERO, "an arm in position does not move");
        debug_assert!(self.profile.seek_command, "the drive has a seek command");
        let arrival = self.now + electronics + movement;
        let direct = self.phase.next(target.angle, arrival)?;
        let spread = self.spread(movement);
        // A seek that is slightly faster than predicted could reach the sector one revolution
        // earlier: it is tried.
        let distance = self.distance(target);
        let parts_in_progress = self.parts_left_to(start);
        let parts_min = self.parts_min(distance).min(parts_in_progress.unwrap_or(PARTS_MAX));
        debug_assert!(parts_min >= 1, "a movement has a part");
        debug_assert!(parts_min <= PARTS_MAX, "a movement has at most {PARTS_MAX} parts");
        let just_missed =
            parts_min == 1 && direct.since(arrival) + spread > self.profile.rotation_period;
        let split = self.settings.seek_split.is_some() && !just_missed;
        // A movement begun in parts is completed in that number: else each part could be split
        // again.
        let parts_max = if split { parts_in_progress.unwrap_or(PARTS_MAX) } else { 1 };
        let mut best: Option<Parts> = None;
        // No plan may be later than the direct movement, or than the coarsest allowed one.
        let mut latest = if parts_min == 1 { Some(direct) } else { None };
        for count in parts_min..=parts_max.min(distance.max(1)) {
            let moved = self.arrival(count, distance);
            let ready = moved + electronics + self.buffered + self.guard;
            // A wait that has begun is not extended because its wake-up was a little late.
            let spread = spread + spread / 2 * u64::from(count - 1);
            let needed = if self.target == Some(start) { spread / 2 } else { spread };
            let passes = self.phase.next(target.angle, ready + needed)?;
            let slack = passes.since(ready);
            if passes > *latest.get_or_insert(passes) {
                continue;
            }
            let part = u128::from(self.part(count, distance).as_nanos());
            let cost = part * part * u128::from(count);
            let slack = if just_missed { Duration::ZERO } else { slack.saturating_sub(spread) };
            if best.is_none_or(|best| cost < best.cost) {
                best = Some(Parts { count, slack, cost });
            }
        }
        let Some(Parts { count, slack, .. }) = best else { return Some(PositioningStep::Go) };
        if slack > Duration::ZERO {
            return Some(PositioningStep::Wait(self.now + slack));
        }
        Some(self.seek(start, target, count))
    }

    /// The fewest parts of a movement by `distance` that the settings allow.
    fn parts_min(&self, distance: u32) -> u32 {
        match self.settings.seek_split {
            Some(SeekSplit::Always(longest)) => {
                distance.div_ceil(longest.max(1)).clamp(1, PARTS_MAX)
            }
            Some(SeekSplit::Hidden) | None => 1,
        }
    }

    fn in_parts_to(&self, start: Lba) -> bool {
        self.parts_left_to(start).is_some()
    }

    /// The parts that remain of a movement to `start` that has begun in several, at least the last.
    fn parts_left_to(&self, start: Lba) -> Option<u32> {
        let left = self.parts_left.filter(|_| self.target == Some(start)).map(|left| left.max(1));
        debug_assert!(left.is_none_or(|left| left < PARTS_MAX), "a part is behind it");
        left
    }

    /// The time of one of `count` equal parts of a movement by `distance`.
    fn part(&self, count: u32, distance: u32) -> Duration {
        debug_assert!(count > 0, "a movement has parts");
        debug_assert!(count <= PARTS_MAX, "a movement has at most {PARTS_MAX} parts");
        let moved = self.profile.seek.time(distance.div_ceil(count)).max(self.profile.head_switch);
        self.profile.overheads.seek + moved
    }

    /// When the arm has moved by `distance` in `count` parts, if it begins now.
    fn arrival(&self, count: u32, distance: u32) -> Instant {
        self.now + self.part(count, distance) * u64::from(count)
    }

    fn seek(&self, start: Lba, target: &PhysicalAddress, left: u32) -> PositioningStep {
        assert!(left <= PARTS_MAX, "a movement has at most {PARTS_MAX} parts");
        if left <= 1 {
            return PositioningStep::Seek { to: start, left: 0 };
        }
        let step = self.distance(target) / left;
        let cylinder = if target.cylinder > self.arm.cylinder {
            self.arm.cylinder + step
        } else {
            self.arm.cylinder - step
        };
        let distance = cylinder.abs_diff(target.cylinder);
        debug_assert!(distance <= self.distance(target), "each part is a step towards the target");
        debug_assert!(cylinder < self.profile.cylinders, "the arm moves over the disk");
        PositioningStep::Seek { to: self.profile.first_lba_on(cylinder), left: left - 1 }
    }
}

impl PositioningStep {
    /// A wait that is over is no wait.
    fn unless_now(self, now: Instant) -> Self {
        let is_past = matches!(self, Self::Wait(until) if until < now);
        debug_assert!(!is_past, "a wait does not end in the past");
        if self == Self::Wait(now) { Self::Go } else { self }
    }
}

#[cfg(test)]
mod tests {
    use units::{Angle, Extent, Sectors};

    use super::*;
    use drive_profile::example_profile;

    /// The step at `now` of an arm on cylinder 0, of a disk whose index mark was under the head at
    /// the epoch.
    fn step(settings: Preemptible, target: Lba, now: Duration) -> PositioningStep {
        step_on(&example_profile(), settings, target, now)
    }

    fn step_on(
        profile: &Profile,
        settings: Preemptible,
        target: Lba,
        now: Duration,
    ) -> PositioningStep {
        let mut phase = RotationTracker::new(profile.rotation_period, 0);
        phase.observe(Angle::ZERO, Instant::ZERO);
        let read = Extent::new(Lba(0), Sectors(0));
        let arm = Arm { cylinder: 0, surface: 0, arrived: None, read, written: None };
        let context = PositioningContext {
            profile,
            phase: &phase,
            settings: &settings,
            jit: settings.jit.expect("just-in-time seeks"),
            arm: &arm,
            short_reads: settings.jit.is_some_and(|jit| jit.approach == Approach::ShortRead),
            guard: Duration::from_micros(100),
            is_careful: false,
            buffered: Duration::ZERO,
            target: None,
            parts_left: None,
            now: Instant::ZERO + now,
        };
        context.next(&Operation::read(Extent::new(target, Sectors(50)))).expect("known")
    }

    fn on(cylinder: u32) -> Lba {
        example_profile().first_lba_on(cylinder)
    }

    #[test]
    fn in_time_waits_until_the_head_arrives_an_offset_before_the_sector() {
        let Execution::Preemptible(published) = Execution::as_published(Sectors(50), 500) else {
            unreachable!()
        };
        let profile = example_profile();
        let target = on(100);
        let PositioningStep::Wait(until) = step(published, target, Duration::from_millis(1)) else {
            panic!("in_position is slack")
        };
        // Sent then, the head arrives 1 ms before the sector does.
        let spot = profile.locate(target);
        let arrival = until + profile.overheads.read + profile.seek.time(100);
        let passes = spot.angle.time(profile.rotation_period).as_nanos();
        let ahead = (passes + 100 * profile.rotation_period.as_nanos() - arrival.as_nanos())
            % profile.rotation_period.as_nanos();
        assert_eq!(ahead, 1_000_000);
    }

    #[test]
    fn without_a_seek_command_ahead_allows_for_the_variation_of_seeks() {
        let mut profile = example_profile();
        (profile.seek_command, profile.seek_variation) = (false, Duration::from_micros(400));
        let settings = Preemptible::default();
        let ahead = settings.jit.expect("just-in-time seeks");
        let target = profile.first_lba_on(500);
        let spot = profile.locate(target);
        let movement = profile.movement_time((0, 0), &spot, false);
        let spread = Duration::from_micros(1_200);
        for micros in (0..10_000).step_by(100) {
            let now = Duration::from_micros(micros);
            let early = |jit| match step_on(
                &profile,
                Preemptible { jit: Some(jit), ..settings },
                target,
                now,
            ) {
                PositioningStep::Go => None,
                PositioningStep::Wait(until) => Some(until),
                step @ (PositioningStep::Seek { .. } | PositioningStep::Read(_)) => {
                    panic!("it has no seek command: {step:?}")
                }
            };
            let arrival = now + profile.overheads.read + movement;
            let period = profile.rotation_period.as_nanos();
            let passes = spot.angle.time(profile.rotation_period).as_nanos();
            let slack = (passes + 100 * period - arrival.as_nanos()) % period;
            let is_close = slack <= spread.as_nanos() || slack + spread.as_nanos() > period;
            let until =
                Instant::ZERO + now + Duration::from_nanos(slack.saturating_sub(spread.as_nanos()));
            assert_eq!(early(ahead), (!is_close).then_some(until), "a slack of {slack} ns");
            let published = Jit { approach: Approach::Published, ..ahead };
            let until = Instant::ZERO + now + Duration::from_nanos(slack.saturating_sub(1_000_000));
            assert_eq!(early(published), (slack > 1_000_000).then_some(until), "{slack} ns");
        }
    }

    #[test]
    fn a_long_seek_is_split_in_two_and_a_short_one_is_not() {
        let Execution::Preemptible(mut published) = Execution::as_published(Sectors(50), 500)
        else {
            unreachable!()
        };
        // An offset of a whole revolution leaves no slack: what remains is the movement.
        published.jit = Some(Jit { offset: Duration::from_millis(10), approach: Approach::InTime });
        assert_eq!(
            step(published, on(900), Duration::ZERO),
            PositioningStep::Seek { to: on(450), left: 1 }
        );
        assert_eq!(step(published, on(400), Duration::ZERO), PositioningStep::Go);
    }

    #[test]
    fn ahead_splits_what_is_longer_than_the_longest_whatever_that_costs() {
        let settings =
            Preemptible { seek_split: Some(SeekSplit::Always(300)), ..Preemptible::default() };
        let profile = example_profile();
        for cylinder in (1..1_000).step_by(7) {
            for micros in (0..10_000).step_by(500) {
                let next = step(settings, on(cylinder), Duration::from_micros(micros));
                match next {
                    PositioningStep::Go => {
                        assert!(cylinder <= 300, "to cylinder {cylinder} in one");
                    }
                    PositioningStep::Seek { to, .. } => {
                        let moved = profile.locate(to).cylinder;
                        assert!(moved <= 300, "by {moved} cylinders to {cylinder}");
                    }
                    PositioningStep::Wait(_) => {}
                    PositioningStep::Read(extent) => panic!("it has a seek command: {extent:?}"),
                }
            }
        }
    }

    #[test]
    fn ahead_moves_the_arm_in_the_slack_and_never_costs_a_revolution() {
        let settings = Preemptible { seek_split: None, ..Preemptible::default() };
        let profile = example_profile();
        for cylinder in (1..1_000).step_by(13) {
            let target = on(cylinder);
            let spot = profile.locate(target);
            let movement = profile.movement_time((0, 0), &spot, false);
            let period = profile.rotation_period.as_nanos();
            let after = |from: u64| {
                let due = spot.angle.time(profile.rotation_period).as_nanos();
                from + (due + (from / period + 2) * period - from) % period
            };
            let direct = after((profile.overheads.read + movement).as_nanos());
            let then = match step(settings, target, Duration::ZERO) {
                PositioningStep::Go => direct,
                PositioningStep::Seek { to, left: 0 } if to == target => {
                    let arrived = profile.overheads.seek + movement + profile.overheads.read;
                    after(arrived.as_nanos())
                }
                PositioningStep::Wait(until) => {
                    let arrived =
                        until + profile.overheads.seek + movement + profile.overheads.read;
                    after(arrived.as_nanos())
                }
                other @ (PositioningStep::Seek { .. } | PositioningStep::Read(_)) => {
                    panic!("{other:?}")
                }
            };
            assert_eq!(then, direct, "to cylinder {cylinder}");
        }
    }

    /// Sent then, the block comes under the heads on the target's track, early enough for the
    /// transfer that would have been made anyway.
    #[test]
    fn a_short_read_moves_the_arm_within_the_wait_and_never_costs_a_revolution() {
        let mut profile = example_profile();
        (profile.seek_command, profile.seek_variation) = (false, Duration::from_micros(200));
        let approach = Approach::ShortRead;
        let jit = Some(Jit { offset: Duration::ZERO, approach });
        let settings = Preemptible { jit, ..Preemptible::default() };
        let period = profile.rotation_period.as_nanos();
        let (mut reads, mut cases) = (0, 0);
        for cylinder in (1..1_000).step_by(7) {
            for (into, micros) in [(0, 0), (30, 2_500), (80, 7_300), (160, 9_900)] {
                let target = profile.first_lba_on(cylinder) + Sectors(into);
                let (spot, now) = (profile.locate(target), Duration::from_micros(micros));
                let movement = profile.movement_time((0, 0), &spot, false);
                cases += 1;
                let first = step_on(&profile, settings, target, now);
                let sent = if let PositioningStep::Wait(until) = first {
                    until.since(Instant::ZERO)
                } else {
                    now
                };
                let PositioningStep::Read(extent) = step_on(&profile, settings, target, sent)
                else {
                    continue;
                };
                reads += 1;
                let at = profile.locate(extent.start);
                assert_eq!((at.cylinder, at.surface), (spot.cylinder, spot.surface), "{target}");
                let next = |angle: Angle, from: u64| {
                    let due = angle.time(profile.rotation_period).as_nanos();
                    from + (due + (from / period + 2) * period - from) % period
                };
                assert!(extent.end() <= target, "in front of it: {extent:?}");
                // Three deviations late, of at most an eighth of the movement each.
                let late = sent + profile.overheads.read + movement;
                let late = late.as_nanos() + (movement.as_nanos() / 8).min(200_000) * 3;
                let read = next(at.angle, late) + profile.transfer_time(extent).as_nanos();
                let then = next(spot.angle, read + profile.overheads.read.as_nanos());
                let direct = now + profile.overheads.read + movement;
                assert_eq!(then, next(spot.angle, direct.as_nanos()), "to {target} at {now}");
            }
        }
        assert!(reads * 2 > cases, "{reads} of {cases} waits hide a short read");
    }

    use crate::Execution;
}
