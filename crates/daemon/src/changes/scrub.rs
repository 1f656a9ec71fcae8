//! The scrub of the pool: an operator starts and stops it, and what it finds is reported.

use host::WallTime;
use volume::pool::flow::{ChangeOutcome, ScrubFinding, ScrubVerdict};
use volume::pool::{Blocks, ScrubPhase, ScrubRecord};

use super::error::{ChangeError, refused};
use super::operator::Operator;

/// What has been reported of scrubs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedScrub {
    /// The number of the next finding.
    next: u64,
    /// What was there when it was looked at last. A short scrub begins and ends between two looks:
    /// then the record is another one.
    record: ScrubRecord,
}

impl Operator {
    /// Starts a scrub of the pool, or goes on with one that was stopped; or stops it.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn scrub_pool(&self, starts: bool) -> Result<(), ChangeError> {
        let _lock = self.lock();
        match self.state.pool()?.scrub(starts, WallTime::now()) {
            ChangeOutcome::Done => Ok(()),
            ChangeOutcome::Refused(refusal) => refused(refusal.to_string()),
            ChangeOutcome::Failed(failure) => Err(ChangeError::Pool(failure)),
        }
    }

    /// What is there before anything is reported: the last scrub's end is none.
    pub(super) fn unreported_scrub(&self) -> ReportedScrub {
        let pool = self.state.pool.as_ref();
        let record = pool.map(|pool| pool.inspect(|flow| flow.scrub().record));
        ReportedScrub { next: 0, record: record.unwrap_or_default() }
    }

    /// Reports what the scrub has found since, and its end.
    pub(super) fn report_scrub(&self, reported: &mut ReportedScrub) {
        let Some(pool) = &self.state.pool else { return };
        pool.sample_scrub(self.now(), WallTime::now());
        let (findings, next, record) = pool.inspect(|flow| {
            let (findings, next) = flow.scrub_findings(reported.next);
            let name = |one: &ScrubFinding| {
                let volume = flow.pool().state().volume(one.volume);
                volume.map_or_else(|| one.volume.0.to_string(), |volume| volume.name.clone())
            };
            let findings: Vec<_> = findings.iter().map(|one| (name(one), *one)).collect();
            (findings, next, flow.scrub().record)
        });
        reported.next = next;
        let members = pool.disks();
        for (volume, ScrubFinding { block, disk, verdict, .. }) in findings {
            let name = members.get(&disk).map(|member| self.state.disk_name(member.disk));
            let name = name.unwrap_or("that is missing");
            let what = match verdict {
                ScrubVerdict::Mended => "could not be read, and was written from another copy",
                ScrubVerdict::Unmended => "cannot be read although it was written again",
                ScrubVerdict::Lost => "cannot be read, and no other copy can",
                ScrubVerdict::Differs => "differs from the first copy; none of them was changed",
            };
            let at = Blocks(block.0).sectors().bytes();
            eprintln!(
                "pool: scrub: volume {volume}, 1MiB from {at} on: what disk {name} has {what}"
            );
        }
        if record.phase == ScrubPhase::Done && record != reported.record {
            eprintln!(
                "pool: scrub: all was read: {} copies mended, {} not, {} blocks lost, of {} the \
                 copies differ",
                record.mended, record.unmended, record.lost, record.differing
            );
        }
        reported.record = record;
    }
}
