//! The way back: what it costs that volumes take turns, and who pays for it (RTAS 2008 §2.2).
//!
//! When the arm is taken from a volume that had more to do, its next command has a way to go that it would not have had
//! alone. That way is nobody's doing: it is the price of sharing, and all who share pay it, each in proportion to the
//! disk time that it has. So a small share is worth its part of a whole disk as a large one is; if each paid for its
//! own way back, a fifth of a disk would pay as much a round as four fifths. A volume that gave the arm up because it
//! had nothing to do comes back on its own account.
//!
//! How long the way was, nobody can see. It is taken to be what the command took above what the volume's commands take
//! on the mean while it has the arm, and never more than a random request.
//!
//! Invariant: what is charged and what is still to be charged ([`SwitchCosts::uncharged`]) add up to what was taken.

use units::{DiskTime, Duration};

use crate::Settings;

/// How a command's volume came to the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positioning {
    /// It had it.
    Continues,
    /// It came of itself.
    #[default]
    OwnCost,
    /// It came back to what it had been doing when the arm was taken from it.
    ReturnCost,
    /// The same, on a run: what the drive has read ahead is there without a way, which then comes later.
    ReturnToSequentialRun,
}

/// What a command is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) amount: DiskTime,
    /// Whether it was the one that had the way back to go.
    pub(crate) was_way: bool,
}

/// SwitchCosts back that have not been charged yet.
#[derive(Debug)]
pub(crate) struct SwitchCosts {
    pool: DiskTime,
    period: Duration,
    way_max: DiskTime,
    /// Whether a command's time is its own: with several in the drive at a time nobody can tell them apart.
    one_at_a_time: bool,
}

/// A command moves its volume's mean by one part of so many.
const MEMORY: i64 = 16;
/// A command on a run has moved the arm if it took longer than the mean by one part of so many of a random request:
/// more than a change of track, less than a seek and half a turn.
const MOVED: i64 = 8;

impl SwitchCosts {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            pool: DiskTime::ZERO,
            period: settings.period,
            way_max: settings.estimates.random,
            // Without batches every command is a turn: there is no mean to hold its way against.
            one_at_a_time: settings.depth == 1 && settings.batch > Duration::ZERO,
        }
    }

    /// What is to be charged still is.
    pub(crate) fn change_settings(&mut self, settings: &Settings) {
        *self = Self { pool: self.pool, ..Self::new(settings) };
    }

    /// What was taken and not charged to anybody yet; below nothing if more was charged.
    pub(crate) fn uncharged(&self) -> DiskTime {
        self.pool
    }

    /// What a command is charged that took `took`, of a volume whose commands usually take `usual`.
    pub(crate) fn charge(
        &mut self,
        way: Positioning,
        took: DiskTime,
        usual: &mut DiskTime,
    ) -> Charge {
        if !self.one_at_a_time {
            return Charge { amount: took, was_way: true };
        }
        let known = *usual > DiskTime::ZERO;
        let moved = (took - *usual).as_nanos() > self.way_max.as_nanos() / MOVED;
        let way = match way {
            Positioning::ReturnToSequentialRun if known && moved => Positioning::ReturnCost,
            Positioning::ReturnToSequentialRun => Positioning::Continues,
            other => other,
        };
        let own = match way {
            Positioning::Continues => {
                let before = if known { *usual } else { took };
                *usual = before + part(took - before, 1, MEMORY);
                took
            }
            Positioning::ReturnCost if known => {
                let way = (took - *usual).min(self.way_max);
                self.pool += way;
                took - way
            }
            Positioning::OwnCost | Positioning::ReturnCost | Positioning::ReturnToSequentialRun => {
                took
            }
        };
        let period = i64::try_from(self.period.as_nanos()).expect("a period is short");
        let share = part(own, self.pool.as_nanos(), period).min(self.pool).max(DiskTime::ZERO);
        self.pool += -share;
        Charge { amount: own + share, was_way: way == Positioning::ReturnCost }
    }
}

/// `amount` · `of` ÷ `whole`.
fn part(amount: DiskTime, of: i64, whole: i64) -> DiskTime {
    let nanos = i128::from(amount.as_nanos()) * i128::from(of) / i128::from(whole);
    DiskTime::from_nanos(i64::try_from(nanos).expect("times are short"))
}
