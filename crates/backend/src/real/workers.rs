//! A thread pool: each thread executes one command at a time.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::caller::{Caller, Open};
use crate::disk::{Completion, Job, Waker};

/// The jobs that the threads have not taken.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    submitted: Condvar,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    finished: VecDeque<Completion>,
    waker: Option<Waker>,
}

/// No code panics while it holds a lock; if one did, the guarded data would still be valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The threads.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads on the disk.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(open: &Arc<Open>, count: u32) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let mut workers = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for nth in 0..count {
            let (caller, shared) = (Caller::new(Arc::clone(open)), Arc::clone(&shared));
            let thread = std::thread::Builder::new().name(format!("io-{nth}"));
            workers.threads.push(thread.spawn(move || work(caller, &shared))?);
        }
        Ok(workers)
    }

    pub(super) fn set_waker(&self, waker: Waker) {
        lock(&self.shared.done).waker = Some(waker);
    }

    /// Queues a job for the next idle thread.
    pub(super) fn submit(&self, job: Job) {
        lock(&self.shared.queue).jobs.push_back(job);
        self.shared.submitted.notify_one();
    }

    /// Takes the completions.
    pub(super) fn take(&self, into: &mut VecDeque<Completion>) {
        let mut done = lock(&self.shared.done);
        into.append(&mut done.finished);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.submitted.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

fn work(mut caller: Caller, shared: &Shared) {
    loop {
        let mut queue = lock(&shared.queue);
        let mut job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.closed {
                return;
            }
            queue = shared.submitted.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        let result = caller.carry_out(&mut job);
        let finished = Completion { tag: job.tag, result, data: job.data, delay: None };
        let mut done = lock(&shared.done);
        // A driver that was woken and has not reaped yet takes this one too.
        let is_first = done.finished.is_empty();
        done.finished.push_back(finished);
        let waker = done.waker.clone().filter(|_| is_first);
        drop(done);
        if let Some(waker) = waker {
            waker();
        }
    }
}
