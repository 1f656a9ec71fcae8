//! A drive whose time runs at a share of wall time: every service time, the rotation included, is
//! divided by the share.
//!
//! ```text
//! wall time w ── ⌊w · share⌋ ──▶ model time m ── ⌈m / share⌉ ──▶ the first wall time at m
//! ```
//!
//! Invariant: both conversions are monotone, and the second is the exact inverse of the first
//! (⌊⌈m / share⌉ · share⌋ = m for a share of at most 1). So a command completes at the first wall
//! nanosecond at which the model's time has come, and rounding does not accumulate. At a share of 1
//! both are the identity.

use units::{Duration, Instant, Share};

use crate::completion::{Done, Parts, Tag};

/// The clock of a drive that is slowed to a share of its speed: between wall time and the time of
/// its model.
#[derive(Clone, Debug)]
pub struct SlowedClock {
    share: Share,
    /// The commands in the drive, with the wall time of their submission.
    submitted: Vec<(Tag, Instant)>,
}

impl SlowedClock {
    /// The clock of an idle drive, slowed to `share` of its speed.
    ///
    /// # Panics
    /// If the share is zero.
    pub(crate) fn new(share: Share) -> Self {
        assert!(!share.is_none(), "a drive that stands still completes nothing");
        Self { share, submitted: Vec::new() }
    }

    /// A command is submitted at `now`, in wall time; returns the model time.
    pub(crate) fn submitted(&mut self, now: Instant, tag: Tag) -> Instant {
        self.submitted.push((tag, now));
        self.model_time(now)
    }

    /// The completion of a command, from model time to wall time.
    ///
    /// # Panics
    /// If the command was not submitted.
    pub(crate) fn completed(&mut self, done: Done) -> Done {
        let index = self.submitted.iter().position(|(tag, _)| *tag == done.tag);
        let index = index.expect("a command that completes was submitted");
        let (_, submitted) = self.submitted.swap_remove(index);
        self.in_wall_time(done, submitted)
    }

    /// The completion, in wall time, of a command that will be done.
    ///
    /// # Panics
    /// If the command was not submitted.
    pub(crate) fn expected(&self, done: Done) -> Done {
        let submitted = self.submitted.iter().find(|(tag, _)| *tag == done.tag);
        let (_, at) = submitted.expect("a command in service was submitted");
        self.in_wall_time(done, *at)
    }

    /// A time of the model as wall time, rounded up.
    pub(crate) fn stretched(&self, time: Duration) -> Duration {
        self.share.stretched(time)
    }

    /// The completion in wall time. Each part ends at the first wall time at which it has ended in
    /// model time, so that the parts still add up to the response time.
    fn in_wall_time(&self, done: Done, submitted: Instant) -> Done {
        let Done { tag, at, parts } = done;
        let (mut model, mut wall) = (at.saturating_sub(parts.sum()), submitted);
        let mut part = |length: Duration| {
            model += length;
            // The submission may lie within the nanosecond of the model's time.
            let end = self.wall_time(model).max(wall);
            let part = end.since(wall);
            wall = end;
            part
        };
        let parts = Parts {
            queue: part(parts.queue),
            overhead: part(parts.overhead),
            seek: part(parts.seek),
            rotation: part(parts.rotation),
            transfer: part(parts.transfer),
        };
        Done { tag, at: wall, parts }
    }

    /// Rounded down.
    pub(crate) fn model_time(&self, wall: Instant) -> Instant {
        let passed = self.share.of(wall.since(Instant::ZERO)).as_nanos();
        let passed = u64::try_from(passed).expect("time does not run backwards");
        Instant::ZERO + Duration::from_nanos(passed)
    }

