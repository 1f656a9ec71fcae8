//! The page of metrics: one line each, in the order of `/metrics`.

use core::fmt::Write as _;

use crate::markdown::{cell, head, paragraph};

pub(crate) fn page() -> String {
    let mut text = head("Metrics", "`crates/api/src/metrics.rs`");
    text.push_str(&paragraph(
        "Every metric of `/metrics`, in Prometheus' text format. \
         [Monitoring](../guide/monitoring.md) says how they are scraped and counted.",
    ));
    text.push_str("\n| name | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in api::metrics() {
        let (name, kind, labels) = (&metric.name, metric.kind.as_str(), metric.labels.join(", "));
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {} |", cell(metric.help));
    }
    text
}
