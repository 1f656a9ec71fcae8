//! Starting and stopping: all of it, or nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::{fmt, io, thread};

use backend::{Disk, Emulated, FileStore, Guarded, Memory, Null, Opening, RamStore, Real, Store};
use config::{Backing, Document, Plan};
use engine::Agenda;
use frontend::{Address, Listing, Server, Settings, Tls, TlsError, TlsFiles};
use units::Instant;

use crate::Clock;
use crate::disk::{Brain, DiskThread};
use crate::door::{Door, Shared};
use crate::inbox::{Inbox, Look};
use crate::live::Live;
use crate::operator::{self, Operator};
use crate::router::{self, Medium, Route, Router, Routes};
use crate::seats::Seats;
use crate::status::{DiskView, Status};

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    live: Arc<Live>,
    addresses: Vec<Address>,
    serving: JoinHandle<io::Result<()>>,
    disks: Vec<JoinHandle<DiskView>>,
}

/// Why nothing was started.
#[derive(Debug)]
pub enum StartError {
    /// A disk, or what stands for it, cannot be used. Cure: as the reason says.
    Backing {
        /// The config's file, and the line of the disk's table.
        place: String,
        /// The disk.
        disk: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The sockets cannot be listened on. Cure: another address, or stop who uses it.
    Listen(io::Error),
    /// TLS cannot be done with the files that the config names. Cure: as the reason says.
    Tls(TlsError),
    /// The system gave no thread.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backing { place, disk, reason } => {
                write!(f, "{place}: [[disk]] \"{disk}\": {reason}")
            }
            Self::Listen(error) => write!(f, "listen: {error}"),
            Self::Tls(error) => write!(f, "[nbd]: found {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// What stands before the disk of this name.
pub type Before<'a> = &'a dyn Fn(&str, Box<dyn Disk>) -> Box<dyn Disk>;

/// A disk that is opened and not yet served.
struct Opened {
    brain: Brain,
    disk: Box<dyn Disk>,
}

impl Daemon {
    /// Serves `plan` on these addresses.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start(plan: &Plan, addresses: &[Address]) -> Result<Self, StartError> {
        Self::start_with(plan, addresses, || Ok(())).map(|(daemon, ())| daemon)
    }

    /// The same, with something before each disk: faults, for tests of what becomes of them.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start_behind(
        plan: &Plan,
        addresses: &[Address],
        before: Before<'_>,
    ) -> Result<Self, StartError> {
        Self::start_all(plan, addresses, before, || Ok(())).map(|(daemon, ())| daemon)
    }

    /// The same. When all that can fail before has not, `also` is done; where it fails, nothing is left either.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start_with<T>(
        plan: &Plan,
        addresses: &[Address],
        also: impl FnOnce() -> io::Result<T>,
    ) -> Result<(Self, T), StartError> {
        Self::start_all(plan, addresses, &|_, disk| disk, also)
    }

    fn start_all<T>(
        plan: &Plan,
        addresses: &[Address],
        before: Before<'_>,
        also: impl FnOnce() -> io::Result<T>,
    ) -> Result<(Self, T), StartError> {
        let clock = Clock::start();
        let server = Server::adopt_or_bind(addresses).map_err(StartError::Listen)?;
        let allowed = settings(&plan.nbd).map_err(StartError::Tls)?;
        let server = server.with_settings(allowed).expect("the config's limits are these");
        let mut disks = Vec::with_capacity(plan.disks.len());
        let mut new = NewFiles::default();
        for disk in &plan.disks {
            disks.push(open(plan, disk, &mut new, clock.now())?);
        }
        let routes = Arc::new(place_volumes(plan, &mut disks, clock.now()));
        let addresses = server.addresses().map_err(StartError::Listen)?;
        let handle = server.handle();
        let inboxes: Vec<_> = disks.iter().map(|_| Arc::new(Inbox::default())).collect();
        let threads = disks.into_iter().zip(&plan.disks).zip(&inboxes);
        let threads = threads.map(|((opened, disk), inbox)| {
            let (name, inbox) = (disk.name.clone(), inbox.clone());
            let guarded = Guarded::new(before(&name, opened.disk));
            let thread = DiskThread::new(name, clock, opened.brain, guarded, inbox, handle.clone());
            Arc::new(Mutex::new(thread))
        });
        let threads: Vec<Shared> = threads.collect();
        let also = also().map_err(StartError::Listen)?;
        let doors = threads.iter().zip(&inboxes).map(|(disk, inbox)| Door::of(disk, inbox));
        let mut router = Router::new(routes.clone(), doors.collect());
        let exports = routes.clone();
        let serve = move || server.run(exports, &mut router, &|| clock.now());
        let started = spawn_all(plan, threads, serve);
        let names = plan.disks.iter().map(|disk| disk.name.clone());
        let live = Live { clock, handle, routes, inboxes, disks: names.collect() };
        let (disks, serving) = started.inspect_err(|_| live.stop_disks())?;
        new.keep();
        Ok((Self { live: Arc::new(live), addresses, serving, disks }, also))
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The daemon's time.
    pub fn now(&self) -> Instant {
        self.live.now()
    }

    /// How things stand.
    ///
    /// # Panics
    /// If a disk's thread has panicked.
    pub fn status(&self) -> Status {
        self.live.status(Look::All)
    }

    /// An operator of this daemon, which serves what `document` says. To be done with before [`Daemon::stop`].
    pub fn operator(&self, document: Document) -> Operator {
        Operator::new(Arc::clone(&self.live), document)
    }

    /// Stops: reads no further request, answers those it has, and says how things stood in the end.
    ///
    /// # Errors
    /// When the sockets' thread ended with one.
    ///
    /// # Panics
    /// If a thread has panicked.
    pub fn stop(self) -> io::Result<Status> {
        self.live.handle.stop();
        let served = self.serving.join().expect("the sockets' thread does not panic");
        self.live.stop_disks();
        let views =
            self.disks.into_iter().map(|disk| disk.join().expect("a disk's thread does not panic"));
        let status = self.live.assemble(views.collect());
        served.map(|()| status)
    }
}

