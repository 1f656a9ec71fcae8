//! What an experiment holds its figures against.

use serde::Serialize;

/// One thing that was to hold; or, without a bound, one that is only told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Check {
    /// What was measured.
    pub(crate) name: String,
    /// What we got.
    pub(crate) ours: f64,
    /// The published figure, if there is one.
    pub(crate) paper: Option<f64>,
    /// Whether `ours` may be `at most` or must be `at least` the bound, or has to be `within` it of
    /// the published figure; `told` where there is none.
    pub(crate) relation: &'static str,
    /// The bound.
    pub(crate) bound: Option<f64>,
    /// The unit of all three.
    pub(crate) unit: &'static str,
    /// Whether it holds; nothing of what is only told.
    pub(crate) holds: Option<bool>,
    /// Why it does not hold, in words, where that is known, or what is to be said of what is only
    /// told. A check that does hold has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl Check {
    pub(super) fn at_most(
        name: impl Into<String>,
        ours: f64,
        bound: f64,
        unit: &'static str,
    ) -> Self {
        Self::new(name.into(), ours, None, ("at most", bound), unit, ours <= bound)
    }

    pub(super) fn at_least(
        name: impl Into<String>,
        ours: f64,
        bound: f64,
        unit: &'static str,
    ) -> Self {
        Self::new(name.into(), ours, None, ("at least", bound), unit, ours >= bound)
    }

    /// No further than `bound` from the published figure.
    pub(super) fn within(
        name: impl Into<String>,
        ours: f64,
        paper: f64,
        bound: f64,
        unit: &'static str,
    ) -> Self {
        let holds = (ours - paper).abs() <= bound;
        Self::new(name.into(), ours, Some(paper), ("within", bound), unit, holds)
    }

    /// The figure beside a published statement that gives no number.
    pub(super) fn told(
        name: impl Into<String>,
        ours: f64,
        unit: &'static str,
        remark: impl Into<String>,
    ) -> Self {
        let (name, reason) = (name.into(), Some(remark.into()));
        Self { name, ours, paper: None, relation: "told", bound: None, unit, holds: None, reason }
    }

    fn new(
        name: String,
        ours: f64,
        paper: Option<f64>,
        (relation, bound): (&'static str, f64),
        unit: &'static str,
        holds: bool,
    ) -> Self {
        let (bound, holds) = (Some(bound), Some(holds));
        Self { name, ours, paper, relation, bound, unit, holds, reason: None }
    }

    /// The same beside the published number, without a bound.
    pub(super) fn beside(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    /// The same with the reason, should it not hold.
    pub(super) fn or_because(mut self, reason: impl FnOnce() -> String) -> Self {
        self.reason = (self.holds == Some(false)).then(reason);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_within_its_bound_of_the_paper_s_on_both_sides() {
        let holds = |ours| Check::within("", ours, 10.0, 2.0, "ms").holds == Some(true);
        assert_eq!([7.9, 8.0, 12.0, 12.1].map(holds), [false, true, true, false]);
    }

    #[test]
    fn only_what_does_not_hold_has_a_reason() {
        let reason =
            |ours| Check::at_most("", ours, 1.0, "ms").or_because(|| "because".into()).reason;
        assert_eq!((reason(1.0), reason(2.0).as_deref()), (None, Some("because")));
    }
}
