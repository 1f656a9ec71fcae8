//! Starting the daemon.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{io, thread};

use backend::{AbsentDisk, Disk, HealthMonitor, SlowDiskRule};
use config::{DiskIndex, Document, Plan, SharedBuses};
use host::Clock;
use nbd::{Address, Server};
use ublk::{DeviceId, UblkError};
use units::Instant;

use super::error::StartError;
use super::pool::{self, OpenedDisk};
use super::server::{listen, thread_count};
use crate::block_devices::BlockDevices;
use crate::changes::operator::Operator;
use crate::changes::{maintenance, stream_watch};
use crate::disk::handle::{DiskHandle, SharedDisk};
use crate::disk::inbox::Inbox;
use crate::disk::message::StatsDetail;
use crate::disk::open::{self, NewFiles};
use crate::disk::scheduler::DiskScheduler;
use crate::disk::terms::VolumeTerms;
use crate::disk::thread::{DiskThread, DiskThreadDeps};
use crate::observe::observer::Observer;
use crate::observe::recorder::Recorder;
use crate::observe::status::{DiskSnapshot, Status};
use crate::observe::subscribers::Subscribers;
use crate::pool::service::PoolService;
use crate::pool::sums::PoolSums;
use crate::routing::router::Router;
use crate::routing::routes::{Route, Routes};
use crate::state::DaemonState;
use crate::stop_signal::StopSignal;

const _: () = assert!(config::limits::MEMORY_SIZE_MAX.0 <= backend::RAM_BYTES_MAX.0);

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    pub(crate) state: Arc<DaemonState>,
    addresses: Vec<Address>,
    pub(crate) server: JoinHandle<io::Result<()>>,
    pub(crate) disks: Vec<JoinHandle<DiskSnapshot>>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) vhost_user: Option<vhost_user::Server>,
}

/// Wraps the backend of the disk of this name in another layer.
pub type Layer<'a> = &'a dyn Fn(&str, Box<dyn Disk>) -> Box<dyn Disk>;

