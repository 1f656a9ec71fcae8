//! The router: carries clients' requests to their disks, one event-loop iteration at a time.
//!
//! Invariant: each request is put into exactly one batch entry, or replies at once.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use host::Clock;
use nbd::{BlockStatusRequest, Errno, Reply, Request, RequestHandler};
use units::Instant;

use super::placement::Batch;
use super::routes::Routes;
use crate::disk::handle::DiskHandle;
use crate::pool::service::PoolService;

/// Carries requests to their disks. Each of the server's threads has one.
pub(crate) struct Router {
    routes: Arc<Routes>,
    disks: Vec<DiskHandle>,
    pool: Option<Arc<PoolService>>,
    clock: Clock,
    batch: Batch,
    /// When the first request of this iteration was received.
    received: Option<Instant>,
    /// Replies to requests for volumes that are being withdrawn.
    refused: Vec<Reply>,
}

impl Router {
    pub(crate) fn new(
        routes: Arc<Routes>,
        disks: Vec<DiskHandle>,
        pool: Option<Arc<PoolService>>,
        clock: Clock,
    ) -> Self {
        let batch = Batch::new(disks.len());
        Self { routes, disks, pool, clock, batch, received: None, refused: Vec::new() }
    }
}

impl RequestHandler for Router {
    fn submit(&mut self, request: Request) {
        let Self { routes, clock, batch, received, .. } = self;
        let (id, export) = (request.id, request.export);
        let received = || *received.get_or_insert_with(|| clock.now());
        let submitted = routes.with(export, |route| {
            route.placement.submit(request, received, batch);
        });
        if submitted.is_none() {
            // The export was withdrawn, and this thread has not closed its connections yet.
            self.refused.push(Reply { id, result: Err(Errno::Shutdown) });
        }
    }

    fn block_status(&mut self, query: BlockStatusRequest) -> Option<BlockStatusRequest> {
        let Self { routes, batch, .. } = self;
        let asked = routes.with(query.export, |route| route.placement.block_status(query, batch));
        asked.is_none().then_some(query)
    }

    fn completion_fds(&self) -> io::Result<Vec<OwnedFd>> {
        self.disks.iter().filter_map(DiskHandle::completion_fd).collect()
    }

    fn poll_completions(&mut self, replies: &mut Vec<Reply>) {
        for disk in &self.disks {
            disk.poll_completions(replies);
        }
    }

    fn flush_batch(&mut self, replies: &mut Vec<Reply>) {
        self.received = None;
        replies.append(&mut self.refused);
        for (disk, messages) in self.disks.iter().zip(&mut self.batch.messages) {
            disk.submit(messages, replies);
        }
        if let Some(pool) = &self.pool {
            pool.submit(&mut self.batch.pool);
        }
        debug_assert!(self.batch.pool.is_empty(), "requests to a pool's volumes reach the pool");
    }
}
