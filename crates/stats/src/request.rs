//! One request, and where its time went: a line of the slow-request log, or of whoever looks on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// One request, and where its time went. Times are whole nanoseconds, so that they add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// The version of this shape.
    pub schema: u32,
    /// The connection and the request's number on it, or `piece:N` of a pool's, or `erasure`.
    pub id: String,
    /// Whose it was; the disk's name in brackets where it is no volume's.
    pub volume: String,
    /// The disk.
    pub disk: String,
    /// What it did.
    pub op: String,
    /// Its first sector, of the disk.
    pub sector: u64,
    /// How many it covers.
    pub sectors: u64,
    /// Whether it was to be durable.
    pub fua: bool,
    /// When it was answered, since the daemon's start.
    pub at_ns: u64,
    /// Whether the disk could not.
    pub failed: bool,
    /// How many commands it was.
    pub commands: u32,
    /// From its arrival to its answer.
    pub total_ns: u64,
    /// Where that went, by the names of the parts: they add up to it.
    pub parts_ns: BTreeMap<String, u64>,
    /// Who was served while `others` were, longest first, as far as it is known.
    pub served: Vec<MeanwhileReport>,
    /// Why the disk was withheld, if it was: `limit`, `deadlines` or `policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld_by: Option<String>,
}

/// Somebody who was served meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeanwhileReport {
    /// Which volume.
    pub volume: String,
    /// For how long.
    pub ns: u64,
}

/// Requests that were not told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedReport {
    /// The version of this shape.
    pub schema: u32,
    /// How many, since the last line.
    pub dropped: u64,
}

impl RequestReport {
    /// In the order in which a request goes through them.
    const PARTS: [&'static str; 12] = [
        "inbox", "others", "withheld", "turning", "drive", "overhead", "seek", "rotation",
        "transfer", "disk", "late", "reply",
    ];

    /// One line for people: parts that are nothing are left out, milliseconds have three digits.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn line(&self) -> String {
        let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        let (fua, failed) =
            (if self.fua { " forced" } else { "" }, if self.failed { " FAILED" } else { "" });
        let mut line = format!(
            "{} {} on {}: {} of {} sectors at {}{fua}{failed} took {} ms:",
            self.id,
            self.volume,
            self.disk,
            self.op,
            self.sectors,
            self.sector,
            ms(self.total_ns)
        );
        let mut between = "";
        for name in Self::PARTS {
            let part = self.parts_ns.get(name).copied().unwrap_or(0);
            if part == 0 {
                continue;
            }
            write!(line, "{between} {name} {}", ms(part)).expect("a string takes everything");
            between = ",";
            if name == "others" && !self.served.is_empty() {
                let served = self.served.iter().map(|one| format!("{} {}", one.volume, ms(one.ns)));
                write!(line, " ({})", served.collect::<Vec<_>>().join(", ")).expect("as above");
            }
            if let Some(by) = self.withheld_by.as_ref().filter(|_| name == "withheld") {
                write!(line, " (by {by})").expect("as above");
            }
        }
        let commands = self.commands;
        write!(line, "; {commands} command{}", if commands == 1 { "" } else { "s" })
            .expect("as above");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_waited_for_whom_and_leaves_out_what_was_nothing() {
        let parts = [
            ("inbox", 12_000),
            ("others", 500_000_000),
            ("withheld", 3_000_000),
            ("seek", 8_500_000),
        ];
        let report = RequestReport {
            schema: 1,
            id: "3:17".into(),
            volume: "a".into(),
            disk: "d0".into(),
            op: "read".into(),
            sector: 4_096,
            sectors: 8,
            fua: false,
            at_ns: 0,
            failed: false,
            commands: 1,
            total_ns: parts.iter().map(|part| part.1).sum(),
            parts_ns: parts.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
            served: vec![MeanwhileReport { volume: "b".into(), ns: 480_000_000 }],
            withheld_by: Some("limit".into()),
        };
        assert_eq!(
            report.line(),
            "3:17 a on d0: read of 8 sectors at 4096 took 511.512 ms: inbox 0.012, others 500.000 (b 480.000), withheld \
             3.000 (by limit), seek 8.500; 1 command"
        );
    }
}