impl Daemon {
    /// Serves `plan` on these addresses.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start(plan: &Plan, addresses: &[Address]) -> Result<Self, StartError> {
        Self::start_with(plan, addresses, || Ok(())).map(|(daemon, ())| daemon)
    }

    /// Serves `plan` with a layer around each disk, such as faults in tests.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start_behind(
        plan: &Plan,
        addresses: &[Address],
        layer: Layer<'_>,
    ) -> Result<Self, StartError> {
        Self::start_all(plan, addresses, layer, || Ok(())).map(|(daemon, ())| daemon)
    }

    /// Serves `plan`, and does `also` when everything before that can fail has succeeded. If `also`
    /// fails, nothing is left running either.
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
        layer: Layer<'_>,
        also: impl FnOnce() -> io::Result<T>,
    ) -> Result<(Self, T), StartError> {
        // What serves block devices must not wait for them to get memory: threads inherit this. It
        // takes a privilege (CAP_SYS_RESOURCE), without which memory may be short under pressure.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        let clock = Clock::start();
        let server = listen(plan, addresses, thread_count())?;
        let recorder = start_recorder(plan)?;
        let mut new = NewFiles::default();
        let buses = plan.shared_buses();
        let mut disks = open_disks((plan, &buses), recorder.as_ref(), &mut new, clock.now())?;
        let found = pool::find_pool(plan, &mut disks)?;
        let routes = Arc::new(attach_volumes(plan, &mut disks, clock.now()));
        let addresses = server.addresses().map_err(StartError::Listen)?;
        let handle = server.handle();
        let inboxes = disks.iter().map(|opened| inbox(opened).map(Arc::new));
        let inboxes: Vec<_> = inboxes.collect::<io::Result<_>>().map_err(StartError::Thread)?;
        let pool = found.map(|found| {
            let places = (&found.pool, &found.disks);
            let (members, accounts) = pool::attach(plan, places, &mut disks, &routes, clock.now());
            let (inboxes, handle) = (inboxes.clone(), handle.clone());
            let pool = (found.pool, PoolSums::new(found.sums));
            let service = PoolService::new(pool, members, accounts, inboxes, handle);
            service.set_domains(&plan.disks, None);
            Arc::new(service)
        });
        let subscribers = Arc::new(Subscribers::new(plan.log.slow));
        let names = plan.disks.iter().map(|disk| disk.name.clone()).collect();
        let maintenance = Mutex::default();
        let state = DaemonState {
            clock,
            subscribers,
            handle,
            routes,
            inboxes,
            disks: names,
            buses,
            pool,
            block_devices: BlockDevices::default(),
            maintenance,
            stream_watch: Mutex::default(),
            stop_stream_watch: StopSignal::default(),
        };
        let slow = plan.pool.as_ref().map(|pool| SlowDiskRule::new(pool.slow_after));
        let threads = disk_threads(&state, (disks, slow), layer).map_err(StartError::Thread)?;
        let also = also().map_err(StartError::Listen)?;
        let started = spawn_all(&state, threads, server);
        let (disks, server) = started.inspect_err(|_| state.stop_disks())?;
        let vhost_user = None;
        let state = Arc::new(state);
        let mut daemon = Self { state, addresses, server, disks, recorder, vhost_user };
        let opened = daemon.state.open_pool(plan).and_then(|()| daemon.serve_vhost_user(plan));
        if let Err(error) = opened {
            // Requests that were served meanwhile are answered.
            drop(daemon.stop());
            return Err(error);
        }
        new.keep();
        Ok((daemon, also))
    }

    /// Serves the volumes to virtual machines, if the config says so.
    fn serve_vhost_user(&mut self, plan: &Plan) -> Result<(), StartError> {
        let Some(directory) = &plan.vhost_user else { return Ok(()) };
        let (routes, handle) = (self.state.routes.clone(), self.state.handle.clone());
        let server = vhost_user::Server::start(directory, routes, handle);
        let server = server.map_err(StartError::VhostUser)?;
        self.state.routes.set_waker(server.waker());
        self.vhost_user = Some(server);
        Ok(())
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The daemon's time.
    pub fn now(&self) -> Instant {
        self.state.now()
    }

    /// The statistics.
    ///
    /// # Panics
    /// If a disk's thread has panicked.
    pub fn status(&self) -> Status {
        self.state.status(StatsDetail::All)
    }

    /// The statistics without latencies: less work for the disks' threads, which count all of them.
    pub fn accounts(&self) -> Status {
        self.state.status(StatsDetail::NoLatencies)
    }

    /// Serves a volume as a block device that ends with this process. Returns its path.
    ///
    /// # Errors
    /// See [`ublk::UblkError`]; no device was added then.
    pub fn emulate_block_device(&self, volume: &str) -> Result<DeviceId, UblkError> {
        self.state.block_devices.emulate(volume, (&self.state.routes, &self.state.handle))
    }

    /// Whether a volume's block device is there: not removed by another process.
    pub fn has_block_device(&self, volume: &str) -> bool {
        self.state.block_devices.is_there(volume)
    }

    /// Removes a volume's block device, unless it is in use.
    ///
    /// # Errors
    /// See [`ublk::UblkError`]; the device stays then.
    pub fn remove_block_device(&self, volume: &str) -> Result<(), UblkError> {
        self.state.block_devices.close(volume, false)
    }

    /// An operator of this daemon, which serves `document`. It is used before [`Daemon::stop`].
    pub fn operator(&self, document: Document) -> Operator {
        let operator = Operator::new(Arc::clone(&self.state), document);
        operator.end_removals_at_start();
        if self.state.pool.is_some() {
            let lock = self.state.maintenance.lock();
            let mut thread = lock.unwrap_or_else(PoisonError::into_inner);
            let spawned = maintenance::spawn(operator.clone());
            let spawned =
                spawned.inspect_err(|error| eprintln!("pool: no maintenance thread: {error}"));
            *thread = spawned.ok();
        }
        let mut watch = self.state.stream_watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.is_none() {
            let spawned = stream_watch::spawn(operator.clone());
            let spawned =
                spawned.inspect_err(|error| eprintln!("streams: no thread watches: {error}"));
            *watch = spawned.ok();
        }
        operator
    }
}

fn start_recorder(plan: &Plan) -> Result<Option<Recorder>, StartError> {
    let recorder = plan.log.record.as_ref().map(|record| {
        let directory = record.directory.clone();
        Recorder::start(record).map_err(|error| StartError::Record { directory, error })
    });
    recorder.transpose()
}

