//! Where the time of one request went.

use backend::Parts;
use units::Duration;

/// Where the time of one request went. Each moment is in one part: they add up to the whole, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// In the inbox of the disk's thread, from the beginning of the sockets' turn in which it came.
    pub inbox: Duration,
    /// While the disk served others, or was kept for one of them.
    pub others: Duration,
    /// While the disk idled because nobody who had work might have it.
    pub withheld: Duration,
    /// Held back although it was its turn, so that the head would arrive as its sector did.
    pub turning: Duration,
    /// In the drive, behind others there or for want of room in its memory.
    pub drive: Duration,
    /// In the drive: the electronics.
    pub overhead: Duration,
    /// In the drive: movements of the arm.
    pub seek: Duration,
    /// In the drive: until the sector was under the head.
    pub rotation: Duration,
    /// In the drive: the media and the bus.
    pub transfer: Duration,
    /// At a disk that does not tell what it did.
    pub disk: Duration,
    /// From when the drive was done to when that was noticed.
    pub late: Duration,
    /// From then until its answer was handed to the sockets' thread.
    pub reply: Duration,
}

/// A part of a breakdown.
pub type Part = fn(&Breakdown) -> Duration;

impl Breakdown {
    /// The parts by their names, in the order in which a request goes through them.
    pub const PARTS: [(&'static str, Part); 12] = [
        ("inbox", |b| b.inbox),
        ("others", |b| b.others),
        ("withheld", |b| b.withheld),
        ("turning", |b| b.turning),
        ("drive", |b| b.drive),
        ("overhead", |b| b.overhead),
        ("seek", |b| b.seek),
        ("rotation", |b| b.rotation),
        ("transfer", |b| b.transfer),
        ("disk", |b| b.disk),
        ("late", |b| b.late),
        ("reply", |b| b.reply),
    ];

    /// All of them.
    pub fn total(&self) -> Duration {
        let parts = Self::PARTS.iter().map(|(_, part)| part(self));
        parts.fold(Duration::ZERO, |sum, part| sum + part)
    }

    /// A command of the request has ended, noticed `late` after the drive was done: `time` of it was not accounted for yet.
    /// What came last is counted first: of commands side by side each takes what passed since the one before ended.
    pub(super) fn command(&mut self, parts: Option<Parts>, late: Duration, time: Duration) {
        let mut left = time;
        let mut take = |part: &mut Duration, most: Duration| {
            let taken = most.min(left);
            *part += taken;
            left = left.saturating_sub(taken);
        };
        take(&mut self.late, late);
        let Some(parts) = parts else { return take(&mut self.disk, Duration::MAX) };
        take(&mut self.transfer, parts.transfer);
        take(&mut self.rotation, parts.rotation);
        take(&mut self.seek, parts.seek);
        take(&mut self.overhead, parts.overhead);
        take(&mut self.drive, Duration::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn of_a_command_whose_time_is_partly_another_s_the_end_is_counted() {
        let parts =
            Parts { queue: ms(1), overhead: ms(2), seek: ms(4), rotation: ms(8), transfer: ms(16) };
        let mut whole = Breakdown::default();
        whole.command(Some(parts), ms(32), ms(63));
        let all =
            [whole.drive, whole.overhead, whole.seek, whole.rotation, whole.transfer, whole.late];
        assert_eq!(all, [1, 2, 4, 8, 16, 32].map(ms));
        let mut behind = Breakdown::default();
        behind.command(Some(parts), ms(32), ms(50));
        assert_eq!((behind.late, behind.transfer, behind.rotation), (ms(32), ms(16), ms(2)));
        assert_eq!((behind.seek, behind.total()), (ms(0), ms(50)));
        // Before it began, another of the same request's was there.
        let mut beside = Breakdown::default();
        beside.command(Some(parts), ms(0), ms(40));
        assert_eq!((beside.drive, beside.total()), (ms(10), ms(40)));
    }

    #[test]
    fn a_disk_that_does_not_tell_has_all_but_the_lateness() {
        let mut breakdown = Breakdown::default();
        breakdown.command(None, ms(3), ms(10));
        assert_eq!((breakdown.disk, breakdown.late, breakdown.total()), (ms(7), ms(3), ms(10)));
    }
}
