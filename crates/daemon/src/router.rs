//! From exports to disks: which volume a request is for, and where on which disk it lies.
//!
//! Routes change while clients are served. The frontend's threads read them once a request; an operator's writes
//! replace one whole route.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use engine::VolumeId;
use nbd::{
    BlockStatusRequest, ClientName, Errno, Export, ExportId, Exports, Reply, Request,
    RequestHandler,
};
use units::{Bytes, Instant, Op, Operation};
use volume::VolumeMap;

use crate::door::Door;
use crate::inbox::{Incoming, Message};
use crate::pool::Served;
use host::Clock;

/// A volume as clients reach it.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) home: Home,
    pub(crate) medium: Medium,
    pub(crate) clients: Option<Vec<ClientName>>,
}

/// Where a volume's sectors lie.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// On one disk, which has this number for it.
    Disk { disk: usize, volume: VolumeId, map: VolumeMap },
    /// In the pool.
    Pool { volume: volume::pool::PoolVolumeId, read_only: bool },
}

impl Home {
    /// The disk of a volume that has one.
    ///
    /// # Panics
    /// If it lies in the pool.
    pub(crate) fn disk(&self) -> (usize, VolumeId) {
        match self {
            Self::Disk { disk, volume, .. } => (*disk, *volume),
            Self::Pool { .. } => panic!("a volume of the config's disks is not in the pool"),
        }
    }
}

/// Those that a volume names.
pub(crate) fn clients(named: Option<&Vec<String>>) -> Option<Vec<ClientName>> {
    let names = named?.iter();
    Some(names.map(|name| name.parse().expect("the config checked it")).collect())
}

/// What clients are told of the disk that a volume is on.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    /// The disk, in words.
    pub(crate) description: String,
    /// What is close to each other is read faster.
    pub(crate) rotational: bool,
    /// Zeroing is faster than writing: it changes a map, and moves nothing.
    pub(crate) fast_zero: bool,
}

impl Medium {
    pub(crate) fn of(disk: &config::Disk) -> Self {
        let rotational = disk.drive.model.rotational();
        let (description, fast_zero) = match &disk.backing {
            config::Backing::Real(real) => {
                (format!("on disk {}, {}", disk.name, real.path.display()), real.fast_zero)
            }
            _ => (format!("on disk {}, a {}", disk.name, disk.drive.name), !rotational),
        };
        Self { description, rotational, fast_zero }
    }
}

#[derive(Debug, Default)]
struct Table {
    routes: BTreeMap<ExportId, Route>,
    names: BTreeMap<String, ExportId>,
    /// The number of the next volume: none is given twice, so that nobody is taken for another.
    next: u32,
}

/// The daemon's volumes, as exports.
#[derive(Debug, Default)]
pub(crate) struct Routes(RwLock<Table>);

impl Routes {
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // Nobody panics while holding the lock; should it happen, the table is still whole.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a volume to come.
    pub(crate) fn number(&self) -> ExportId {
        let mut table = self.write();
        let number = ExportId(table.next);
        table.next = table.next.checked_add(1).expect("four thousand million volumes are enough");
        number
    }

    /// Lets clients open a volume, from now on there and of this size.
    pub(crate) fn publish(&self, export: ExportId, route: Route) {
        let mut table = self.write();
        table.names.insert(route.name.clone(), export);
        table.routes.insert(export, route);
    }

    /// The volume of this name.
    pub(crate) fn find(&self, name: &str) -> Option<(ExportId, Route)> {
        let table = self.read();
        let export = *table.names.get(name)?;
        Some((export, table.routes[&export].clone()))
    }

    /// What a volume is called, if it is there.
    pub(crate) fn name(&self, export: ExportId) -> Option<String> {
        self.read().routes.get(&export).map(|route| route.name.clone())
    }

    /// All volumes, in the order in which they came.
    pub(crate) fn all(&self) -> BTreeMap<ExportId, Route> {
        self.read().routes.clone()
    }
}

fn export(id: ExportId, route: &Route) -> Export {
    let Medium { description, rotational, fast_zero } = route.medium.clone();
    let export = Export::new(id, route.name.clone(), route.size);
    let read_only = matches!(route.home, Home::Pool { read_only: true, .. });
    let export = Export { read_only, ..export };
    Export { description, rotational, fast_zero, clients: route.clients.clone(), ..export }
}