const _: () = assert!(config::limits::MEMORY_SIZE_MAX.0 <= backend::RAM_BYTES_MAX.0);
const _: () = assert!(config::limits::CONNECTIONS_MAX == frontend::limits::CONNECTIONS_MAX);
const _: () = assert!(config::limits::CONNECTION_REQUESTS_MAX == frontend::limits::REQUESTS_MAX);
const _: () = assert!(
    config::limits::CONNECTION_MEMORY_MAX.0 == frontend::limits::BYTES_IN_FLIGHT_MAX as u64
);
const _: () = assert!(config::limits::CONNECTION_MEMORY_MIN.0 == frontend::limits::MEMORY_MIN.0);

/// What a config allows, in the frontend's words.
fn settings(nbd: &config::Nbd) -> Result<Settings, TlsError> {
    let read = |tls: &config::Tls| {
        let files = TlsFiles {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            client_authorities: tls.client_ca.clone(),
        };
        Tls::read(&files, tls.required)
    };
    Ok(Settings {
        listing: if nbd.list { Listing::Open } else { Listing::Hidden },
        connections_max: nbd.connections,
        export_connections_max: nbd.volume_connections,
        requests_max: nbd.requests,
        memory_max: nbd.memory,
        handshake_max: nbd.handshake,
        stall_max: nbd.stall,
        tls: nbd.tls.as_ref().map(read).transpose()?,
    })
}

/// The disks' threads and the sockets' one.
type Threads = (Vec<JoinHandle<DiskView>>, JoinHandle<io::Result<()>>);

fn spawn_all(
    plan: &Plan,
    threads: Vec<Shared>,
    serve: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<Threads, StartError> {
    let disks = threads.into_iter().zip(&plan.disks);
    let running = disks.map(|(thread, disk)| spawn(&disk.name, move || DiskThread::run(&thread)));
    Ok((running.collect::<Result<_, _>>()?, spawn("nbd", serve)?))
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    // Linux keeps 15 bytes of a thread's name; a config may use more, of any script.
    let name: String = name.chars().filter(char::is_ascii_graphic).take(15).collect();
    thread::Builder::new().name(name).spawn(work).map_err(StartError::Thread)
}

/// Backing files that were not there before: removed, unless everything could be started.
#[derive(Default)]
struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // One that cannot be removed is empty, and the next start takes it.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn open(
    plan: &Plan,
    disk: &config::Disk,
    new: &mut NewFiles,
    now: Instant,
) -> Result<Opened, StartError> {
    let emulated = |store: Box<dyn Store>| -> Box<dyn Disk> {
        Box::new(Emulated::new(disk.drive.model.clone(), store))
    };
    let behind = match &disk.backing {
        Backing::Ram => emulated(Box::<RamStore>::default()),
        Backing::File(path) => {
            let store = open_file(plan, disk, path)?;
            new.0.extend(store.is_new().then(|| path.clone()));
            emulated(Box::new(store))
        }
        Backing::Real(real) => Box::new(open_real(plan, disk, real)?),
        Backing::Memory => Box::new(Memory::new(disk.drive.model.capacity())),
        Backing::Null => Box::new(Null::new(disk.drive.model.capacity())),
    };
    let engine = disk.engine_on_host(now);
    let timed = disk.execution.preemptible().is_some_and(|how| how.jit.is_some());
    if timed && disk.depth > 1 {
        eprintln!(
            "disk {}: just-in-time seeks and seek splitting are off: with a depth above 1 the order is the drive's",
            disk.name
        );
    }
    let brain = Brain { engine, seats: Seats::default(), agenda: Agenda::default() };
    Ok(Opened { brain, disk: behind })
}

fn open_file(plan: &Plan, disk: &config::Disk, path: &Path) -> Result<FileStore, StartError> {
    FileStore::open(path, disk.drive.model.capacity()).map_err(|error| StartError::Backing {
        place: format!("{}:{}", plan.file, disk.line),
        disk: disk.name.clone(),
        reason: format!(
            "field `backing`: found `{}`, expected a file that can be used ({error})",
            path.display()
        ),
    })
}

fn open_real(plan: &Plan, disk: &config::Disk, real: &config::Real) -> Result<Real, StartError> {
    let (capacity, depth) = (disk.drive.model.capacity(), disk.depth);
    let opening = Opening { capacity, depth, buffered: real.buffered, adopt: real.adopt };
    Real::open(&real.path, opening).map_err(|error| StartError::Backing {
        place: format!("{}:{}", plan.file, disk.line),
        disk: disk.name.clone(),
        reason: format!("field `path`: found `{}`, {error}", real.path.display()),
    })
}

fn place_volumes(plan: &Plan, disks: &mut [Opened], now: Instant) -> Routes {
    let routes = Routes::default();
    for (index, volume) in plan.volumes.iter().enumerate() {
        let (disk, export) = (volume.disk.0, routes.number());
        let id = disks[disk].brain.add(volume, export, now);
        let (name, size, map) = (volume.name.clone(), volume.size, operator::map(plan, index));
        let medium = Medium::of(&plan.disks[disk]);
        let clients = router::clients(volume);
        routes.publish(export, Route { name, size, disk, volume: id, map, medium, clients });
    }
    routes
}
