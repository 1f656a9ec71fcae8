//! A socket for each export, and a thread for each virtual machine monitor that uses one.
//!
//! ```text
//!  directory/NAME.sock ─▶ "vhost-user" accepts ─▶ a thread answers the control messages
//!                                                        │ queues
//!                                                        ▼
//!                                                 an event loop of nbd::Server
//! ```
//!
//! Invariants: an export has one monitor at a time; the next one is answered when no request of the
//! one before is in progress; an export that is restricted to named NBD clients has no socket.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use nbd::{BoundSocket, Export, ExportId, Exports, Handle, SocketMode};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::device::Device;
use crate::limits::DEVICES_MAX;
use crate::monitor;

/// The length of a path that a socket's address holds, without its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// An export's socket, and its monitor.
#[derive(Debug)]
struct Entry {
    export: Export,
    socket: Arc<BoundSocket>,
    /// The device, while a monitor uses it, and a duplicate of its socket.
    monitor: Option<(Arc<Device>, OwnedFd)>,
}

/// The state that the threads share.
#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    handle: Handle,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Exports without a socket that were reported.
    reported: Mutex<BTreeMap<String, String>>,
    wake: OwnedFd,
    stopping: AtomicBool,
}

/// Wakes the server's thread when exports have changed. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

impl Waker {
    /// Exports have come, gone or changed their size.
    pub fn exports_changed(&self) {
        self.0.wake();
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves `exports` on sockets in `directory`, which is made if it is not there. Requests go
    /// through the event loops of `handle`.
    ///
    /// # Errors
    /// The directory cannot be made, or the system provides no thread or descriptor.
    pub fn start(directory: &Path, exports: Arc<dyn Exports>, handle: Handle) -> io::Result<Self> {
        std::fs::create_dir_all(directory).map_err(|error| {
            let directory = directory.display();
            let why = format!(
                "found `{directory}`, expected a directory for sockets, or a place to make one \
                 ({error})"
            );
            io::Error::new(error.kind(), why)
        })?;
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            handle,
            entries: Mutex::default(),
            reported: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stopping: AtomicBool::new(false),
        });
        // The sockets are there before anything says that the daemon runs.
        shared.update(&*exports);
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new().name("vhost-user".to_owned());
        let thread = thread.spawn(move || serving.run(&*exports))?;
        Ok(Self { shared, thread })
    }

    /// Wakes it when exports have changed.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Stops: hangs up on all monitors, which may reconnect to the next server. To be called when
    /// the event loops have ended.
    ///
    /// # Panics
    /// If a thread of it has panicked.
    pub fn stop(self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.wake();
        self.thread.join().expect("the thread of vhost-user does not panic");
    }
}

