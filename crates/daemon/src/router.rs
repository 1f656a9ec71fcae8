//! From exports to disks: which volume a request is for, and where on which disk it lies.

use std::sync::Arc;

use engine::VolumeId;
use frontend::{Export, ExportId, Exports, Request, Sink};
use units::{Bytes, Op, Operation};
use volume::Map;

use crate::inbox::{Inbox, Incoming, Message};

/// A volume as clients reach it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) disk: usize,
    pub(crate) volume: VolumeId,
    pub(crate) map: Map,
}

/// The daemon's volumes, as exports.
#[derive(Debug)]
pub(crate) struct Routes(pub(crate) Vec<Route>);

impl Routes {
    fn export(&self, index: usize) -> Export {
        let route = &self.0[index];
        let id = ExportId(u32::try_from(index).expect("volumes are numbered with 32 bits"));
        Export::new(id, route.name.clone(), route.size)
    }
}

impl Exports for Routes {
    fn list(&self) -> Vec<Export> {
        (0..self.0.len()).map(|index| self.export(index)).collect()
    }

    fn open(&self, name: &str) -> Option<Export> {
        let index = self.0.iter().position(|route| route.name == name)?;
        Some(self.export(index))
    }
}

/// Carries requests to the inboxes of their disks, a turn's worth at a time.
#[derive(Debug)]
pub(crate) struct Router {
    routes: Arc<Routes>,
    inboxes: Vec<Arc<Inbox>>,
    waiting: Vec<Vec<Message>>,
}

impl Router {
    pub(crate) fn new(routes: Arc<Routes>, inboxes: Vec<Arc<Inbox>>) -> Self {
        let waiting = inboxes.iter().map(|_| Vec::new()).collect();
        Self { routes, inboxes, waiting }
    }
}

impl Sink for Router {
    fn submit(&mut self, request: Request) {
        let route = &self.routes.0[request.export.0 as usize];
        let Operation { op, mut extent, fua } = request.operation;
        if op != Op::Flush {
            let placed = route.map.map(extent).next().expect("the frontend checked the extent");
            assert_eq!(placed.extent.len, extent.len, "a volume is one piece");
            extent = placed.extent;
        }
        let operation = Operation { op, extent, fua };
        let (id, volume, data) = (request.id, route.volume, request.data);
        let incoming = Incoming { id, volume, operation, data };
        self.waiting[route.disk].push(Message::Request(incoming));
    }

    fn submitted_batch_end(&mut self) {
        for (inbox, messages) in self.inboxes.iter().zip(&mut self.waiting) {
            inbox.put(messages);
        }
    }
}
