//! Spares take the place of disks that the pool has taken out.

use std::collections::BTreeMap;

use config::{Document, PoolPlan};
use units::Instant;
use volume::DiskId;
use volume::pool::DiskUid;

use super::operator::Operator;
use crate::pool::discovery::random_uid;

/// The disks that are out, and what was said about them.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// Since when each disk is out; what the pool found out when it was opened is out since then.
    out_since: BTreeMap<DiskId, Instant>,
    /// Why no spare took a disk's place: each reason is reported once.
    reported: BTreeMap<DiskId, String>,
}

impl Operator {
    /// Gives the places of the disks that have been out for the pool's `spare_after` to spares, one
    /// each. A spare that is refused (it is too small, or does not admit what the disk did) is
    /// passed over.
    pub(super) fn use_spares(&self, spares: &mut Spares) {
        let document = self.document();
        let Some(plan) = &document.plan().pool else { return };
        let now = self.now();
        let out = self.disks_out_of_pool();
        spares.out_since.retain(|disk, _| out.contains(disk));
        spares.reported.retain(|disk, _| out.contains(disk));
        for disk in out {
            let since = *spares.out_since.entry(disk).or_insert(now);
            if now.since(since) < plan.spare_after {
                continue;
            }
            match self.use_spare((&document, plan), disk) {
                // The config is another now, and the next disk's turn is the next check.
                Ok(true) => return,
                Ok(false) => {}
                Err(why) => {
                    if spares.reported.get(&disk) != Some(&why) {
                        eprintln!("pool: {why}");
                        spares.reported.insert(disk, why);
                    }
                }
            }
        }
    }

    /// Gives a disk's place to the first spare that may have it. Returns whether there was one.
    ///
    /// # Errors
    /// Why no spare may have it.
    fn use_spare(
        &self,
        (document, pool): (&Document, &PoolPlan),
        disk: DiskId,
    ) -> Result<bool, String> {
        let disks = &document.plan().disks;
        let Some(old) = self.name_of_disk_out(document, pool, disk) else { return Ok(false) };
        let mut refusals = Vec::new();
        for spare in disks.iter().filter(|disk| disk.spare) {
            let uid = random_uid().map(DiskUid).map_err(|error| error.to_string())?;
            match self.replace_pool_disk(old, &spare.name, uid) {
                Ok(()) => return Ok(true),
                Err(error) => refusals.push(format!("{}: {error}", spare.name)),
            }
        }
        if refusals.is_empty() {
            return Ok(false);
        }
        Err(format!("no spare has the place of disk {old}: {}", refusals.join("; ")))
    }

    /// The name in the config of a disk that is out: that of the disk that is there, or the one
    /// name of the pool's that has no disk.
    fn name_of_disk_out<'a>(
        &self,
        document: &'a Document,
        pool: &PoolPlan,
        disk: DiskId,
    ) -> Option<&'a str> {
        let disks = &document.plan().disks;
        let there = self.state.pool.as_ref()?.disks();
        if let Some(member) = there.get(&disk) {
            return Some(&disks[member.disk.0].name);
        }
        let is_there = |index| there.values().any(|member| member.disk == index);
        let missing = pool.disks.iter().find(|index| !is_there(**index))?;
        Some(&disks[missing.0].name)
    }
}
