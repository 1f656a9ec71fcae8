//! What an operator does to a running daemon: volumes made, looked at, changed and removed, while clients are served.
//!
//! The state is the config that `serve` was started with: a change is an edit of that file. In this order:
//!
//! ```text
//!  edit, checked as any config is ──▶ (clients sent away, space erased) ──▶ file replaced ──▶ engine ──▶ answer
//!        │ refused: nothing changed                                           │ failed: put back
//! ```
//!
//! Invariants: changes are made one after another; one is answered when it is in the file for good and in the engine; what
//! the file holds is a config that `serve` takes; space that is given out reads as zeroes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::{fmt, io};

use config::{ConfigError, Document, Plan, VolumeEdit};
use nbd::ExportId;
use units::Instant;
use volume::pool::Failure;
use volume::{DiskExtent, DiskId, VolumeMap};

use crate::disk::Joins;
use crate::inbox::{Change, Look};
use crate::live::Live;
use crate::persist::{self, PersistError};
use crate::router::{self, Home, Medium, Route};
use crate::status::Status;

/// Changes the volumes of a running daemon. Clones are operators of the same one.
#[derive(Clone, Debug)]
pub struct Operator {
    pub(crate) live: Arc<Live>,
    document: Arc<RwLock<Arc<Document>>>,
    changing: Arc<Mutex<()>>,
}

/// How a creation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The volume is there now.
    New,
    /// It was there, exactly so.
    Unchanged,
}

/// Why nothing was changed.
#[derive(Debug)]
pub enum ChangeError {
    /// A value that cannot be, or that there is no room for ([`ConfigError::is_refusal`]). Cure: as it says.
    Config(ConfigError),
    /// Nothing of this name. Cure: as it says.
    Missing(ConfigError),
    /// A volume of this name is there, and is another. Cure: another name, or change that one.
    Exists {
        /// The name.
        name: String,
    },
    /// Clients have it open. Cure: have them disconnect, or use force.
    InUse {
        /// The volume.
        name: String,
        /// How many connections there are.
        connections: usize,
    },
    /// The config was edited since it was read. Cure: restart to have it take effect, or undo the edit.
    Edited {
        /// The config.
        file: String,
    },
    /// The config could not be written. Cure: as the reason says.
    Io {
        /// The config.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// The disk could not erase the space. Cure: look at the disk.
    Disk(backend::Failure),
    /// The pool does not do it. Cure: as the words say.
    Refused(String),
    /// The pool could not do it. Cure: look at its disks; where it is not known whether it holds, restart.
    Pool(Failure),
    /// There is no pool. Cure: `[pool]` in the config, and a restart.
    NoPool,
    /// The daemon is stopping.
    Stopping,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) | Self::Missing(error) => error.fmt(f),
            Self::Exists { name } => write!(f, "there is another volume \"{name}\""),
            Self::InUse { name, connections } => {
                write!(f, "volume \"{name}\" is open on {connections} connections")
            }
            Self::Edited { file } => write!(f, "{file} was edited since it was read"),
            Self::Io { file, error } => write!(f, "{file} cannot be written: {error}"),
            Self::Disk(failure) => write!(f, "the disk cannot erase the space: {failure:?}"),
            Self::Refused(words) => f.write_str(words),
            Self::Pool(Failure::Disk) => f.write_str("a disk failed: nothing was changed"),
            Self::Pool(Failure::Cancelled) => f.write_str("it was called off: nothing was changed"),
            Self::Pool(Failure::Unknown) => {
                f.write_str("a disk failed under the pool's metadata: a restart shows whether it holds")
            }
            Self::NoPool => f.write_str(
                "there is no pool: expected `[pool]` in the config that the daemon was started with",
            ),
            Self::Stopping => f.write_str("the daemon is stopping"),
        }
    }
}

impl From<ConfigError> for ChangeError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// What is asked for in [`Operator::set`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// What of the volume is to change.
    pub edit: VolumeEdit,
    /// Whether its clients are sent away where the change needs it: a volume that shrinks.
    pub force: bool,
}

