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
    /// What follows from that: only `missed` is a failure.
    pub(crate) verdict: Verdict,
    /// Why a known miss is one, what is wrong with the list of known misses, or a remark on a
    /// figure without a bound. `None` if the check holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// What follows from a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// The bound is kept.
    Held,
    /// It is not; or the list of known misses says that it is not, and it is.
    Missed,
    /// It is not, as the list of known misses says.
    Known,
    /// There is no bound.
    Told,
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
        let (paper, bound, holds, verdict) = (None, None, None, Verdict::Told);
        Self { name, ours, paper, relation: "told", bound, unit, holds, verdict, reason }
    }

    /// The figure beside a bound that is wanted of it and that it need not keep yet.
    pub(super) fn wanted(
        name: impl Into<String>,
        ours: f64,
        bound: (&'static str, f64),
        unit: &'static str,
    ) -> Self {
        let check = Self::new(name.into(), ours, None, bound, unit, false);
        Self { holds: None, verdict: Verdict::Told, ..check }
    }

    fn new(
        name: String,
        ours: f64,
        paper: Option<f64>,
        (relation, bound): (&'static str, f64),
        unit: &'static str,
        holds: bool,
    ) -> Self {
        let verdict = if holds { Verdict::Held } else { Verdict::Missed };
        let (bound, holds) = (Some(bound), Some(holds));
        Self { name, ours, paper, relation, bound, unit, holds, verdict, reason: None }
    }

    /// Adds the published figure, which is shown and not compared.
    pub(super) fn beside(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    /// By how much `figure` misses the bound; not positive if it does not.
    pub(super) fn missed_by(&self, figure: f64) -> f64 {
        let bound = self.bound.unwrap_or_default();
        match self.relation {
            "at most" => figure - bound,
            "at least" => bound - figure,
            _ => (figure - self.paper.unwrap_or_default()).abs() - bound,
        }
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
    fn a_miss_has_a_size_whatever_its_bound() {
        let checks = [
            Check::at_most("", 3.0, 1.0, "ms"),
            Check::at_least("", 1.0, 3.0, "ms"),
            Check::within("", 13.0, 10.0, 1.0, "ms"),
        ];
        let sizes = checks.map(|check| check.missed_by(check.ours));
        assert!(sizes.iter().all(|size| (size - 2.0).abs() < 1e-9), "{sizes:?}");
    }
}
