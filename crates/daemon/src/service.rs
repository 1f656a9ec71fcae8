//! Starting and stopping: all of it, or nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{fmt, io, thread};

use backend::{Backend, Disk, FaultRates, HealthMonitor, RandomFaults, RealOptions};
use config::{Backing, Document, Plan};
use engine::ContractSchedule;
use nbd::{Address, Listing, Server, Settings, Tls, TlsError, TlsFiles};
use units::Instant;

use crate::disk::{Brain, DiskThread, Fittings, Joins};
use crate::door::{Door, Shared};
use crate::inbox::{Inbox, Look};
use crate::live::Live;
use crate::observe::{Observer, Watchers};
use crate::operator::{self, ChangeError, Operator};
use crate::pool::{self, PoolError, Served};
use crate::record::Recorder;
use crate::router::{self, Home, Medium, Route, Router, Routes};
use crate::seats::Seats;
use crate::status::{DiskView, Status};
use host::Clock;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    live: Arc<Live>,
    addresses: Vec<Address>,
    serving: JoinHandle<io::Result<()>>,
    disks: Vec<JoinHandle<DiskView>>,
    recorder: Option<Recorder>,
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
    /// The config's pool is not on its disks. Cure: as the words say.
    Pool(PoolError),
    /// A volume of the config is not in the pool, and cannot be made.
    Volume {
        /// The config's file, and the line of the volume's table.
        place: String,
        /// Which.
        name: String,
        /// Why not.
        error: ChangeError,
    },
    /// TLS cannot be done with the files that the config names. Cure: as the reason says.
    Tls(TlsError),
    /// Flight records cannot be kept where the config says. Cure: as the reason says.
    Record {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system gave no thread.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backing { place, disk, reason } => {
                write!(f, "{place}: [[disk]] \"{disk}\": {reason}")
            }
            Self::Pool(error) => error.fmt(f),
            Self::Volume { place, name, error } => {
                write!(
                    f,
                    "{place}: volume \"{name}\" is not in the pool, and cannot be made: {error}"
                )
            }
            Self::Listen(error) => write!(f, "listen: {error}"),
            Self::Tls(error) => write!(f, "[nbd]: found {error}"),
            Self::Record { directory, error } => {
                let directory = directory.display();
                write!(
                    f,
                    "[log]: field `record`: found `{directory}`, expected a directory that can be written to ({error})"
                )
            }
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

impl Opened {
    fn inbox(&self) -> io::Result<Inbox> {
        if self.disk.completion_fd().is_some() { Inbox::with_alarm() } else { Ok(Inbox::default()) }
    }
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
        let sockets = sockets_threads();
        let server = listen(plan, addresses, sockets)?;
        let recorder = plan.log.record.as_ref().map(|record| {
            let directory = record.directory.clone();
            Recorder::start(record).map_err(|error| StartError::Record { directory, error })
        });
        let recorder = recorder.transpose()?;
        let mut disks = Vec::with_capacity(plan.disks.len());
        let mut new = NewFiles::default();
        for (place, disk) in plan.disks.iter().enumerate() {
            disks.push(open(plan, (place, disk), recorder.as_ref(), &mut new, clock.now())?);
        }
        let found = find_pool(plan, &mut disks)?;
        let routes = Arc::new(place_volumes(plan, &mut disks, clock.now()));
        let addresses = server.addresses().map_err(StartError::Listen)?;
        let handle = server.handle();
        let inboxes = disks.iter().map(|opened| opened.inbox().map(Arc::new));
        let inboxes: Vec<_> = inboxes.collect::<io::Result<_>>().map_err(StartError::Thread)?;
        let served = found.map(|found| {
            let mut brains = disks.iter_mut().map(|opened| &mut opened.brain).enumerate().collect();
            let (members, tenants) =
                pool::seat(plan, (&found.pool, &found.places), &mut brains, &routes, clock.now());
            let (inboxes, handle) = (inboxes.clone(), handle.clone());
            Arc::new(Served::new(found.pool, members, tenants, inboxes, handle))
        });
        let watchers = Arc::new(Watchers::new(plan.log.slow));
        let threads = disks.into_iter().zip(&plan.disks).zip(&inboxes).enumerate();
        let threads = threads.map(|(place, ((opened, disk), inbox))| {
            let observer = Observer::new(place, watchers.clone());
            let (name, inbox) = (disk.name.clone(), inbox.clone());
            let guarded = HealthMonitor::new(before(&name, opened.disk));
            let (handle, pool) = (handle.clone(), served.clone());
            let fittings = Fittings { inbox, handle, pool, observer };
            let disk = DiskThread::new(name, clock, opened.brain, guarded, fittings);
            disk.map(|disk| Arc::new(Mutex::new(disk)))
        });
        let threads: Vec<Shared> =
            threads.collect::<io::Result<_>>().map_err(StartError::Thread)?;
        let also = also().map_err(StartError::Listen)?;
        let router = |_| {
            let doors = threads.iter().zip(&inboxes).map(|(disk, inbox)| Door::of(disk, inbox));
            Router::new(routes.clone(), doors.collect(), served.clone(), clock)
        };
        let mut routers: Vec<_> = (0..sockets).map(router).collect();
        let exports = routes.clone();
        let serve = move || server.run_on_threads(&*exports, &mut routers, &|| clock.now());
        let started = spawn_all(plan, threads, serve);
        let names = plan.disks.iter().map(|disk| disk.name.clone());
        let disks = names.collect();
        let keeper = std::sync::Mutex::default();
        let live = Arc::new(Live {
            clock,
            watchers,
            handle,
            routes,
            inboxes,
            disks,
            pool: served,
            keeper,
        });
        let (disks, serving) = started.inspect_err(|_| live.stop_disks())?;
        let daemon = Self { live, addresses, serving, disks, recorder };
        if let Err(error) = daemon.live.open_pool(plan) {
            // What was served meanwhile, if anything, has its answers.
            drop(daemon.stop());
            return Err(error);
        }
        new.keep();
        Ok((daemon, also))
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
        let operator = Operator::new(Arc::clone(&self.live), document);
        if self.live.pool.is_some() {
            let mut keeper = self.live.keeper.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = pool::keep(operator.clone());
            *keeper = kept.inspect_err(|error| eprintln!("pool: nobody tidies up: {error}")).ok();
        }
        operator
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
        self.live.close_disks();
        let served = self.serving.join().expect("the sockets' thread does not panic");
        self.live.leave_disks();
        if let Some(pool) = &self.live.pool {
            pool.close();
            let keeper = self.live.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(keeper) = keeper {
                keeper.join().expect("the keeper does not panic");
            }
            pool.rest();
        }
        self.live.stop_disks();
        let views =
            self.disks.into_iter().map(|disk| disk.join().expect("a disk's thread does not panic"));
        let status = self.live.assemble(views.collect());
        if let Some(recorder) = self.recorder {
            recorder.finish();
        }
        served.map(|()| status)
    }
}

