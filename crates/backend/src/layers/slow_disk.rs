//! The rule by which a slow disk is taken for a failed one.
//!
//! A disk of a mirror that answers after seconds, or not at all, keeps each write of the mirror
//! waiting, though another disk has answered. A single slow answer is no failure: a drive tries a
//! bad sector again for some seconds. So a disk is slow if [`SLOW_IN_A_ROW`] commands in a row
//! were, or if one has been without an answer for [`STALLED_TIMES`] as long.

use units::Duration;

/// Slow answers in a row that make the disk slow.
pub const SLOW_IN_A_ROW: u32 = 16;
/// A command that has had no answer for this many times the length of a slow one stalls the disk.
pub const STALLED_TIMES: u64 = 10;

/// Why a disk is taken for a failed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowDisk {
    /// Its last [`SLOW_IN_A_ROW`] answers each took at least this long.
    Slow(Duration),
    /// A command has had no answer for this long.
    Stalled(Duration),
}

impl core::fmt::Display for SlowDisk {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Slow(after) => {
                write!(f, "its last {SLOW_IN_A_ROW} commands each took at least {after}")
            }
            Self::Stalled(age) => write!(f, "a command has had no answer for {age}"),
        }
    }
}

/// The rule, and the slow answers so far.
#[derive(Clone, Copy, Debug)]
pub struct SlowDiskRule {
    after: Duration,
    in_a_row: u32,
}

impl SlowDiskRule {
    /// A command is slow from `after` on, which is above zero.
    pub const fn new(after: Duration) -> Self {
        Self { after, in_a_row: 0 }
    }

    /// A command was answered after `took`.
    pub(super) fn answered(&mut self, took: Duration) {
        let in_a_row = self.in_a_row.saturating_add(1);
        self.in_a_row = if took >= self.after { in_a_row } else { 0 };
    }

    /// The disk was opened again.
    pub(super) fn reset(&mut self) {
        self.in_a_row = 0;
    }

    /// Whether the disk is slow; `oldest` is the age of its oldest command without an answer.
    pub(super) fn verdict(&self, oldest: Option<Duration>) -> Option<SlowDisk> {
        assert!(self.after > Duration::ZERO, "each answer takes some time");
        if let Some(age) = oldest.filter(|age| *age >= self.after * STALLED_TIMES) {
            return Some(SlowDisk::Stalled(age));
        }
        (self.in_a_row >= SLOW_IN_A_ROW).then_some(SlowDisk::Slow(self.after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(2);

    #[test]
    fn a_disk_is_slow_after_sixteen_slow_answers_in_a_row() {
        let mut rule = SlowDiskRule::new(AFTER);
        for _ in 1..SLOW_IN_A_ROW {
            rule.answered(AFTER);
        }
        assert_eq!(rule.verdict(None), None);
        rule.answered(Duration::from_millis(8));
        rule.answered(AFTER);
        assert_eq!(rule.verdict(None), None, "one was quick");
        for _ in 1..SLOW_IN_A_ROW {
            rule.answered(AFTER);
        }
        assert_eq!(rule.verdict(None), Some(SlowDisk::Slow(AFTER)));
        rule.reset();
        assert_eq!(rule.verdict(None), None);
    }

    #[test]
    fn a_single_command_stalls_a_disk_only_after_ten_times_as_long() {
        let rule = SlowDiskRule::new(AFTER);
        assert_eq!(rule.verdict(Some(Duration::from_millis(19_999))), None);
        let age = Duration::from_secs(20);
        assert_eq!(rule.verdict(Some(age)), Some(SlowDisk::Stalled(age)));
    }
}
