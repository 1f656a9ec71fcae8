//! Finished requests as they are told: with names.

use std::collections::BTreeMap;

use nbd::ExportId;
use stats::{MeanwhileReport, RequestReport, SCHEMA};
use units::Instant;

use super::{Breakdown, Filter, Traced, TracedId, Watcher, Withholder};
use crate::operator::Operator;

impl Operator {
    /// Somebody is told of finished requests from now on; `None` where [`WATCHERS_MAX`](super::WATCHERS_MAX) are.
    pub fn watch(&self, filter: Filter) -> Option<Watcher> {
        self.live.watchers.watch(filter)
    }

    /// The number of the volume of this name, if it is there.
    pub fn export(&self, volume: &str) -> Option<ExportId> {
        self.live.routes.find(volume).map(|(export, _)| export)
    }

    /// A finished request, with names. What belongs to no volume, or to one that has gone, is the disk's.
    pub fn told(&self, traced: &Traced) -> RequestReport {
        let Traced { id, disk, export, operation, at, failed, commands, breakdown, .. } = traced;
        let disk = self.live.disks[*disk].clone();
        let name = |export| self.live.routes.name(export).unwrap_or_else(|| format!("({disk})"));
        let served = traced.served.iter().flatten();
        let served = served
            .map(|(export, time)| MeanwhileReport { volume: name(*export), ns: time.as_nanos() });
        let by = match traced.withheld_by {
            Withholder::Policy => "policy",
            Withholder::Limit => "limit",
            Withholder::Deadlines => "deadlines",
        };
        let parts =
            Breakdown::PARTS.iter().map(|(name, part)| ((*name).to_owned(), part(breakdown)));
        let parts: BTreeMap<_, _> = parts.map(|(name, part)| (name, part.as_nanos())).collect();
        RequestReport {
            schema: SCHEMA,
            id: match id {
                TracedId::Client(id) => format!("{}:{}", id.connection.0, id.sequence),
                TracedId::Piece(piece) => format!("piece:{}", piece.0),
                TracedId::Erasure => "erasure".to_owned(),
            },
            volume: name(*export),
            op: operation.op.to_string(),
            sector: operation.extent.start.0,
            sectors: operation.extent.len.0,
            fua: operation.fua,
            at_ns: at.since(Instant::ZERO).as_nanos(),
            failed: *failed,
            commands: *commands,
            total_ns: breakdown.total().as_nanos(),
            parts_ns: parts,
            served: served.collect(),
            withheld_by: (breakdown.withheld > units::Duration::ZERO).then(|| by.to_owned()),
            disk,
        }
    }
}