/// Opens the backends, and creates the engines.
fn open_disks(
    (plan, buses): (&Plan, &SharedBuses),
    recorder: Option<&Recorder>,
    new: &mut NewFiles,
    now: Instant,
) -> Result<Vec<OpenedDisk>, StartError> {
    let mut disks = Vec::with_capacity(plan.disks.len());
    for (index, disk) in plan.disks.iter().enumerate() {
        let (opened, log, absent) = match open::open_with_log(plan, disk, buses, new) {
            Ok((opened, log)) => (opened, log, None),
            Err(error) if pool::may_be_absent(plan, DiskIndex(index)) => {
                let absent = AbsentDisk::new(disk.drive.model.capacity());
                (Box::new(absent) as Box<dyn Disk>, None, Some(error))
            }
            Err(error) => return Err(error.into()),
        };
        let disk = &open::with_found_cache(disk, opened.write_cache());
        let engine = match recorder {
            Some(recorder) => recorder.engine(plan, DiskIndex(index), disk, now),
            None => disk.engine_on_host(now).into(),
        };
        let has_jit = disk.execution.preemptible().is_some_and(|how| how.jit.is_some());
        if has_jit && disk.depth > 1 {
            eprintln!(
                "disk {}: just-in-time seeks and seek splitting are off: with a depth above 1 the \
                 order is the drive's",
                disk.name
            );
        }
        let scheduler = DiskScheduler::new(engine, disk, log);
        disks.push(OpenedDisk { scheduler, disk: opened, absent });
    }
    Ok(disks)
}

fn inbox(opened: &OpenedDisk) -> io::Result<Inbox> {
    if opened.disk.completion_fd().is_some() { Inbox::with_wake_fd() } else { Ok(Inbox::default()) }
}

/// Attaches the volumes of single disks, and publishes them.
fn attach_volumes(plan: &Plan, disks: &mut [OpenedDisk], now: Instant) -> Routes {
    let routes = Routes::default();
    for volume in &plan.volumes {
        let (disk, export) = (volume.disk, routes.next_export());
        let id = disks[disk.0].scheduler.attach(export, &VolumeTerms::of(volume), now);
        routes.publish(export, Route::of_extent(plan, volume, id));
    }
    routes
}

fn disk_threads(
    state: &DaemonState,
    (disks, slow): (Vec<OpenedDisk>, Option<SlowDiskRule>),
    layer: Layer<'_>,
) -> io::Result<Vec<SharedDisk>> {
    let disks = disks.into_iter().zip(&state.disks).zip(&state.inboxes).enumerate();
    let threads = disks.map(|(index, ((opened, name), inbox))| {
        let observer = Observer::new(DiskIndex(index), state.subscribers.clone());
        let mut disk = match opened.absent {
            Some(_) => HealthMonitor::offline(opened.disk),
            None => HealthMonitor::new(layer(name, opened.disk)),
        };
        if let Some(rule) = slow {
            disk.watch_for_slowness(rule);
        }
        let (inbox, handle, pool) = (inbox.clone(), state.handle.clone(), state.pool.clone());
        let deps = DiskThreadDeps { inbox, handle, pool, observer };
        let named = (DiskIndex(index), name.clone());
        let thread = DiskThread::new(named, state.clock, opened.scheduler, disk, deps);
        thread.map(|thread| Arc::new(Mutex::new(thread)))
    });
    threads.collect()
}

/// The disks' threads and the server's first one.
type Threads = (Vec<JoinHandle<DiskSnapshot>>, JoinHandle<io::Result<()>>);

fn spawn_all(
    state: &DaemonState,
    threads: Vec<SharedDisk>,
    server: Server,
) -> Result<Threads, StartError> {
    let clock = state.clock;
    let router = |_| {
        let disks = threads.iter().zip(&state.inboxes);
        let disks = disks.map(|(disk, inbox)| DiskHandle::new(disk, inbox));
        Router::new(state.routes.clone(), disks.collect(), state.pool.clone(), clock)
    };
    let mut routers: Vec<_> = (0..thread_count()).map(router).collect();
    let exports = state.routes.clone();
    let serve = move || server.run_on_threads(&*exports, &mut routers, &|| clock.now());
    let disks = threads.into_iter().zip(&state.disks);
    let disks = disks.map(|(thread, name)| spawn(name, move || DiskThread::run(&thread)));
    Ok((disks.collect::<Result<_, _>>()?, spawn("nbd", serve)?))
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    // Linux keeps 15 bytes of a thread's name; a config may use more, of any script.
    let name: String = name.chars().filter(char::is_ascii_graphic).take(15).collect();
    thread::Builder::new().name(name).spawn(work).map_err(StartError::Thread)
}
