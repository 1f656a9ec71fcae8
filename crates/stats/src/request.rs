//! One request, and where its time went: a line of the slow-request log or of a live trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// One request, and where its time went. Times are whole nanoseconds, so that they add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// The version of this shape.
    pub schema: u32,
    /// The connection and the request's number on it, `piece:N` of a pool's request, or `erasure`.
    pub id: String,
    /// The volume; the disk's name in brackets if the request belongs to no volume.
    pub volume: String,
    /// The disk.
    pub disk: String,
    /// How its client reaches the volume: `nbd`, `kernel-nbd`, `ublk` or `vhost-user`. None of the
    /// daemon's own work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// The operation.
    pub op: String,
    /// Its first sector on the disk.
    pub sector: u64,
    /// Its length in sectors.
    pub sectors: u64,
    /// Whether its reply waits until it is durable.
    pub fua: bool,
    /// When it was answered, since the daemon's start.
    pub at_ns: u64,
    /// Whether the disk failed it.
    pub failed: bool,
    /// The number of its commands.
    pub commands: u32,
    /// The time from its arrival to its reply.
    pub total_ns: u64,
    /// The parts of that time by name, which add up to it.
    #[serde(default)]
    pub breakdown_ns: BTreeMap<String, u64>,
    /// Deprecated: the same parts, `queued_behind` as `others`, `throttled` as `withheld` and
    /// `rotational_wait` as `turning`.
    pub parts_ns: BTreeMap<String, u64>,
    /// The volumes that were served while it was queued behind them, longest first, as far as
    /// known.
    pub served: Vec<MeanwhileReport>,
    /// The reason why it was throttled, if it was: `limit`, `deadlines` or `policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_by: Option<String>,
    /// Deprecated: the same as `throttled_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld_by: Option<String>,
}

/// A volume that was served while a request waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeanwhileReport {
    /// The volume.
    pub volume: String,
    /// Its service time.
    pub ns: u64,
}

/// Finished requests that are missing in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedReport {
    /// The version of this shape.
    pub schema: u32,
    /// Their number since the last line.
    pub dropped: u64,
}

impl RequestReport {
    /// The parts, in the order in which a request passes through them.
    const PARTS: [&'static str; 12] = [
        "inbox",
        "queued_behind",
        "throttled",
        "rotational_wait",
        "drive",
        "overhead",
        "seek",
        "rotation",
        "transfer",
        "disk",
        "late",
        "reply",
    ];

    /// One line to read: parts of zero length are left out, milliseconds have three digits.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn line(&self) -> String {
        let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        let (fua, failed) =
            (if self.fua { " forced" } else { "" }, if self.failed { " FAILED" } else { "" });
        let by = self.transport.as_ref().filter(|by| *by != "nbd");
        let by = by.map_or_else(String::new, |by| format!(" by {by}"));
        let mut line = format!(
            "{}{by} {} on {}: {} of {} sectors at {}{fua}{failed} took {} ms:",
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
            let part = self.breakdown_ns.get(name).copied().unwrap_or(0);
            if part == 0 {
                continue;
            }
            write!(line, "{between} {name} {}", ms(part))
                .expect("writing to a string does not fail");
            between = ",";
            if name == "queued_behind" && !self.served.is_empty() {
                let served = self.served.iter().map(|one| format!("{} {}", one.volume, ms(one.ns)));
                write!(line, " ({})", served.collect::<Vec<_>>().join(", ")).expect("as above");
            }
            if let Some(by) = self.throttled_by.as_ref().filter(|_| name == "throttled") {
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
    fn a_line_names_the_volumes_served_meanwhile_and_leaves_out_empty_parts() {
        let parts = [
            ("inbox", 12_000),
            ("queued_behind", 500_000_000),
            ("throttled", 3_000_000),
            ("seek", 8_500_000),
        ];
        let report = RequestReport {
            schema: 1,
            id: "3:17".into(),
            volume: "a".into(),
            disk: "d0".into(),
            transport: Some("vhost-user".into()),
            op: "read".into(),
            sector: 4_096,
            sectors: 8,
            fua: false,
            at_ns: 0,
            failed: false,
            commands: 1,
            total_ns: parts.iter().map(|part| part.1).sum(),
            breakdown_ns: parts.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
            parts_ns: BTreeMap::new(),
            served: vec![MeanwhileReport { volume: "b".into(), ns: 480_000_000 }],
            throttled_by: Some("limit".into()),
            withheld_by: None,
        };
        assert_eq!(
            report.line(),
            "3:17 by vhost-user a on d0: read of 8 sectors at 4096 took 511.512 ms: inbox 0.012, \
             queued_behind 500.000 (b 480.000), throttled 3.000 (by limit), seek 8.500; 1 command"
        );
    }
}