const _: () = assert!(config::limits::MEMORY_SIZE_MAX.0 <= backend::RAM_BYTES_MAX.0);
const _: () = assert!(config::limits::CONNECTIONS_MAX == nbd::limits::CONNECTIONS_MAX);
const _: () = assert!(config::limits::CONNECTION_REQUESTS_MAX == nbd::limits::REQUESTS_MAX);
const _: () =
    assert!(config::limits::CONNECTION_MEMORY_MAX.0 == nbd::limits::BYTES_IN_FLIGHT_MAX as u64);
const _: () = assert!(config::limits::CONNECTION_MEMORY_MIN.0 == nbd::limits::MEMORY_MIN.0);

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
        handshake_timeout: nbd.handshake,
        stall_timeout: nbd.stall,
        tls: nbd.tls.as_ref().map(read).transpose()?,
    })
}

fn listen(plan: &Plan, addresses: &[Address], threads: usize) -> Result<Server, StartError> {
    let server = Server::adopt_or_bind(addresses).map_err(StartError::Listen)?;
    let allowed = settings(&plan.nbd).map_err(StartError::Tls)?;
    let server = server.with_settings(allowed).expect("the config's limits are these");
    server.with_threads(threads).map_err(StartError::Listen)
}

/// One for each processor, as far as the server takes them: a client is served where its own thread's data is at hand.
fn sockets_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(nbd::limits::THREADS_MAX)
}

/// The disks' threads and the sockets' first one.
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
    (place, disk): (usize, &config::Disk),
    recorder: Option<&Recorder>,
    new: &mut NewFiles,
    now: Instant,
) -> Result<Opened, StartError> {
    let opened = open_backing(plan, disk, &disk.backing)?;
    if let (true, Backing::File(path)) = (opened.created_file, &disk.backing) {
        new.0.push(path.clone());
    }
    let behind = opened.disk;
    let behind = match disk.faults {
        Some(faults) => flaky(&disk.name, faults, behind),
        None => behind,
    };
    let engine = match recorder {
        Some(recorder) => recorder.engine(plan, place, disk, now),
        None => disk.engine_on_host(now).into(),
    };
    let timed = disk.execution.preemptible().is_some_and(|how| how.jit.is_some());
    if timed && disk.depth > 1 {
        eprintln!(
            "disk {}: just-in-time seeks and seek splitting are off: with a depth above 1 the order is the drive's",
            disk.name
        );
    }
    let brain = Brain { engine, seats: Seats::default(), agenda: ContractSchedule::default() };
    Ok(Opened { brain, disk: behind })
}