    /// Rounded up.
    pub(crate) fn wall_time(&self, model: Instant) -> Instant {
        Instant::ZERO + self.share.stretched(model.since(Instant::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::device_properties::{Step, step};
    use crate::device_tests::{at, model, us};
    use crate::flash::tests::spec as flash;
    use crate::{AnyDevice, Device, FlashDevice};

    fn mechanical() -> AnyDevice {
        let model = model(|spec| spec.queue_depth_max = 64);
        AnyDevice::Mechanical(Device::new(model))
    }

    fn devices() -> [AnyDevice; 2] {
        let flash = Arc::new(flash().check().expect("a drive"));
        [mechanical(), AnyDevice::Flash(FlashDevice::new(flash))]
    }

    /// The completions of the steps, with think times multiplied by `times`, and the instants of
    /// their submission.
    fn play(mut device: AnyDevice, steps: &[Step], times: u64) -> Vec<(Instant, Done)> {
        let (mut now, mut all, mut submitted) = (at(0), Vec::new(), Vec::new());
        for (tag, step) in (0..).zip(steps) {
            now += us(step.think) * times;
            device.submit(now, Tag(tag), step.operation);
            submitted.push(now);
        }
        while let Some(end) = device.next_completion() {
            now = now.max(end);
            while let Some(done) = device.complete(now) {
                let index = usize::try_from(done.tag.0).expect("a few");
                all.push((submitted[index], done));
            }
        }
        all
    }

    fn doubled(done: Done) -> Done {
        let Done { tag, at, parts: Parts { queue, overhead, seek, rotation, transfer } } = done;
        let parts = Parts {
            queue: queue * 2,
            overhead: overhead * 2,
            seek: seek * 2,
            rotation: rotation * 2,
            transfer: transfer * 2,
        };
        Done { tag, at: at + at.since(Instant::ZERO), parts }
    }

    #[test]
    fn a_completion_is_at_the_first_wall_nanosecond_of_its_model_time() {
        for ppb in [10_000_000, 333_333_333, 500_000_000, 999_999_999] {
            let slowed = SlowedClock::new(Share::from_ppb(ppb));
            for nanos in (0..2_000).chain(8_333_333_000..8_333_334_000) {
                let model = Instant::from_nanos(nanos);
                let wall = slowed.wall_time(model);
                assert_eq!(slowed.model_time(wall), model, "{ppb}");
                let before = wall.saturating_sub(Duration::from_nanos(1));
                assert!(wall == Instant::ZERO || slowed.model_time(before) < model, "{ppb}");
            }
        }
    }

    proptest! {
        #[test]
        fn at_half_speed_everything_takes_exactly_twice_as_long(
            steps in proptest::collection::vec(step(), 1..40),
        ) {
            for device in devices() {
                let full = play(device.clone(), &steps, 1);
                let full = full.into_iter().map(|(_, done)| doubled(done));
                let half = play(device.slowed(Share::from_percent(50)), &steps, 2);
                let half = half.into_iter().map(|(_, done)| done);
                prop_assert_eq!(full.collect::<Vec<_>>(), half.collect::<Vec<_>>());
            }
        }

        #[test]
        fn at_full_speed_nothing_changes(steps in proptest::collection::vec(step(), 1..40)) {
            for device in devices() {
                let full = play(device.clone(), &steps, 1);
                prop_assert_eq!(full, play(device.slowed(Share::ALL), &steps, 1));
            }
        }

        #[test]
        fn at_any_speed_completions_follow_their_submission_and_parts_add_up(
            steps in proptest::collection::vec(step(), 1..40),
            ppb in 10_000_000_u32..1_000_000_000,
        ) {
            for device in devices() {
                let all = play(device.slowed(Share::from_ppb(ppb)), &steps, 1);
                prop_assert_eq!(all.len(), steps.len());
                let mut before = Instant::ZERO;
                for (submitted, done) in all {
                    prop_assert!(done.at >= before, "{:?}", done);
                    prop_assert_eq!(done.parts.sum(), done.at.since(submitted));
                    before = done.at;
                }
            }
        }
    }
}
