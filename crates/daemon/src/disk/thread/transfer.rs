//! The buffers of a disk's commands: they are the requests', and come back with the completions.

use backend::{Buffers, Completion, Disk, Failure, Job, Tag};
use engine::{Command, Outcome, Purpose};
use units::{Instant, Op, Operation};

use super::DiskThread;
use crate::disk::request::{collect, payload};

impl DiskThread {
    /// The job of a command, with the buffers of its requests.
    pub(super) fn job(&mut self, command: &Command) -> Job {
        let pieces = self.scheduler.engine.command_pieces(command);
        let (tag, operation) = (Tag(command.id.0), command.operation);
        // Only transfers are gathered.
        if pieces.len() == 1 || command.purpose != Purpose::Transfer {
            let request = &mut self.requests.get_mut(command.request.0).request;
            let (data, no_hole) = (payload(request, command).into(), request.no_hole);
            return Job { tag, operation, data, no_hole };
        }
        assert!(matches!(operation.op, Op::Read | Op::Write), "nothing else is gathered");
        let mut list = self.gathered.list();
        for piece in pieces {
            let request = &mut self.requests.get_mut(piece.request.0).request;
            list.push(self.gathered.take(request, &piece));
        }
        Job { tag, operation, data: Buffers::List(list), no_hole: false }
    }

    /// Gives a job to the disk. A write whose bytes are with a disk that was given up fails: it is
    /// part of a merged command that has failed then.
    pub(super) fn start_job(&mut self, job: Job, now: Instant) {
        if is_lost(&job) {
            core::hint::cold_path();
            self.disk.refuse(job, Failure::Offline, now);
        } else {
            self.disk.submit(job, now);
        }
    }

    /// Gives the requests that a command covers their buffers and its result.
    pub(super) fn store(&mut self, command: &Command, completion: Completion) -> Outcome {
        let Completion { result, data, .. } = completion;
        match data {
            Buffers::One(bytes) => {
                if result.is_ok() {
                    let request = &mut self.requests.get_mut(command.request.0).request;
                    collect(request, command, bytes);
                }
            }
            Buffers::List(mut list) => {
                let pieces = self.scheduler.engine.command_pieces(command);
                assert_eq!(pieces.len(), list.len(), "a piece has a buffer");
                for (piece, part) in pieces.zip(list.drain(..)) {
                    let request = &mut self.requests.get_mut(piece.request.0).request;
                    self.gathered.put_back(request, &piece, (part, result.is_ok()));
                }
                self.gathered.keep(list);
            }
        }
        let Err(failure) = result else { return Outcome::Done };
        // The outcome of each request is that of its part, which is issued again.
        if self.scheduler.engine.is_retried_in_parts(command) {
            return Outcome::Failed;
        }
        // A failed movement of the arm is no request's failure: the transfer shows it.
        let pieces = self.scheduler.engine.command_pieces(command);
        for piece in pieces.filter(|piece| piece.purpose == Purpose::Transfer) {
            self.requests.get_mut(piece.request.0).failure = Some(failure);
        }
        Outcome::Failed
    }
}

/// Whether it is a write of which some bytes are not here.
fn is_lost(job: &Job) -> bool {
    let Operation { op, extent, .. } = job.operation;
    op == Op::Write && job.data.parts(extent).any(|(_, bytes)| bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use backend::Part;
    use units::{Extent, Lba, Sectors};

    use super::*;

    #[test]
    fn a_write_whose_bytes_a_disk_has_kept_is_not_sent_again() {
        let operation = Operation::write(Extent::new(Lba(8), Sectors(2)));
        let job = |operation, data| Job { tag: Tag(1), operation, data, no_hole: false };
        assert!(!is_lost(&job(operation, vec![1; 1_024].into())));
        assert!(is_lost(&job(operation, Buffers::default())));
        let part = |bytes| Part { len: Sectors(1), bytes };
        let list = Buffers::List(vec![part(vec![1; 512]), part(Vec::new())]);
        assert!(is_lost(&job(operation, list)), "one of its parts is");
        let others = [Operation::read(operation.extent), Operation::flush()];
        assert!(others.into_iter().all(|other| !is_lost(&job(other, Buffers::default()))));
    }
}
