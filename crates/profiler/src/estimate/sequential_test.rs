//! Questions that noise may answer wrongly: they are put again until one answer leads, and how often answers were outvoted
//! says how sure all of it is.

use units::Share;

use crate::bench::StopReason;
use crate::estimate::number::round_u32;
use drive_profile::findings::Figure;

/// By how many answers one side has to lead, by default and at a glance.
const LEAD: [u32; 2] = [2, 1];
/// How often a question is put at most.
const ASKED_MAX: u32 = 11;
/// Nobody is surer than that, nor less sure: in percent.
const SURE: (f64, f64) = (99.0, 1.0);

/// What was asked and answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequentialTest {
    /// By how many answers one side has to lead.
    lead: u32,
    questions: u32,
    answers: u32,
    outvoted: u32,
}

impl SequentialTest {
    /// None yet.
    pub(crate) fn new(quick: bool) -> Self {
        Self { lead: LEAD[usize::from(quick)], questions: 0, answers: 0, outvoted: 0 }
    }

    /// Whether the answer to a question is yes; it is put again while neither side leads by enough.
    pub(crate) fn mostly(
        &mut self,
        mut ask: impl FnMut() -> Result<bool, StopReason>,
    ) -> Result<bool, StopReason> {
        let (mut yes, mut no) = (0_u32, 0_u32);
        while yes.abs_diff(no) < self.lead && yes + no < ASKED_MAX {
            if ask()? { yes += 1 } else { no += 1 }
        }
        self.questions += 1;
        self.answers += yes + no;
        self.outvoted += yes.min(no);
        Ok(yes > no)
    }

    /// The largest number of whole units up to `most` for which the answer is yes, if it is yes for all smaller ones; to a
    /// unit, or to its `fine`-th part.
    pub(crate) fn largest(
        &mut self,
        unit: u64,
        (most, fine): (u64, u64),
        mut ask: impl FnMut(u64) -> Result<bool, StopReason>,
    ) -> Result<u64, StopReason> {
        let mut low = 0;
        let mut high = unit;
        while high <= most && self.mostly(|| ask(high))? {
            low = high;
            high *= 2;
        }
        while high - low > unit.max(low / fine / unit * unit) {
            let middle = low.midpoint(high) / unit * unit;
            let yes = middle <= most && self.mostly(|| ask(middle))?;
            (low, high) = if yes { (middle, high) } else { (low, middle) };
        }
        Ok(low)
    }

    /// How sure it is that no question was decided wrongly, if answers are wrong as often as they were outvoted.
    fn sure(&self) -> Share {
        let wrong = (f64::from(self.outvoted) + 0.5) / (f64::from(self.answers) + 1.0);
        let odds = wrong / (1.0 - wrong).max(wrong);
        let decided = (0..self.lead).fold(1.0, |chance, _| chance * odds);
        let right = 1.0 - f64::from(self.questions) * decided / (1.0 + decided);
        Share::from_percent(round_u32((right * 100.0).floor().clamp(SURE.1, SURE.0)))
    }

    /// What was found by all that was asked since the last figure.
    pub(crate) fn figure<T>(&mut self, value: T, spread: T) -> Figure<T> {
        let (samples, confidence) = (self.answers, self.sure());
        (self.questions, self.answers, self.outvoted) = (0, 0, 0);
        Figure { value, spread, samples, confidence }
    }
}

/// As many whole blocks as eight sectors have, or one.
pub(crate) const fn unit(block: u64) -> u64 {
    let eight = 8 / block * block;
    if eight > block { eight } else { block }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found_to_its_last_unit_or_a_small_part() {
        for limit in [0_u64, 1, 2, 3, 63, 64, 100, 255] {
            let mut test = SequentialTest::new(false);
            let found = test.largest(1, (1_000_000, 256), |asked| Ok(asked <= limit));
            assert_eq!(found.expect("in time"), limit);
            assert!(test.figure(0, 0).confidence >= Share::from_percent(95));
        }
        let mut test = SequentialTest::new(true);
        let found = test.largest(8, (1_000_000, 256), |asked| Ok(asked <= 70_000));
        let found = found.expect("in time");
        assert!((69_700..=70_000).contains(&found), "{found}");
        assert_eq!(test.largest(1, (64, 256), |_| Ok(true)).expect("in time"), 64);
    }

    #[test]
    fn an_answer_in_ten_that_is_wrong_is_outvoted_and_costs_confidence() {
        let mut test = SequentialTest::new(false);
        let mut nth = 0;
        let found = test.largest(1, (1_000_000, 256), |asked| {
            nth += 1;
            Ok((asked <= 100) != (nth % 10 == 0))
        });
        assert_eq!(found.expect("in time"), 100);
        let sure = test.figure(0, 0).confidence;
        assert!(sure < Share::from_percent(95), "{sure}");
    }
}
