//! Whether the blocks of a pool's volume are where the parts of its stream say.
//!
//! A volume that is created with parts is placed by them. For another one its operator says where
//! the blocks are, and is corrected. What is placed later (copies on write beside a snapshot) may
//! lie elsewhere: it is best effort outside of the spans of its disk, and counted.

use config::{DiskIndex, PoolVolume, size_text};
use units::{Extent, Lba, Sectors};
use volume::pool::Volume;

use super::error::{ChangeError, refused};
use crate::state::DaemonState;

/// Sectors one behind the other, and their disk of the config, if they have one that is there.
type Run = (Option<DiskIndex>, Sectors);

impl DaemonState {
    /// Refuses parts that are not where the blocks of the volume are.
    ///
    /// # Errors
    /// Which parts would be true.
    pub(super) fn check_stream_parts(
        &self,
        planned: &PoolVolume,
        volume: &Volume,
    ) -> Result<(), ChangeError> {
        if planned.stream_parts.is_empty() {
            return Ok(());
        }
        if planned.blocks() != volume.size {
            return refused(format!(
                "field `size`: found {}, expected that of the volume, {}: its stream has parts",
                size_text(planned.size),
                size_text(volume.size.sectors().bytes())
            ));
        }
        let parts = planned.disks.iter().zip(&planned.stream_parts);
        let parts: Vec<Run> = parts.map(|(disk, part)| (Some(*disk), part.sectors())).collect();
        let there = self.runs(volume)?;
        if parts == there {
            return Ok(());
        }
        let run = |(disk, len): &Run| {
            let name = disk.map_or("no disk", |disk| self.disk_name(disk));
            format!("{} on {name}", size_text(len.bytes()))
        };
        let told: Vec<String> = there.iter().map(run).collect();
        let told = told.join(", ");
        refused(format!("field `parts`: expected what is there, in this order: {told}"))
    }

    /// Where the blocks of a volume are.
    fn runs(&self, volume: &Volume) -> Result<Vec<Run>, ChangeError> {
        let disks = self.pool()?.disks();
        let mut runs: Vec<Run> = Vec::new();
        for mapped in volume.map(Extent::new(Lba(0), volume.size.sectors())) {
            let disk = mapped.location.and_then(|place| Some(disks.get(&place.disk)?.disk));
            match runs.last_mut() {
                Some((last, len)) if *last == disk => *len += mapped.extent.len,
                _ => runs.push((disk, mapped.extent.len)),
            }
        }
        Ok(runs)
    }
}
