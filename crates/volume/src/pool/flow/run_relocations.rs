//! Blocks on their way to where they are to lie: over every volume, block after block, few at a time.
//!
//! Nothing is kept of it on the disks: what a volume declares and where its blocks lie say what is left to do.

use crate::pool::flow::change::PendingChange;
use crate::pool::flow::core::Flow;
use crate::pool::flow::relocation::RELOCATIONS_MAX;
use crate::pool::flow::relocation::Relocation;
use crate::pool::flow::values::ChangeOutcome;
use crate::pool::flow::values::RelocationProgress;
use crate::pool::names::{PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::Operation;

impl Flow {
    /// Whether blocks that are to lie elsewhere stay for now where they are. Those on their way arrive.
    pub fn pause_relocation(&mut self, paused: bool) {
        self.paused = paused;
        self.courses.values_mut().for_each(Relocation::begin_again);
        self.stirred = true;
    }

    /// The volumes with blocks that are to lie elsewhere. Takes as long as it takes to look at all their extents.
    pub fn relocations(&self) -> Vec<RelocationProgress> {
        let progress = |(volume, course): (&PoolVolumeId, &Relocation)| {
            let stuck = course.why.clone().filter(|_| course.stuck);
            let misplaced = self.pool.misplaced_blocks(*volume);
            let progress =
                RelocationProgress { volume: *volume, moved: course.moved, misplaced, stuck };
            (misplaced > 0).then_some(progress)
        };
        self.courses.iter().filter_map(progress).collect()
    }

    /// A volume's blocks may be to lie elsewhere.
    pub(crate) fn set_out(&mut self, volume: PoolVolumeId) {
        self.courses.entry(volume).or_default().begin_again();
        self.stirred = true;
    }

    /// There may be room where there was none.
    pub(crate) fn encourage(&mut self) {
        for course in self.courses.values_mut().filter(|course| course.stuck) {
            if matches!(course.why, Some(ChangeOutcome::Refused(_))) {
                course.begin_again();
                self.stirred = true;
            }
        }
    }

    /// Sends blocks on their way, as far as there may be more of them. Says whether any went.
    pub(crate) fn send_out(&mut self) -> bool {
        if self.paused {
            return false;
        }
        let mut some = false;
        let mut running = self.changes.values().filter(|change| change.course.is_some()).count();
        for volume in self.courses.keys().copied().collect::<Vec<_>>() {
            while running < RELOCATIONS_MAX && !self.courses[&volume].stuck {
                let from = VolumeBlock(self.courses[&volume].cursor);
                let next = self.pool.misplaced(volume, from);
                let course = self.courses.get_mut(&volume).expect("it is listed");
                let Some(block) = next else {
                    if course.running == 0 {
                        self.arrive(volume);
                    }
                    break;
                };
                course.cursor = block.0 + 1;
                course.running += 1;
                running += 1;
                some = true;
                let id = self.number_change();
                let operation = Operation::Move { volume, block };
                self.changes.insert(id, PendingChange::new(operation, Some(volume)));
            }
        }
        some
    }

    /// A pass has come to its end.
    fn arrive(&mut self, volume: PoolVolumeId) {
        let course = self.courses.get_mut(&volume).expect("it is listed");
        if course.why.is_some() {
            course.stuck = true;
            return;
        }
        self.courses.remove(&volume);
        let id = self.pool.state().family(volume);
        let relatives: Vec<PoolVolumeId> =
            self.pool.state().relatives(id).map(|(relative, _)| relative).collect();
        // When the last of them has arrived nothing is left on the disks where they were.
        if !relatives.iter().any(|relative| self.courses.contains_key(relative))
            && let Some(family) = self.families.get_mut(&id)
        {
            family.look(&self.pool, id);
        }
    }

    /// A block need not be moved any more.
    pub(crate) fn stayed(&mut self, volume: PoolVolumeId) {
        if let Some(course) = self.courses.get_mut(&volume) {
            course.running -= 1;
        }
    }

    /// A block has arrived, or stays.
    pub(crate) fn moved(&mut self, volume: PoolVolumeId, block: VolumeBlock, end: ChangeOutcome) {
        let widths = self.pool.state().volume(volume).map_or(1, |volume| volume.disks.len());
        let Some(course) = self.courses.get_mut(&volume) else { return };
        course.running -= 1;
        if end == ChangeOutcome::Done {
            course.moved += 1;
            course.failures = 0;
            return;
        }
        course.failures += 1;
        course.why = Some(end);
        // Where each of its disks was asked in vain, the others of its blocks need not ask.
        let full = matches!(course.why, Some(ChangeOutcome::Refused(_)));
        if full && course.failures > widths {
            course.stuck = true;
            course.cursor = course.cursor.min(block.0);
        }
    }
}
