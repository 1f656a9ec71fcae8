//! The parts of one request's time.

use backend::Parts;
use units::Duration;

/// Where the time of one request went. Each instant is in one part: the parts add up to the whole,
/// to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// In the inbox of the disk's thread, from the start of the event-loop iteration that received
    /// it.
    pub inbox: Duration,
    /// While the disk served other requests, or was kept idle for another volume.
    pub queued_behind: Duration,
    /// While the disk was idle because no volume with requests was eligible.
    pub throttled: Duration,
    /// Selected, but delayed so that the head arrives just in time for its sector.
    pub rotational_wait: Duration,
    /// In the drive, queued behind other commands or waiting for buffer space.
    pub drive: Duration,
    /// In the drive: the command overhead.
    pub overhead: Duration,
    /// In the drive: seeks.
    pub seek: Duration,
    /// In the drive: rotational latency.
    pub rotation: Duration,
    /// In the drive: the transfer from or to the media and the bus.
    pub transfer: Duration,
    /// In a disk that does not report the parts of its service time.
    pub disk: Duration,
    /// From the completion to when it was noticed.
    pub late: Duration,
    /// From then until the reply was handed to the server.
    pub reply: Duration,
}

/// A part of a breakdown.
pub type Part = fn(&Breakdown) -> Duration;

impl Breakdown {
    /// The parts by name, in the order in which a request passes through them.
    pub const PARTS: [(&'static str, Part); 12] = [
        ("inbox", |b| b.inbox),
        ("queued_behind", |b| b.queued_behind),
        ("throttled", |b| b.throttled),
        ("rotational_wait", |b| b.rotational_wait),
        ("drive", |b| b.drive),
        ("overhead", |b| b.overhead),
        ("seek", |b| b.seek),
        ("rotation", |b| b.rotation),
        ("transfer", |b| b.transfer),
        ("disk", |b| b.disk),
        ("late", |b| b.late),
        ("reply", |b| b.reply),
    ];

    /// The names that parts had in earlier versions, which `parts_ns` of a report still uses.
    pub const OLD_NAMES: [(&'static str, &'static str); 3] =
        [("queued_behind", "others"), ("throttled", "withheld"), ("rotational_wait", "turning")];

    /// The sum of all parts.
    pub fn total(&self) -> Duration {
        let parts = Self::PARTS.iter().map(|(_, part)| part(self));
        parts.fold(Duration::ZERO, |sum, part| sum + part)
    }

    /// Accounts for `time` of a command that has completed `late` before this was noticed. The end
    /// of the command is counted first: of concurrent commands, each accounts for the time since
    /// the previous completion.
    pub(super) fn add_command(&mut self, parts: Option<Parts>, late: Duration, time: Duration) {
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
        debug_assert_eq!(left, Duration::ZERO, "all of the command's time is in one part");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_command_that_overlaps_another_is_counted_from_its_end() {
        let parts =
            Parts { queue: ms(1), overhead: ms(2), seek: ms(4), rotation: ms(8), transfer: ms(16) };
        let mut whole = Breakdown::default();
        whole.add_command(Some(parts), ms(32), ms(63));
        let all =
            [whole.drive, whole.overhead, whole.seek, whole.rotation, whole.transfer, whole.late];
        assert_eq!(all, [1, 2, 4, 8, 16, 32].map(ms));
        let mut behind = Breakdown::default();
        behind.add_command(Some(parts), ms(32), ms(50));
        assert_eq!((behind.late, behind.transfer, behind.rotation), (ms(32), ms(16), ms(2)));
        assert_eq!((behind.seek, behind.total()), (ms(0), ms(50)));
        // Another command of the same request completed before this one began.
        let mut beside = Breakdown::default();
        beside.add_command(Some(parts), ms(0), ms(40));
        assert_eq!((beside.drive, beside.total()), (ms(10), ms(40)));
    }

    #[test]
    fn without_the_drive_s_report_all_but_the_lateness_is_disk_time() {
        let mut breakdown = Breakdown::default();
        breakdown.add_command(None, ms(3), ms(10));
        assert_eq!((breakdown.disk, breakdown.late, breakdown.total()), (ms(7), ms(3), ms(10)));
    }
}