/// The disk, with faults put into it, and a word of warning.
fn flaky(name: &str, faults: config::Faults, disk: Box<dyn Disk>) -> Box<dyn Disk> {
    let config::Faults { seed, read, write, flush, stall, stall_for, vanish_after } = faults;
    let gone = vanish_after.map(|last| format!(", and gone after {last} commands"));
    eprintln!(
        "disk {name}: faults are put into it, drawn from seed {seed}: reads fail {read}, writes {write}, flushes {flush}; \
         {stall} of the commands stall for {stall_for}{}",
        gone.unwrap_or_default()
    );
    let odds = FaultRates { seed, read, write, flush, stall, stall_for, vanish_after };
    Box::new(RandomFaults::new(disk, odds))
}

/// Opens the disk behind a `[[disk]]` table.
pub(crate) fn open_backing(
    plan: &Plan,
    disk: &config::Disk,
    backing: &Backing,
) -> Result<backend::Opened, StartError> {
    let model = disk.drive.model.clone();
    let (capacity, depth) = (model.capacity(), disk.depth);
    let (chosen, at) = match backing {
        Backing::Ram => (Backend::EmulatedInMemory(model), None),
        Backing::File(path) => (Backend::EmulatedInFile(model, path), Some(("backing", path))),
        Backing::Memory => (Backend::Memory(capacity), None),
        Backing::Null => (Backend::Null(capacity), None),
        Backing::Real(real) => {
            let config::RealDisk { buffered, adopt, io_method, .. } = *real;
            let ring = io_method == config::IoMethod::IoUring;
            let options = RealOptions { capacity, depth, buffered, adopt, ring };
            (Backend::Real(&real.path, options), Some(("path", &real.path)))
        }
    };
    backend::open(chosen).map_err(|error| {
        let (field, path) = at.expect("only a path fails to open");
        let found = path.display();
        let reason = match error {
            backend::OpenError::File(error) => format!(
                "field `{field}`: found `{found}`, expected a file that can be used ({error})"
            ),
            backend::OpenError::Real(error) => format!("field `{field}`: found `{found}`, {error}"),
        };
        let place = format!("{}:{}", plan.file, disk.line);
        StartError::Backing { place, disk: disk.name.clone(), reason }
    })
}

/// The pool that the config says there is.
fn find_pool(plan: &Plan, disks: &mut [Opened]) -> Result<Option<pool::Opened>, StartError> {
    let Some(planned) = &plan.pool else { return Ok(None) };
    let mut of = disks.iter_mut().enumerate().collect::<Vec<_>>();
    of.retain(|(disk, _)| planned.disks.contains(&config::DiskIndex(*disk)));
    let ram = |(disk, _): &(usize, _)| {
        matches!(plan.disks[*disk].backing, Backing::Ram | Backing::Memory)
    };
    if of.iter().all(ram) {
        let sizes: Vec<_> =
            of.iter().map(|(disk, opened)| (*disk, opened.disk.capacity())).collect();
        let made = pool::in_memory(&sizes).map_err(StartError::Thread)?;
        return Ok(Some(made.expect("the config has looked at the disks")));
    }
    let of = of
        .into_iter()
        .map(|(disk, opened)| (disk, opened.disk.as_mut() as &mut dyn Disk))
        .collect();
    let found = pool::open(plan, planned.line, of).map_err(StartError::Pool)?;
    for words in &found.words {
        eprintln!("{words}");
    }
    Ok(Some(found))
}

fn place_volumes(plan: &Plan, disks: &mut [Opened], now: Instant) -> Routes {
    let routes = Routes::default();
    for (index, volume) in plan.volumes.iter().enumerate() {
        let (disk, export) = (volume.disk.0, routes.number());
        let id = disks[disk].brain.join(export, Joins::of(volume), now);
        let (name, size, map) = (volume.name.clone(), volume.size, operator::map(plan, index));
        let medium = Medium::of(&plan.disks[disk]);
        let clients = router::clients(volume.clients.as_ref());
        let home = Home::Disk { disk, volume: id, map };
        routes.publish(export, Route { name, size, home, medium, clients });
    }
    routes
}
