//! Sequential tests of questions with noisy answers: a question is repeated until one answer leads,
//! and the share of outvoted answers gives the confidence.

use units::Share;

use crate::bench::StopReason;
use crate::estimate::number::round_u32;
use drive_profile::findings::Figure;

/// The lead at which a question is decided, of a full and of a quick profile.
const LEAD: [u32; 2] = [2, 1];
/// The most repetitions of a question.
const REPETITIONS_MAX: u32 = 11;
/// The highest and the lowest confidence, in per cent.
const CONFIDENCE_PERCENT: (f64, f64) = (99.0, 1.0);

/// The questions and answers so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequentialTest {
    /// The lead at which a question is decided.
    lead: u32,
    questions: u32,
    answers: u32,
    outvoted: u32,
}

impl SequentialTest {
    /// A test without answers.
    pub(crate) fn new(quick: bool) -> Self {
        Self { lead: LEAD[usize::from(quick)], questions: 0, answers: 0, outvoted: 0 }
    }

    /// Whether the answer to a question is yes. The question is repeated until one answer leads.
    pub(crate) fn majority(
        &mut self,
        mut answer: impl FnMut() -> Result<bool, StopReason>,
    ) -> Result<bool, StopReason> {
        let (mut yes, mut no) = (0_u32, 0_u32);
        while yes.abs_diff(no) < self.lead && yes + no < REPETITIONS_MAX {
            if answer()? { yes += 1 } else { no += 1 }
        }
        self.questions += 1;
        self.answers += yes + no;
        self.outvoted += yes.min(no);
        Ok(yes > no)
    }

    /// The largest number of whole units up to `most` for which the answer is yes, if it is yes for
    /// all smaller ones, to a unit or to a `fine`-th part of the number.
    pub(crate) fn largest(
        &mut self,
        unit: u64,
        (most, fine): (u64, u64),
        mut answer: impl FnMut(u64) -> Result<bool, StopReason>,
    ) -> Result<u64, StopReason> {
        let mut low = 0;
        let mut high = unit;
        while high <= most && self.majority(|| answer(high))? {
            low = high;
            high *= 2;
        }
        while high - low > unit.max(low / fine / unit * unit) {
            let middle = low.midpoint(high) / unit * unit;
            let yes = middle <= most && self.majority(|| answer(middle))?;
            (low, high) = if yes { (middle, high) } else { (low, middle) };
        }
        Ok(low)
    }

    /// The probability that no question was decided wrongly, with the share of outvoted answers as
    /// the error rate.
    fn confidence(&self) -> Share {
        let wrong = (f64::from(self.outvoted) + 0.5) / (f64::from(self.answers) + 1.0);
        let odds = wrong / (1.0 - wrong).max(wrong);
        let decided = (0..self.lead).fold(1.0, |chance, _| chance * odds);
        assert!(self.outvoted <= self.answers, "outvoted answers are answers");
        let right = 1.0 - f64::from(self.questions) * decided / (1.0 + decided);
        Share::from_percent(round_u32(
            (right * 100.0).floor().clamp(CONFIDENCE_PERCENT.1, CONFIDENCE_PERCENT.0),
        ))
    }

    /// A figure with the samples and the confidence of all questions since the last figure.
    pub(crate) fn figure<T>(&mut self, value: T, spread: T) -> Figure<T> {
        let (samples, confidence) = (self.answers, self.confidence());
        (self.questions, self.answers, self.outvoted) = (0, 0, 0);
        Figure { value, spread, samples, confidence }
    }
}

/// The blocks of eight sectors, at least one, in sectors.
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
        let confidence = test.figure(0, 0).confidence;
        assert!(confidence < Share::from_percent(95), "{confidence}");
    }
}
