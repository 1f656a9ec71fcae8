//! Checks: an experiment's figures compared with bounds and published figures.

use serde::Serialize;

/// One figure with its bound, or without a bound one that is only reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Check {
    /// The name of the figure.
    pub(crate) name: String,
    /// The measured figure.
    pub(crate) ours: f64,
    /// The published figure, if there is one.
    pub(crate) paper: Option<f64>,
    /// `at most` or `at least`: `ours` is compared with the bound. `within`: `ours` may differ from
    /// the published figure by the bound. `told`: there is no bound. `wanted`: the bound need not
    /// hold yet.
    pub(crate) relation: &'static str,
    /// The bound.
    pub(crate) bound: Option<f64>,
    /// The unit of `ours`, `paper` and `bound`.
    pub(crate) unit: &'static str,
    /// Whether the check holds; `None` without a bound that must hold.
    pub(crate) holds: Option<bool>,
    /// The known reason why the check does not hold, or a remark on a figure without a bound.
    /// `None` if the check holds.
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

    /// A figure that may differ from the published one by at most `bound`.
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

    /// A figure without a bound, with a remark: the publication gives no number for it.
    pub(super) fn unbounded(
        name: impl Into<String>,
        ours: f64,
        unit: &'static str,
        remark: impl Into<String>,
    ) -> Self {
        let (name, reason) = (name.into(), Some(remark.into()));
        Self { name, ours, paper: None, relation: "told", bound: None, unit, holds: None, reason }
    }

    /// The figure beside a bound that is wanted of it and that it need not keep yet.
    pub(super) fn wanted(
        name: impl Into<String>,
        ours: f64,
        bound: (&'static str, f64),
        unit: &'static str,
    ) -> Self {
        Self { holds: None, ..Self::new(name.into(), ours, None, bound, unit, false) }
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

    /// Adds the published figure, which is shown and not compared.
    pub(super) fn beside(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    /// Adds the reason if the check does not hold.
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