impl Operator {
    pub(crate) fn new(live: Arc<Live>, document: Document) -> Self {
        let document = Arc::new(RwLock::new(Arc::new(document)));
        Self { live, document, changing: Arc::default() }
    }

    /// What the daemon serves: its config as it is now.
    pub fn document(&self) -> Arc<Document> {
        Arc::clone(&self.document.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How things stand, latencies left out.
    pub fn accounts(&self) -> Status {
        self.live.status(Look::Accounts)
    }

    /// How things stand, with all latencies.
    pub fn status(&self) -> Status {
        self.live.status(Look::All)
    }

    /// How things stand, with the latencies of one volume.
    pub fn status_of(&self, volume: &str) -> Status {
        let look = self.live.routes.find(volume);
        self.live.status(look.map_or(Look::Accounts, |(export, _)| Look::One(export)))
    }

    /// How many connections each volume has; one without any is not in it.
    pub fn connections(&self) -> BTreeMap<ExportId, usize> {
        self.live.connections()
    }

    /// The daemon's time.
    pub fn now(&self) -> Instant {
        self.live.now()
    }

    /// Makes a volume. One of the same name that is the same already is as good.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn create(
        &self,
        name: &str,
        disk: &str,
        edit: &VolumeEdit,
    ) -> Result<Created, ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        if let Ok((_, volume)) = before.volume(name) {
            let exists = || ChangeError::Exists { name: name.to_owned() };
            let asked = before.preview_create(name, disk, edit).map_err(|error| {
                // What there is no room for beside the others is not what is there.
                if error.is_refusal() { exists() } else { error.into() }
            })?;
            let same = (asked.disk, asked.size) == (volume.disk, volume.size);
            let same = same && (asked.contract, asked.span()) == (volume.contract, volume.span());
            return if same { Ok(Created::Unchanged) } else { Err(exists()) };
        }
        if self.live.routes.find(name).is_some() {
            return Err(ChangeError::Exists { name: name.to_owned() });
        }
        let after = before.create(name, disk, edit)?;
        after.reject_expired_span(after.plan().volumes.len() - 1, self.now())?;
        let volume = after.plan().volumes.last().expect("it was added");
        let inbox = &self.live.inboxes[volume.disk.0];
        let export = self.live.routes.number();
        let added = inbox.change(Change::Add { export, joins: Joins::of(volume) });
        let id = added.expect("a volume is added without the disk");
        let kept = inbox
            .change(Change::Erase { volume: id, extent: volume.place })
            .map_err(ChangeError::Disk)
            .and_then(|_| self.persist(&before, &after));
        if let Err(error) = kept {
            inbox.change(Change::Remove { volume: id }).expect("it leaves without the disk");
            return Err(error);
        }
        let (disk, map) = (volume.disk.0, map(after.plan(), after.plan().volumes.len() - 1));
        let medium = Medium::of(&after.plan().disks[disk]);
        let (name, size) = (name.to_owned(), volume.size);
        let clients = router::clients(volume.clients.as_ref());
        let home = Home::Disk { disk, volume: id, map };
        let route = Route { name, size, home, medium, clients };
        self.live.routes.publish(export, route);
        Ok(Created::New)
    }

