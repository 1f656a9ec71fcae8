//! The operator of a running daemon: its state, its config, and the steps that all changes share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use config::Document;
use nbd::ExportId;
use stats::RequestReport;
use units::Instant;

use super::error::ChangeError;
use super::persist::{self, PersistError};
use crate::disk::message::StatsDetail;
use crate::observe::status::Status;
use crate::observe::subscribers::{Filter, Subscriber};
use crate::observe::traced::Traced;
use crate::pool::view::PoolView;
use crate::state::DaemonState;

/// Queries and changes a running daemon. Clones operate the same daemon.
#[derive(Clone, Debug)]
pub struct Operator {
    pub(crate) state: Arc<DaemonState>,
    document: Arc<RwLock<Arc<Document>>>,
    changing: Arc<Mutex<()>>,
}

impl Operator {
    pub(crate) fn new(state: Arc<DaemonState>, document: Document) -> Self {
        let document = Arc::new(RwLock::new(Arc::new(document)));
        Self { state, document, changing: Arc::default() }
    }

    /// The config as it is now.
    pub fn document(&self) -> Arc<Document> {
        Arc::clone(&self.document.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The statistics without latencies.
    pub fn accounts(&self) -> Status {
        self.state.status(StatsDetail::NoLatencies)
    }

    /// The statistics with all latencies.
    pub fn status(&self) -> Status {
        self.state.status(StatsDetail::All)
    }

    /// The statistics with the latencies of one volume.
    pub fn status_of(&self, volume: &str) -> Status {
        let export = self.state.export(volume);
        self.state.status(export.map_or(StatsDetail::NoLatencies, StatsDetail::LatenciesOf))
    }

    /// The state of the pool, if there is one.
    pub fn pool(&self) -> Option<PoolView> {
        let service = self.state.pool.as_ref()?;
        let names = service.disks().into_iter();
        let document = self.document();
        let disks = &document.plan().disks;
        let of = |index: config::DiskIndex| disks.get(index.0).and_then(|one| one.domain.clone());
        let names =
            names.map(|(id, one)| (id, (self.state.disk_name(one.disk).to_owned(), of(one.disk))));
        let names = names.collect();
        Some(service.view(|flow, parts| PoolView::new(flow, parts, &names)))
    }

    /// The number of connections of each volume that has one, by transport.
    pub fn connections(&self) -> BTreeMap<ExportId, nbd::Connections> {
        self.state.connections()
    }

    /// The daemon's time.
    pub fn now(&self) -> Instant {
        self.state.now()
    }

    /// Subscribes to finished requests; `None` if there are
    /// [`SUBSCRIBERS_MAX`](crate::SUBSCRIBERS_MAX) subscribers already.
    pub fn subscribe(&self, filter: Filter) -> Option<Subscriber> {
        self.state.subscribe(filter)
    }

    /// The export number of the volume of this name, if it is there.
    pub fn export(&self, volume: &str) -> Option<ExportId> {
        self.state.export(volume)
    }

    /// A finished request, with names.
    pub fn report(&self, traced: &Traced) -> RequestReport {
        self.state.report(traced)
    }

    /// Locks out other changes.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        // No code panics while it holds the lock; after a panic the config would still be whole.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Withdraws an export. With `force`, its clients are disconnected.
    pub(super) fn withdraw(
        &self,
        name: &str,
        export: ExportId,
        force: bool,
    ) -> Result<(), ChangeError> {
        self.refuse_block_device(name)?;
        let withdrawn = self.state.handle.withdraw(export, force);
        withdrawn.map_err(|_| ChangeError::Stopping)?.map_err(|in_use| ChangeError::InUse {
            name: name.to_owned(),
            connections: in_use.connections,
        })
    }

    /// Replaces the config durably.
    pub(super) fn persist(&self, before: &Document, after: &Document) -> Result<(), ChangeError> {
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

    /// Takes removals that have ended out of the config. Nothing is written if it has none of them.
    pub(crate) fn end_removals<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ChangeError> {
        let before = self.document();
        let mut after = Document::clone(&before);
        for name in names {
            if after.removing().iter().any(|removing| removing == name) {
                after = after.end_removal(name)?;
            }
        }
        self.persist(&before, &after)
    }

    /// Takes the removals that the start of the daemon has ended out of the config.
    pub(crate) fn end_removals_at_start(&self) {
        let document = self.document();
        let names = document.removing().iter().map(String::as_str);
        let ended = names.filter(|name| self.state.pool_volume(name).is_none());
        if let Err(error) = self.end_removals(ended) {
            // They do no harm until the next start or the next use of a name.
            eprintln!("the config keeps removals that have ended: {error}");
        }
    }

    /// Restores the config if the rest of the change has failed.
    pub(super) fn restore_on_error<T>(
        &self,
        after: &Document,
        before: &Document,
        done: Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        done.inspect_err(|_| {
            if let Err(error) = self.persist(after, before) {
                eprintln!("the config keeps a change that failed: {error}");
            }
        })
    }
}