impl Shared {
    /// A poisoned lock is used on: the table is whole between statements.
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // One that cannot count any further is readable already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn run(self: &Arc<Self>, exports: &dyn Exports) {
        let mut monitors: Vec<JoinHandle<()>> = Vec::new();
        while !self.stopping.load(Ordering::SeqCst) {
            let (ready, woken) = self.wait();
            if woken {
                self.update(exports);
            }
            for name in ready {
                monitors.extend(self.accept(&name));
            }
            monitors.retain(|thread| !thread.is_finished());
        }
        for entry in self.entries().values() {
            if let Some((device, _)) = &entry.monitor {
                device.hang_up();
            }
        }
        for monitor in monitors {
            monitor.join().expect("a monitor's thread does not panic");
        }
        // Their files are removed.
        self.entries().clear();
    }

    /// Makes the sockets those of the exports now.
    fn update(&self, exports: &dyn Exports) {
        let all = exports.list();
        let mut entries = self.entries();
        let ids: BTreeMap<&str, ExportId> =
            all.iter().map(|export| (export.name.as_str(), export.id)).collect();
        let is_there = |name: &str, entry: &Entry| ids.get(name) == Some(&entry.export.id);
        entries.retain(|name, entry| entry.monitor.is_some() || is_there(name, entry));
        for export in &all {
            if export.clients.is_some() {
                let why = "found `clients`, expected none: a socket cannot ask for a certificate";
                self.report(&export.name, why);
                continue;
            }
            match entries.get_mut(&export.name) {
                Some(entry) if entry.export.id == export.id => {
                    if let Some((device, _)) = &entry.monitor {
                        device.resize(export);
                    }
                    entry.export = export.clone();
                }
                // The monitor of a volume of this name that was removed is hung up on.
                Some(_) => {}
                None => match self.bind(&export.name) {
                    Ok(socket) => {
                        let socket = Arc::new(socket);
                        let entry = Entry { export: export.clone(), socket, monitor: None };
                        entries.insert(export.name.clone(), entry);
                    }
                    Err(error) => self.report(&export.name, &error.to_string()),
                },
            }
        }
    }

    fn bind(&self, name: &str) -> io::Result<BoundSocket> {
        if name.contains('/') {
            return Err(io::Error::other("found a `/` in its name, expected a name for a file"));
        }
        let path = self.directory.join(format!("{name}.sock"));
        let bytes = path.as_os_str().len();
        if bytes > SOCKET_PATH_BYTES_MAX {
            let why = format!(
                "found a path of {bytes} bytes, expected at most {SOCKET_PATH_BYTES_MAX} (name a \
                 shorter directory in `vhost_user`)"
            );
            return Err(io::Error::other(why));
        }
        let socket = BoundSocket::bind(&path, SocketMode::Umask).map_err(|error| {
            let path = path.display();
            let why = format!(
                "found `{path}`, expected a place for a socket of its own ({error}; stop what is \
                 there, or name another directory in `vhost_user`)"
            );
            io::Error::new(error.kind(), why)
        })?;
        socket.listener.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Says once why an export has no socket.
    fn report(&self, name: &str, why: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert(name.to_owned(), why.to_owned()).as_deref() != Some(why) {
            eprintln!("vhost-user: volume {name} has no socket: {why}");
        }
    }

    /// Waits for a monitor or a change. Returns the exports that a monitor waits for, and whether
    /// there may be a change.
    fn wait(&self) -> (Vec<String>, bool) {
        /// How soon the end of a monitor's process is noticed whose requests are in progress.
        const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
        let sockets: Vec<(String, Arc<BoundSocket>)> = {
            let entries = self.entries();
            let free = entries.iter().filter(|(_, entry)| entry.may_accept());
            free.map(|(name, entry)| (name.clone(), Arc::clone(&entry.socket))).collect()
        };
        let listeners = sockets.iter().map(|(_, socket)| socket.listener.as_fd());
        let fds = listeners.chain([self.wake.as_fd()]);
        let mut fds: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // Interrupted: the caller looks again.
        let _ = poll(&mut fds, Some(&TICK));
        let ready = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        let names = sockets.iter().zip(&fds).filter(|(_, fd)| ready(fd));
        let names = names.map(|((name, _), _)| name.clone()).collect();
        // Emptied, so that the next change is seen.
        let woken = rustix::io::read(&self.wake, &mut [0_u8; 8]).is_ok();
        (names, woken)
    }

    /// Accepts a monitor, and answers it on a thread of its own.
    fn accept(self: &Arc<Self>, name: &str) -> Option<JoinHandle<()>> {
        let mut entries = self.entries();
        let in_use = entries.values().filter(|entry| entry.monitor.is_some()).count();
        // The monitor that used it may have hung up since: then the next one waits a little.
        let entry = entries.get_mut(name).filter(|entry| entry.may_accept())?;
        let (stream, _) = entry.socket.listener.accept().ok()?;
        if entry.monitor.is_some() {
            eprintln!(
                "vhost-user: volume {name}: found a second virtual machine, expected one at a time \
                 (stop the first, or give each a volume of its own)"
            );
            return None;
        }
        if in_use >= DEVICES_MAX {
            eprintln!(
                "vhost-user: volume {name}: found {DEVICES_MAX} devices in use, expected fewer \
                 (stop a virtual machine)"
            );
            return None;
        }
        let duplicates = stream.try_clone().and_then(|one| Ok((one, stream.try_clone()?)));
        let (to_end, to_watch) = duplicates.ok()?;
        let device = Arc::new(Device::new(entry.export.clone(), to_end.into()));
        entry.monitor = Some((Arc::clone(&device), to_watch.into()));
        drop(entries);
        let (shared, served) = (Arc::clone(self), name.to_owned());
        let work = move || shared.serve(&served, stream, &device);
        let spawned = thread::Builder::new().name("vhost-monitor".to_owned()).spawn(work);
        if spawned.is_err() {
            self.free(name);
        }
        spawned.ok()
    }

    fn serve(&self, name: &str, stream: UnixStream, device: &Arc<Device>) {
        if let Err(why) = monitor::serve(stream, device, &self.handle) {
            eprintln!("vhost-user: volume {name}: {why}");
        }
        self.free(name);
    }

    /// The monitor's device has ended.
    fn free(&self, name: &str) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.monitor = None;
        }
        self.wake();
    }
}

impl Entry {
    /// Whether a monitor may be accepted: to be served, or to be told that the export is in use.
    /// One that connects again waits until the requests of its former connection have ended.
    fn may_accept(&self) -> bool {
        let Some((_, socket)) = &self.monitor else { return true };
        let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let polled = poll(&mut fds, Some(&now));
        polled.is_ok() && !fds[0].revents().intersects(ended)
    }
}
