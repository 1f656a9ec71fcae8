//! The memory of a simulated disk's read-ahead: instead of bytes, the versions that the data oracle
//! watches.

use std::collections::BTreeMap;

use engine::{Command, Outcome, Part, Purpose, ReadAhead, ReadAheadSettings, SegmentId};
use units::{Extent, Instant, Lba, Sectors};

use crate::oracle::{DataOracle, NEVER_WRITTEN, Version, Watched};

/// The read-ahead of one disk.
#[derive(Debug)]
pub(crate) struct AheadOfDisk {
    pub(crate) ahead: ReadAhead,
    /// What the watched sectors of each segment held when they were read.
    pub(crate) held: BTreeMap<SegmentId, BTreeMap<Lba, Version>>,
}

impl AheadOfDisk {
    /// `None` without memory.
    pub(crate) fn new(settings: ReadAheadSettings) -> Option<Self> {
        let ahead = (settings.memory > Sectors::ZERO).then(|| ReadAhead::new(settings))?;
        Some(Self { ahead, held: BTreeMap::new() })
    }

    /// Notes that a command of a read-ahead request has completed.
    pub(crate) fn progress(&mut self, segment: SegmentId, command: &Command, data: &DataOracle) {
        if command.purpose == Purpose::Transfer {
            let extent = command.operation.extent;
            self.held.entry(segment).or_default().extend(data.content(extent));
            self.ahead.progress(segment, extent);
        }
    }

    /// Notes that a prefetch has ended.
    pub(crate) fn prefetch_ended(
        &mut self,
        extent: Extent,
        (outcome, now): (Outcome, Instant),
        data: &DataOracle,
    ) {
        if let Some(segment) = self.ahead.prefetch_ended(outcome, now) {
            self.held.entry(segment).or_default().extend(data.content(extent));
        }
    }

    pub(crate) fn invariants(&self) {
        self.ahead.invariants();
    }

    /// A client's read sees what the memory holds.
    pub(crate) fn copy(&self, extent: Extent, into: &mut Watched) {
        let parts: Vec<Part> = self.ahead.parts(extent).collect();
        let mut end = extent.start;
        for part in &parts {
            assert_eq!(part.extent.start, end, "the memory holds all of the read");
            end = part.extent.end();
        }
        assert_eq!(end, extent.end(), "the memory holds all of the read");
        into.see(|lba| {
            let part =
                parts.iter().find(|part| (part.extent.start..part.extent.end()).contains(&lba));
            let held = part.and_then(|part| self.held.get(&part.segment)?.get(&lba));
            held.copied().unwrap_or(NEVER_WRITTEN)
        });
    }
}
