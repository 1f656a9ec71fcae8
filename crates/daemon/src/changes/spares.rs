//! Spares take the place of disks that the pool has taken out.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::{Document, PoolPlan};
use units::{Duration, Instant};
use volume::DiskId;
use volume::pool::DiskUid;

use super::operator::Operator;
use crate::pool::discovery::random_uid;
use crate::pool::view::{SpareView, SpareViews};

/// The interval at which a spare that was refused is asked again, if the config stays as it is.
const RETRY: Duration = Duration::from_secs(60);

/// The disks that are out, and what was said about them.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// Since when each disk is out; what the pool found out when it was opened is out since then.
    out_since: BTreeMap<DiskId, Instant>,
    /// Why no spare took a disk's place: each reason is reported once.
    refusals: BTreeMap<DiskId, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    why: String,
    at: Instant,
    /// The config with which it was refused.
    config: Arc<Document>,
}

impl Spares {
    fn note_refusal(&mut self, disk: DiskId, why: String, (at, config): (Instant, Arc<Document>)) {
        let known = self.refusals.get(&disk);
        if known.is_none_or(|refusal| refusal.why != why) {
            eprintln!("pool: no spare has the place of a disk that is out: {why}");
        }
        self.refusals.insert(disk, Refusal { why, at, config });
    }
}

impl Refusal {
    fn holds(&self, now: Instant, config: &Arc<Document>) -> bool {
        Arc::ptr_eq(&self.config, config) && now.since(self.at) < RETRY
    }
}

impl Operator {
    /// Gives the places of the disks that have been out for the pool's `spare_after` to spares, one
    /// each, and notes what becomes of the others. A spare that is refused (it is too small, or
    /// does not admit what the disk did) is passed over.
    pub(super) fn use_spares(&self, spares: &mut Spares) {
        let document = self.document();
        let Some(pool) = &self.state.pool else { return };
        let has_spares = document.plan().disks.iter().any(|disk| disk.spare);
        let out = if has_spares { self.disks_out_of_pool() } else { Vec::new() };
        spares.out_since.retain(|disk, _| out.contains(disk));
        spares.refusals.retain(|disk, _| out.contains(disk));
        let mut views = SpareViews::new();
        for disk in out {
            let (is_placed, view) = self.give_place(spares, &document, disk);
            views.extend(view.map(|view| (disk, view)));
            if is_placed {
                // The config is another now, and the next disk's turn is the next check.
                break;
            }
        }
        pool.note_spares(views);
    }

    /// Gives a disk's place to a spare if it is time. Returns whether it has, and what becomes of
    /// the place otherwise.
    fn give_place(
        &self,
        spares: &mut Spares,
        document: &Arc<Document>,
        disk: DiskId,
    ) -> (bool, Option<SpareView>) {
        let (now, plan) = (self.now(), document.plan());
        let Some(pool) = &plan.pool else { return (false, None) };
        let since = *spares.out_since.entry(disk).or_insert(now);
        let left = pool.spare_after.saturating_sub(now.since(since));
        if left > Duration::ZERO {
            return (false, Some(SpareView::Waits(left)));
        }
        let known = spares.refusals.get(&disk);
        if known.is_none_or(|refusal| !refusal.holds(now, document)) {
            match self.use_spare((document, pool), disk) {
                Ok(is_placed) => return (is_placed, None),
                Err(why) => spares.note_refusal(disk, why, (now, self.document())),
            }
        }
        let refusal = spares.refusals.get(&disk);
        (false, refusal.map(|refusal| SpareView::Refused(refusal.why.clone())))
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
        Err(refusals.join("; "))
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
