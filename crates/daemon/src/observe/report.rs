//! Finished requests as JSON and log lines show them: with names.

use std::collections::BTreeMap;

use nbd::ExportId;
use stats::{MeanwhileReport, RequestReport, SCHEMA};
use units::{Duration, Instant};

use super::breakdown::Breakdown;
use super::subscribers::{Filter, Subscriber};
use super::traced::{ThrottleReason, Traced, TracedId};
use crate::state::DaemonState;

impl ThrottleReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Limit => "limit",
            Self::Deadlines => "deadlines",
        }
    }
}

impl DaemonState {
    /// Subscribes to finished requests; `None` if there are too many subscribers.
    pub(crate) fn subscribe(&self, filter: Filter) -> Option<Subscriber> {
        self.subscribers.subscribe(filter)
    }

    /// The export number of the volume of this name, if it is there.
    pub(crate) fn export(&self, volume: &str) -> Option<ExportId> {
        self.routes.find(volume).map(|(export, _)| export)
    }

    /// A finished request, with names. A request of no volume, or of a removed one, has the disk's
    /// name in brackets.
    pub(crate) fn report(&self, traced: &Traced) -> RequestReport {
        let Traced { id, disk, export, operation, at, failed, commands, breakdown, .. } = traced;
        let disk = self.disk_name(*disk).to_owned();
        let name = |export| self.routes.name(export).unwrap_or_else(|| format!("({disk})"));
        let served = traced.served.iter().flatten();
        let served = served
            .map(|(export, time)| MeanwhileReport { volume: name(*export), ns: time.as_nanos() });
        let by = traced.throttled_by.as_str();
        let is_throttled = breakdown.throttled > Duration::ZERO;
        let throttled_by = is_throttled.then(|| by.to_owned());
        let parts = Breakdown::PARTS.iter().map(|(name, part)| (*name, part(breakdown).as_nanos()));
        let breakdown_ns: BTreeMap<String, u64> =
            parts.map(|(name, ns)| (name.to_owned(), ns)).collect();
        let mut parts_ns = breakdown_ns.clone();
        for (name, old) in Breakdown::OLD_NAMES {
            let ns = parts_ns.remove(name).expect("each old name stands for a part");
            parts_ns.insert(old.to_owned(), ns);
        }
        RequestReport {
            schema: SCHEMA,
            id: match id {
                TracedId::Client(id) => format!("{}:{}", id.connection.0, id.sequence),
                TracedId::Piece(piece, _) => format!("piece:{}", piece.0),
                TracedId::Erasure => "erasure".to_owned(),
            },
            volume: name(*export),
            transport: id.transport().map(|transport| transport.as_str().to_owned()),
            op: operation.op.to_string(),
            sector: operation.extent.start.0,
            sectors: operation.extent.len.0,
            fua: operation.fua,
            at_ns: at.since(Instant::ZERO).as_nanos(),
            failed: *failed,
            commands: *commands,
            total_ns: breakdown.total().as_nanos(),
            breakdown_ns,
            parts_ns,
            served: served.collect(),
            throttled_by: throttled_by.clone(),
            withheld_by: throttled_by,
            disk,
        }
    }
}
