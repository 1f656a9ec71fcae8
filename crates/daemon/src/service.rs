//! Starting and stopping: all of it, or nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::{fmt, io, thread};

use backend::{Disk, Emulated, FileStore, RamStore, Store};
use config::{Backing, Plan};
use engine::Engine;
use frontend::{Address, Server};
use units::Instant;
use volume::{DiskId, Pool};

use crate::Clock;
use crate::disk::DiskThread;
use crate::inbox::{Inbox, Message};
use crate::router::{Route, Router, Routes};
use crate::status::{DiskStatus, DiskView, Status, VolumeStatus};

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    plan: Plan,
    routes: Arc<Routes>,
    inboxes: Vec<Arc<Inbox>>,
    addresses: Vec<Address>,
    handle: frontend::Handle,
    serving: JoinHandle<io::Result<()>>,
    disks: Vec<JoinHandle<DiskView>>,
    clock: Clock,
}

/// Why nothing was started.
#[derive(Debug)]
pub enum StartError {
    /// A disk's backing cannot be used. Cure: as the reason says.
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
    /// The system gave no thread.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backing { place, disk, reason } => {
                write!(f, "{place}: [[disk]] \"{disk}\": field `backing`: {reason}")
            }
            Self::Listen(error) => write!(f, "listen: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A disk that is opened and not yet served.
struct Opened {
    engine: Engine,
    volumes: usize,
    disk: Box<dyn Disk>,
}

impl Daemon {
    /// Serves `plan` on these addresses.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start(plan: &Plan, addresses: &[Address]) -> Result<Self, StartError> {
        let clock = Clock::start();
        let server = Server::bind(addresses).map_err(StartError::Listen)?;
        let mut disks = Vec::with_capacity(plan.disks.len());
        let mut new = NewFiles::default();
        for disk in &plan.disks {
            disks.push(open(plan, disk, &mut new, clock.now())?);
        }
        let routes = Arc::new(place_volumes(plan, &mut disks, clock.now()));
        let addresses = server.addresses().map_err(StartError::Listen)?;
        let handle = server.handle();
        let inboxes: Vec<_> = disks.iter().map(|_| Arc::new(Inbox::default())).collect();
        let threads = disks.into_iter().zip(&inboxes).map(|(opened, inbox)| {
            let engine = (opened.engine, opened.volumes);
            DiskThread::new(clock, engine, opened.disk, inbox.clone(), handle.clone())
        });
        let mut router = Router::new(routes.clone(), inboxes.clone());
        let exports = routes.clone();
        let serve = move || server.run(exports, &mut router, &|| clock.now());
        let started = spawn_all(plan, threads, serve).inspect_err(|_| stop_all(&inboxes));
        let (running, serving) = started?;
        new.keep();
        let (plan, disks) = (plan.clone(), running);
        Ok(Self { plan, routes, inboxes, addresses, handle, serving, disks, clock })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The daemon's time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// How things stand.
    ///
    /// # Panics
    /// If a disk's thread has panicked.
    pub fn status(&self) -> Status {
        let asked: Vec<_> = self
            .inboxes
            .iter()
            .map(|inbox| {
                let (to, from) = mpsc::sync_channel(1);
                inbox.put(&mut vec![Message::Look(to)]);
                from
            })
            .collect();
        let views = asked.into_iter().map(|from| from.recv().expect("a disk's thread answers"));
        self.assemble(views.collect())
    }

    /// Stops: reads no further request, answers those it has, and says how things stood in the end.
    ///
    /// # Errors
    /// When the sockets' thread ended with one.
    ///
    /// # Panics
    /// If a thread has panicked.
    pub fn stop(mut self) -> io::Result<Status> {
        self.handle.stop();
        let serving = std::mem::replace(&mut self.serving, thread::spawn(|| Ok(())));
        let served = serving.join().expect("the sockets' thread does not panic");
        stop_all(&self.inboxes);
        let disks = std::mem::take(&mut self.disks);
        let views =
            disks.into_iter().map(|disk| disk.join().expect("a disk's thread does not panic"));
        let status = self.assemble(views.collect());
        served.map(|()| status)
    }

    fn assemble(&self, views: Vec<DiskView>) -> Status {
        let volumes = self.routes.0.iter().zip(&self.plan.volumes).map(|(route, planned)| {
            let view = views[route.disk].volumes[route.volume.0 as usize].clone();
            VolumeStatus {
                name: route.name.clone(),
                disk: route.disk,
                contract: view.contract,
                account: view.account,
                latency: view.latency,
                error: view.error,
                runs: view.runs,
                declared: planned.declared,
            }
        });
        let volumes = volumes.collect();
        let disks = self.plan.disks.iter().zip(views).map(|(disk, view)| DiskStatus {
            name: disk.name.clone(),
            at: view.at,
            busy: view.busy,
            lateness: view.lateness,
        });
        Status { disks: disks.collect(), volumes }
    }
}

/// The disks' threads and the sockets' one.
type Threads = (Vec<JoinHandle<DiskView>>, JoinHandle<io::Result<()>>);

fn spawn_all(
    plan: &Plan,
    threads: impl Iterator<Item = DiskThread>,
    serve: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<Threads, StartError> {
    let disks = threads.zip(&plan.disks);
    let running = disks.map(|(thread, disk)| spawn(&disk.name, move || thread.run()));
    Ok((running.collect::<Result<_, _>>()?, spawn("nbd", serve)?))
}

/// Tells every disk's thread to end when it has answered what it has.
fn stop_all(inboxes: &[Arc<Inbox>]) {
    for inbox in inboxes {
        inbox.put(&mut vec![Message::Stop]);
    }
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
    let model = disk.drive.model.clone();
    let store: Box<dyn Store> = match &disk.backing {
        Backing::Ram => Box::<RamStore>::default(),
        Backing::File(path) => {
            let store = open_file(plan, disk, path)?;
            new.0.extend(store.is_new().then(|| path.clone()));
            Box::new(store)
        }
    };
    let engine = Engine::new(disk.settings(), now);
    Ok(Opened { engine, volumes: 0, disk: Box::new(Emulated::new(model, store)) })
}

fn open_file(plan: &Plan, disk: &config::Disk, path: &Path) -> Result<FileStore, StartError> {
    FileStore::open(path, disk.drive.model.capacity()).map_err(|error| StartError::Backing {
        place: format!("{}:{}", plan.file, disk.line),
        disk: disk.name.clone(),
        reason: format!("found `{}`, expected a file that can be used ({error})", path.display()),
    })
}

fn place_volumes(plan: &Plan, disks: &mut [Opened], now: Instant) -> Routes {
    let mut pool = Pool::new(plan.disks.iter().map(|disk| disk.drive.model.capacity()));
    let routes = plan.volumes.iter().map(|volume| {
        let disk = volume.disk.0;
        let size = volume.size.sectors_exact().expect("the plan's sizes are whole sectors");
        let place = DiskId(u32::try_from(disk).expect("disks are few"));
        let map = pool.allocate(place, size).expect("the plan's sizes fit");
        let id = disks[disk].engine.add_volume(volume.contract, now);
        disks[disk].volumes += 1;
        let (name, size) = (volume.name.clone(), volume.size);
        Route { name, size, disk, volume: id.expect("the plan's reserves fit"), map }
    });
    Routes(routes.collect())
}
