//! What the threads of a running daemon share: the way to each disk, the way to the sockets, the routes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use nbd::ExportId;
use units::Instant;

use crate::inbox::{Inbox, Look, Message};
use crate::observe::Watchers;
use crate::pool::Served;
use crate::router::{Home, Routes};
use crate::status::{DiskStatus, DiskView, Status, VolumeStatus, VolumeView};
use host::Clock;

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) clock: Clock,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) handle: nbd::Handle,
    pub(crate) routes: Arc<Routes>,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) disks: Vec<String>,
    pub(crate) pool: Option<Arc<Served>>,
    /// Who ends what moving blocks has begun, once there is an operator.
    pub(crate) keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Live {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Asks every disk's thread.
    pub(crate) fn status(&self, look: Look) -> Status {
        let asked: Vec<_> = self
            .inboxes
            .iter()
            .map(|inbox| {
                let (to, from) = mpsc::sync_channel(1);
                inbox.put(&mut vec![Message::Look(look, to)]);
                from
            })
            .collect();
        let views = asked.into_iter().map(|from| from.recv().expect("a disk's thread answers"));
        self.assemble(views.collect())
    }

    /// Tells every disk's thread that clients are read no more.
    pub(crate) fn close_disks(&self) {
        for inbox in &self.inboxes {
            inbox.put(&mut vec![Message::Close]);
        }
    }

    /// Tells every disk's thread that there is no other any more.
    pub(crate) fn leave_disks(&self) {
        for inbox in &self.inboxes {
            inbox.put(&mut vec![Message::Alone]);
        }
    }

    /// Tells every disk's thread to end when it has answered what it has.
    pub(crate) fn stop_disks(&self) {
        for inbox in &self.inboxes {
            inbox.put(&mut vec![Message::Stop]);
        }
    }

    /// Puts together what the disks' threads told. A volume that came or went meanwhile is told of by neither, or by one:
    /// those that both know are shown.
    pub(crate) fn assemble(&self, views: Vec<DiskView>) -> Status {
        let routes = self.routes.all();
        let (mut disks, mut told) = (Vec::new(), BTreeMap::new());
        for (disk, (view, name)) in views.into_iter().zip(&self.disks).enumerate() {
            let DiskView { at, busy, slack, lateness, traffic, idle, times, executed, .. } = view;
            let DiskView { health, access, stream_slack, recorded, volumes, .. } = view;
            let name = name.clone();
            disks.push(DiskStatus {
                name,
                at,
                busy,
                slack,
                lateness,
                traffic,
                idle,
                times,
                health,
                access,
                executed,
                stream_slack,
                recorded,
            });
            for (export, view) in volumes {
                told.entry(export).or_insert_with(Vec::new).push((disk, view));
            }
        }
        let volumes = routes.into_iter().filter_map(|(export, route)| {
            let views: Vec<(usize, VolumeView)> = told.remove(&export)?;
            let mut on = self.on(&route.home);
            if on.is_empty() {
                on.push(views.first()?.0);
            }
            // What is promised on a disk that it does not lie on, nothing, is not told.
            let (mine, others): (Vec<_>, Vec<_>) =
                views.into_iter().partition(|(disk, _)| on.contains(disk));
            let view = mine.into_iter().chain(others).map(|(_, view)| view);
            let view = view.reduce(|one, other| one.beside(&other))?;
            Some(VolumeStatus {
                export,
                name: route.name,
                size: route.size,
                disks: on,
                contract: view.contract,
                account: view.account,
                balance: view.balance,
                slack: view.slack,
                latency: view.latencies.response,
                waiting: view.latencies.waiting,
                traffic: view.traffic,
                error: view.error,
                runs: view.runs,
                declared: view.declared,
                kept: view.kept,
            })
        });
        Status { disks, volumes: volumes.collect() }
    }

    /// The disks that a volume is on, at least one.
    fn on(&self, home: &Home) -> Vec<usize> {
        match home {
            Home::Disk { disk, .. } => vec![*disk],
            Home::Pool { volume, .. } => {
                self.pool.as_ref().map(|pool| pool.disks_of(*volume)).unwrap_or_default()
            }
        }
    }

    /// How many connections each export has; none of any when the sockets are gone.
    pub(crate) fn connections(&self) -> BTreeMap<ExportId, usize> {
        self.handle.connections().unwrap_or_default()
    }
}