impl Exports for Routes {
    fn list(&self) -> Vec<Export> {
        self.read().routes.iter().map(|(id, route)| export(*id, route)).collect()
    }

    fn open(&self, name: &str) -> Option<Export> {
        let table = self.read();
        let id = *table.names.get(name)?;
        Some(export(id, &table.routes[&id]))
    }

    fn withdraw(&self, export: ExportId) {
        let mut table = self.write();
        if let Some(route) = table.routes.remove(&export) {
            table.names.remove(&route.name);
        }
    }
}

/// Carries requests to their disks, a turn's worth at a time. Each of the frontend's threads has one.
pub(crate) struct Router {
    routes: Arc<Routes>,
    doors: Vec<Door>,
    waiting: Vec<Vec<Message>>,
    pool: Option<Arc<Served>>,
    clock: Clock,
    /// When the first request of this turn came.
    turn: Option<Instant>,
    /// Requests to the pool's volumes.
    pooled: Vec<(volume::pool::PoolVolumeId, Request)>,
    /// Answers to requests for volumes that were given up while they were on their way.
    late: Vec<Reply>,
}

impl Router {
    pub(crate) fn new(
        routes: Arc<Routes>,
        doors: Vec<Door>,
        pool: Option<Arc<Served>>,
        clock: Clock,
    ) -> Self {
        let waiting = doors.iter().map(|_| Vec::new()).collect();
        Self {
            routes,
            doors,
            waiting,
            pool,
            clock,
            turn: None,
            pooled: Vec::new(),
            late: Vec::new(),
        }
    }
}

impl RequestHandler for Router {
    fn submit(&mut self, request: Request) {
        let table = self.routes.read();
        // Whoever had it open is being sent away, by threads of which this one has not come to it yet.
        let Some(route) = table.routes.get(&request.export) else {
            return self.late.push(Reply { id: request.id, result: Err(Errno::Shutdown) });
        };
        let (disk, volume, map) = match &route.home {
            Home::Disk { disk, volume, map } => (*disk, *volume, map),
            Home::Pool { volume, .. } => return self.pooled.push((*volume, request)),
        };
        let Operation { op, mut extent, fua } = request.operation;
        if op != Op::Flush {
            let placed = map.map(extent).next().expect("the frontend checked the extent");
            assert_eq!(placed.extent.len, extent.len, "such a volume is one piece");
            extent = placed.extent;
        }
        let operation = Operation { op, extent, fua };
        let Request { id, data, no_hole, .. } = request;
        let asked = *self.turn.get_or_insert_with(|| self.clock.now());
        let incoming = Incoming { id, asked, volume, operation, data, no_hole };
        self.waiting[disk].push(Message::Request(incoming));
    }

    fn block_status(&mut self, query: BlockStatusRequest) -> Option<BlockStatusRequest> {
        let table = self.routes.read();
        let Some(route) = table.routes.get(&query.export) else { return Some(query) };
        match &route.home {
            Home::Disk { disk, map, .. } => {
                let placed = map.map(query.extent).next();
                let placed = placed.expect("the frontend checked the extent");
                self.waiting[*disk].push(Message::Ask(query.id, placed.extent));
            }
            Home::Pool { volume, .. } => {
                self.pool.as_ref().expect("its volume is served").tell(*volume, query);
            }
        }
        None
    }

    fn completion_fds(&self) -> io::Result<Vec<OwnedFd>> {
        self.doors.iter().filter_map(Door::bell).collect()
    }

    fn poll_completions(&mut self, answered: &mut Vec<Reply>) {
        for door in &self.doors {
            door.look(answered);
        }
    }

    fn flush_batch(&mut self, answered: &mut Vec<Reply>) {
        self.turn = None;
        answered.append(&mut self.late);
        for (door, messages) in self.doors.iter().zip(&mut self.waiting) {
            door.enter(messages, answered);
        }
        if let Some(pool) = &self.pool {
            pool.submit(&mut self.pooled);
        }
    }
}
