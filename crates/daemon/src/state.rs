//! The state of a running daemon, shared by its threads: the disks, the pool, the routes and the
//! server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use config::{DiskIndex, SharedBuses};
use host::Clock;
use nbd::{Connections, ExportId};
use units::Instant;

use crate::block_devices::BlockDevices;
use crate::changes::error::ChangeError;
use crate::disk::inbox::Inbox;
use crate::disk::message::{Message, StatsDetail};
use crate::observe::status::{DiskSnapshot, DiskStatus, Status, VolumeSnapshot, VolumeStatus};
use crate::observe::subscribers::Subscribers;
use crate::pool::service::PoolService;
use crate::routing::routes::{Routed, Routes};
use crate::stop_signal::StopSignal;

#[derive(Debug)]
pub(crate) struct DaemonState {
    pub(crate) clock: Clock,
    pub(crate) subscribers: Arc<Subscribers>,
    /// The server.
    pub(crate) handle: nbd::Handle,
    pub(crate) routes: Arc<Routes>,
    /// The inboxes of the disks' threads, in the config's order.
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    /// The disks' names, in the config's order.
    pub(crate) disks: Vec<String>,
    /// The buses of emulated disks.
    pub(crate) buses: SharedBuses,
    pub(crate) pool: Option<Arc<PoolService>>,
    /// The volumes that are block devices of this machine.
    pub(crate) block_devices: BlockDevices,
    /// The thread that completes relocations, once there is an operator.
    pub(crate) maintenance: Mutex<Option<JoinHandle<()>>>,
    /// The thread that watches the streams, once there is an operator, and its end.
    pub(crate) stream_watch: Mutex<Option<JoinHandle<()>>>,
    pub(crate) stop_stream_watch: StopSignal,
}

impl DaemonState {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn inbox(&self, disk: DiskIndex) -> &Inbox {
        &self.inboxes[disk.0]
    }

    pub(crate) fn disk_name(&self, disk: DiskIndex) -> &str {
        &self.disks[disk.0]
    }

    /// The disk of this name.
    pub(crate) fn disk(&self, name: &str) -> Option<DiskIndex> {
        self.disks.iter().position(|disk| disk == name).map(DiskIndex)
    }

    /// The pool.
    ///
    /// # Errors
    /// The config has none.
    pub(crate) fn pool(&self) -> Result<&Arc<PoolService>, ChangeError> {
        self.pool.as_ref().ok_or(ChangeError::NoPool)
    }

    /// Collects the statistics of every disk's thread.
    pub(crate) fn status(&self, detail: StatsDetail) -> Status {
        let query = |inbox: &Arc<Inbox>| {
            let (to, from) = mpsc::sync_channel(1);
            inbox.send(&mut vec![Message::Query(detail, to)]);
            from
        };
        let queried: Vec<_> = self.inboxes.iter().map(query).collect();
        let disks = queried.into_iter().map(|from| from.recv().expect("a disk's thread answers"));
        self.assemble(disks.collect())
    }

    /// Tells every disk's thread that no further requests are read.
    pub(crate) fn cancel_streams(&self) {
        self.send_all(|| Message::CancelStreams);
    }

    /// Tells every disk's thread that the server's threads have stopped.
    pub(crate) fn server_stopped(&self) {
        self.send_all(|| Message::TakeOverCompletions);
    }

    /// Tells every disk's thread to end when it has answered its requests.
    pub(crate) fn stop_disks(&self) {
        self.send_all(|| Message::Stop);
    }

    fn send_all(&self, message: impl Fn() -> Message) {
        for inbox in &self.inboxes {
            inbox.send(&mut vec![message()]);
        }
    }

    /// Combines the disks' statistics. A volume that is created or removed meanwhile is in some of
    /// them only: the result has the volumes that both the routes and a disk know.
    pub(crate) fn assemble(&self, snapshots: Vec<DiskSnapshot>) -> Status {
        assert_eq!(snapshots.len(), self.disks.len(), "every disk's thread answers");
        let (mut disks, mut of_disks) = (Vec::new(), Vec::new());
        for (snapshot, name) in snapshots.into_iter().zip(&self.disks) {
            let (disk, mut volumes) = DiskStatus::new(name.clone(), snapshot);
            disks.push(disk);
            volumes.sort_unstable_by_key(|(export, _)| *export);
            of_disks.push(volumes.into_iter());
        }
        let routes = self.routes.all();
        let mut volumes = Vec::with_capacity(routes.len());
        for Routed { export, name, size, placement } in routes {
            let mut on = placement.disks();
            // A volume of the pool may have requests in progress on disks that it has left.
            let left = if placement.is_on_one_disk() { 0 } else { of_disks.len() };
            let left = (0..left).map(DiskIndex).filter(|disk| !on.contains(disk));
            let all: Vec<DiskIndex> = on.iter().copied().chain(left).collect();
            let mut sum: Option<VolumeSnapshot> = None;
            for disk in all {
                let Some(found) = take(&mut of_disks[disk.0], export) else { continue };
                if on.is_empty() {
                    on.push(disk);
                }
                sum = Some(match sum {
                    Some(sum) => sum.combined(&found),
                    None => found,
                });
            }
            if let Some(sum) = sum {
                volumes.push(VolumeStatus::new((export, name, size), on, sum));
            }
        }
        for (export, sectors) in self.pool.iter().flat_map(|pool| pool.out_of_order()) {
            let place = volumes.binary_search_by_key(&export, |volume| volume.export);
            if let Ok(place) = place {
                // Which of a volume's requests are in order no disk of the pool sees.
                volumes[place].kept.bytes.out_of_order += sectors;
            }
        }
        Status { disks, volumes }
    }

    /// The number of connections of each export; empty when the server has stopped.
    pub(crate) fn connections(&self) -> BTreeMap<ExportId, Connections> {
        self.handle.connections().unwrap_or_default()
    }
}

/// The statistics of `export`, of those of one disk in the order of their exports. Those before it,
/// to which no route leads, are dropped.
fn take(
    volumes: &mut std::vec::IntoIter<(ExportId, VolumeSnapshot)>,
    export: ExportId,
) -> Option<VolumeSnapshot> {
    while volumes.as_slice().first().is_some_and(|(other, _)| *other < export) {
        drop(volumes.next());
    }
    let is_next = volumes.as_slice().first().is_some_and(|(other, _)| *other == export);
    if is_next { volumes.next().map(|(_, found)| found) } else { None }
}
