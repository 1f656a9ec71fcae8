//! Several commands in flight, by threads that each perform one at a time.
//!
//! A thread is woken for each command, and wakes the caller when the command ends. Times are taken
//! beside the system call, so that the wake-up delays a command's beginning, but is no part of its
//! service time. The wake-up time is measured when the threads are started, and reported: at depth
//! it limits a fast device.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use host::Clock;
use profiler::{Completion, Outcome, Tag};
use units::{Duration, Instant, Operation};

use crate::timed_io::{TimedFile, TransferCost};

/// The empty jobs that measure the wake-up time.
const IDLE_CALLS: u64 = 64;

/// A job for a thread.
enum Job {
    Do(Tag, Operation),
    /// An empty job, completed at once.
    Nothing,
}

/// A thread's reply.
pub(crate) struct WorkerReply {
    pub(crate) completion: Completion,
    pub(crate) cost: Option<TransferCost>,
}

/// The threads.
pub(crate) struct Workers {
    jobs: Option<Sender<Job>>,
    ended: Receiver<WorkerReply>,
    threads: Vec<JoinHandle<()>>,
    /// The mean time of handing a job to a thread, and of its reply.
    pub(crate) overhead: Duration,
}

impl Workers {
    /// Starts `count` threads on the file.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub(crate) fn start(file: &Arc<File>, clock: Clock, count: u32) -> io::Result<Self> {
        let (jobs, taken) = channel();
        let (sink, ended) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let start = |nth| {
            let (taken, sink) = (Arc::clone(&taken), sink.clone());
            let timed_file = TimedFile::new(Arc::clone(file), clock);
            let name = format!("transfer-{nth}");
            std::thread::Builder::new().name(name).spawn(move || work(timed_file, &taken, &sink))
        };
        let threads = (0..count).map(start).collect::<io::Result<_>>()?;
        let mut workers = Self { jobs: Some(jobs), ended, threads, overhead: Duration::ZERO };
        workers.overhead = workers.measure_overhead(clock);
        Ok(workers)
    }

    /// Measures the time of an empty job.
    fn measure_overhead(&self, clock: Clock) -> Duration {
        let before = clock.now();
        for _ in 0..IDLE_CALLS {
            self.hand_over(Job::Nothing);
            self.wait();
        }
        clock.now().since(before) / IDLE_CALLS
    }

    fn hand_over(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("they are there until they are dropped");
        jobs.send(job).expect("threads end when there are no more jobs");
    }

    /// Hands a command to a thread.
    pub(crate) fn submit(&self, tag: Tag, operation: Operation) {
        self.hand_over(Job::Do(tag, operation));
    }

    /// Waits for the next completion. At least one command is in flight.
    pub(crate) fn wait(&self) -> WorkerReply {
        self.ended.recv().expect("threads end when there are no more jobs")
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended the process, or printed its message.
            let _ = thread.join();
        }
    }
}

fn work(mut timed_file: TimedFile, jobs: &Mutex<Receiver<Job>>, sink: &Sender<WorkerReply>) {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    loop {
        // The thread that holds the lock waits for the next job; the others wait for the lock.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let ended = match job {
            Ok(Job::Do(tag, operation)) => {
                let (completion, cost) = timed_file.perform(tag, operation);
                WorkerReply { completion, cost: Some(cost) }
            }
            Ok(Job::Nothing) => {
                let (tag, outcome) = (Tag(u64::MAX), Outcome::Done);
                let at = Instant::ZERO;
                let completion = Completion { tag, submitted: at, completed: at, outcome };
                WorkerReply { completion, cost: None }
            }
            Err(_) => return,
        };
        if sink.send(ended).is_err() {
            return;
        }
    }
}
