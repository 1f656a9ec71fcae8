//! Switching costs: what serving several volumes costs, and the division of that cost (Zygaria,
//! RTAS 2008 §2.2).
//!
//! The first command of a preempted volume pays a seek that it would not have had alone: its
//! *return cost*. That cost is the price of sharing, so all active volumes pay it in proportion to
//! their disk time. A small share is then worth the same part of a whole disk as a large one; if
//! each volume paid its own return cost, a share of 20 % would pay as much per round as one of 80
//! %. A volume that became idle during its quantum pays for its own positioning when it returns.
//!
//! The return cost cannot be observed. It is taken to be the command's excess over the volume's
//! mean service time within a batch, and at most the estimate of a random access.
//!
//! Invariants: what is charged and what is still to be charged ([`SwitchCosts::uncharged`]) add up
//! to what commands took; what is still to be charged is not negative, and grows to one period's
//! worth at most.

use units::{DiskTime, Duration};

use crate::Settings;

/// The positioning that a command needs because of the volume served before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Positioning {
    /// The volume was served last: none.
    Continues,
    /// The volume was idle, or is served out of order: it pays itself.
    #[default]
    OwnCost,
    /// The volume was preempted: its return cost is shared.
    ReturnCost,
    /// The volume was preempted during a sequential run. The drive may have read ahead: then the
    /// return cost arises at a later command.
    ReturnToSequentialRun,
}

/// What a command is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) amount: DiskTime,
    /// Whether the command bore the return cost.
    pub(crate) had_return_cost: bool,
}

/// Return costs that have not been charged yet.
#[derive(Debug)]
pub(crate) struct SwitchCosts {
    uncharged: DiskTime,
    period: Duration,
    return_cost_max: DiskTime,
    /// Whether a command's service time is its own: with several in flight they cannot be told
    /// apart.
    one_at_a_time: bool,
}

/// The EWMA divisor of the mean service time: a command moves the mean by this fraction of its
/// error.
const MEAN_DIVISOR: i64 = 16;
/// A command of a sequential run needed a seek if it exceeded the mean by more than this fraction
/// of a random access: more than a track change, less than a seek and half a revolution.
const SEEK_DETECT_DIVISOR: i64 = 8;

impl SwitchCosts {
    pub(crate) fn new(settings: &Settings) -> Self {
        assert!(settings.period > Duration::ZERO, "costs are spread over a period");
        Self {
            uncharged: DiskTime::ZERO,
            period: settings.period,
            return_cost_max: settings.estimates.random,
            // Without batches every command is a quantum, and there is no mean to compare it with.
            one_at_a_time: settings.depth == 1 && settings.batch > Duration::ZERO,
        }
    }

    /// Takes over new settings. What is uncharged stays.
    pub(crate) fn change_settings(&mut self, settings: &Settings) {
        let before = self.uncharged;
        *self = Self { uncharged: before, ..Self::new(settings) };
        assert_eq!(self.uncharged, before, "uncharged costs survive a change");
    }

    /// What commands took and no volume has been charged yet: at most one period's worth.
    pub(crate) fn uncharged(&self) -> DiskTime {
        self.uncharged
    }

    /// The charge of a command that took `took`, of a volume with this mean service time (zero if
    /// it is unknown).
    pub(crate) fn charge(
        &mut self,
        positioning: Positioning,
        took: DiskTime,
        mean_service_time: &mut DiskTime,
    ) -> Charge {
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        if !self.one_at_a_time {
            return Charge { amount: took, had_return_cost: true };
        }
        let before = self.uncharged;
        let is_known = *mean_service_time > DiskTime::ZERO;
        let excess = took - *mean_service_time;
        let has_sought = excess.as_nanos() > self.return_cost_max.as_nanos() / SEEK_DETECT_DIVISOR;
        let positioning = match positioning {
            Positioning::ReturnToSequentialRun if is_known && has_sought => Positioning::ReturnCost,
            Positioning::ReturnToSequentialRun => Positioning::Continues,
            other => other,
        };
        let own = match positioning {
            Positioning::Continues => {
                let mean = if is_known { *mean_service_time } else { took };
                *mean_service_time = mean + part(took - mean, 1, MEAN_DIVISOR);
                took
            }
            Positioning::ReturnCost if is_known => {
                // A command that took less than the mean lowers the costs that are still to be
                // charged, and no more: what a volume is charged too much is never paid back.
                let room = (DiskTime::from(self.period) - self.uncharged).max(DiskTime::ZERO);
                let return_cost = excess.min(self.return_cost_max).min(room).max(-self.uncharged);
                self.uncharged += return_cost;
                took - return_cost
            }
            Positioning::OwnCost | Positioning::ReturnCost | Positioning::ReturnToSequentialRun => {
                took
            }
        };
        let period = i64::try_from(self.period.as_nanos()).expect("a period is short");
        let share =
            part(own, self.uncharged.as_nanos(), period).min(self.uncharged).max(DiskTime::ZERO);
        self.uncharged += -share;
        let amount = own + share;
        assert!(self.uncharged >= DiskTime::ZERO, "no more is charged than was taken");
        debug_assert!(amount >= DiskTime::ZERO, "a charge is not negative: {amount}");
        debug_assert!(*mean_service_time >= DiskTime::ZERO, "nor is a mean service time");
        assert_eq!(
            amount + self.uncharged,
            took + before,
            "what is charged and what is uncharged add up to what was taken"
        );
        Charge { amount, had_return_cost: positioning == Positioning::ReturnCost }
    }
}

/// `amount` · `of` ÷ `whole`.
fn part(amount: DiskTime, of: i64, whole: i64) -> DiskTime {
    assert!(whole > 0, "a whole is divided");
    let nanos = i128::from(amount.as_nanos()) * i128::from(of) / i128::from(whole);
    DiskTime::from_nanos(i64::try_from(nanos).expect("times are short"))
}