    /// Changes a volume's size and contract, all of it or nothing.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then, but for clients that were sent away.
    pub fn set(&self, name: &str, setting: &Setting) -> Result<(), ChangeError> {
        if self.live.pooled(name).is_some() {
            return self.set_in_pool(name, setting);
        }
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let (index, old) = before.volume(name).map_err(ChangeError::Missing)?;
        let after = before.set(name, &setting.edit)?;
        if setting.edit.stream.is_some() {
            after.reject_expired_span(index, self.now())?;
        }
        let new = &after.plan().volumes[index];
        let (export, route) = self.live.routes.find(name).expect("a volume has a route");
        let (disk, volume) = route.home.disk();
        let inbox = &self.live.inboxes[disk];
        let shrinks = new.size < old.size;
        if shrinks {
            self.withdraw(name, export, setting.force)?;
            inbox.change(Change::Drain { volume }).expect("nothing fails to end");
        }
        let kept = if new.size > old.size {
            let (_, extent) = new.place.split_at(old.place.len);
            inbox.change(Change::Erase { volume, extent }).map_err(ChangeError::Disk).map(drop)
        } else {
            Ok(())
        };
        let kept = kept.and_then(|()| self.persist(&before, &after));
        if let Err(error) = kept {
            if shrinks {
                self.live.routes.publish(export, route);
            }
            return Err(error);
        }
        let joins = Joins::of(new);
        if joins != Joins::of(old) {
            let changed = inbox.change(Change::Contract { volume, joins });
            changed.expect("a contract changes without the disk");
        }
        if new.size != old.size {
            let home = Home::Disk { disk, volume, map: map(after.plan(), index) };
            let route = Route { size: new.size, home, ..route };
            self.live.routes.publish(export, route);
        }
        Ok(())
    }

    /// Removes a volume, with its data. With `force`, its clients get their last answers and are disconnected; without,
    /// there must be none.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then, but for clients that were sent away.
    pub fn delete(&self, name: &str, force: bool) -> Result<(), ChangeError> {
        if self.live.pooled(name).is_some() {
            return self.delete_in_pool(name, force);
        }
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        before.volume(name).map_err(ChangeError::Missing)?;
        let after = before.delete(name)?;
        let (export, route) = self.live.routes.find(name).expect("a volume has a route");
        self.withdraw(name, export, force)?;
        let (disk, volume) = route.home.disk();
        let inbox = &self.live.inboxes[disk];
        if let Err(error) = self.persist(&before, &after) {
            self.live.routes.publish(export, route);
            return Err(error);
        }
        inbox.dismiss(volume);
        Ok(())
    }

    /// Changes the period over which a disk keeps its reserves.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing is changed then.
    pub fn set_period(&self, disk: &str, period: &str) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let before = self.document();
        let after = before.set_period(disk, period).map_err(|error| match error.field() {
            Some("disk") => ChangeError::Missing(error),
            _ => ChangeError::Config(error),
        })?;
        self.persist(&before, &after)?;
        let disks = after.plan().disks.iter().zip(&self.live.inboxes);
        for (disk, inbox) in disks.filter(|(there, _)| there.name == disk) {
            let change = Change::Period { period: disk.period, batch: disk.batch };
            inbox.change(change).expect("a period changes without the disk");
        }
        Ok(())
    }

    /// Nobody panics while holding the lock; should it happen, the config is still one or the other.
    pub(crate) fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn withdraw(
        &self,
        name: &str,
        export: ExportId,
        force: bool,
    ) -> Result<(), ChangeError> {
        let withdrawn = self.live.handle.withdraw(export, force);
        withdrawn.map_err(|_| ChangeError::Stopping)?.map_err(|in_use| ChangeError::InUse {
            name: name.to_owned(),
            connections: in_use.connections,
        })
    }

    pub(crate) fn persist(&self, before: &Document, after: &Document) -> Result<(), ChangeError> {
        let file = || before.path().display().to_string();
        persist::replace(before.path(), before.text(), after.text()).map_err(
            |error| match error {
                PersistError::Edited => ChangeError::Edited { file: file() },
                PersistError::Io(error) => ChangeError::Io { file: file(), error },
            },
        )?;
        *self.document.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after.clone());
        Ok(())
    }
}

/// Where a volume of the plan lies.
pub(crate) fn map(plan: &Plan, index: usize) -> VolumeMap {
    let volume = &plan.volumes[index];
    let disk = DiskId(u32::try_from(volume.disk.0).expect("disks are few"));
    VolumeMap::new(DiskExtent { disk, extent: volume.place })
}
