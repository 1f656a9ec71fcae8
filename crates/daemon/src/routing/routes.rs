//! The table of exports.
//!
//! Routes change while clients are served: the server's threads read the table once a request, and
//! an operator's change replaces one whole route.
//!
//! Invariants: a name and its route are added and removed together; an export number is used once.

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use config::{BackingCapabilities, Plan};
use engine::VolumeId;
use nbd::{ClientName, Export, ExportId, Exports};
use units::Bytes;

use super::placement::{ExtentPlacement, Placement};

/// A volume as clients reach it.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) placement: Placement,
    pub(crate) device: DeviceInfo,
    /// The clients that may open it; `None`: all.
    pub(crate) clients: Option<Vec<ClientName>>,
}

impl Route {
    /// The route of a volume that is one extent on one disk, where its number is `id`.
    pub(crate) fn of_extent(plan: &Plan, volume: &config::Volume, id: VolumeId) -> Self {
        let placement = ExtentPlacement { disk: volume.disk, volume: id, extent: volume.extent };
        Self {
            name: volume.name.clone(),
            size: volume.size,
            placement: Placement::Extent(placement),
            device: DeviceInfo::of(&plan.disks[volume.disk.0]),
            clients: clients(volume.clients.as_ref()),
        }
    }
}

/// The clients that a volume's config names.
pub(crate) fn clients(named: Option<&Vec<String>>) -> Option<Vec<ClientName>> {
    let names = named?.iter();
    Some(names.map(|name| name.parse().expect("the config checked it")).collect())
}

/// A route without what only clients are told.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) export: ExportId,
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) placement: Placement,
}

/// What clients are told of the disk that a volume lies on.
#[derive(Clone, Debug)]
pub(crate) struct DeviceInfo {
    /// A description in words.
    pub(crate) description: String,
    /// Whether sectors that lie close together are read faster.
    pub(crate) rotational: bool,
    /// Whether zeroing is faster than writing: it changes a map, and moves no data.
    pub(crate) fast_zero: bool,
}

impl DeviceInfo {
    pub(crate) fn of(disk: &config::Disk) -> Self {
        let rotational = disk.drive.model.rotational();
        let BackingCapabilities { is_real, path, fast_zero, .. } = disk.backing.capabilities();
        let description = match path.filter(|_| is_real) {
            Some(path) => format!("on disk {}, {}", disk.name, path.display()),
            None => format!("on disk {}, a {}", disk.name, disk.drive.name),
        };
        let fast_zero = fast_zero.unwrap_or(!rotational);
        Self { description, rotational, fast_zero }
    }
}

#[derive(Debug, Default)]
struct Table {
    routes: BTreeMap<ExportId, Route>,
    names: BTreeMap<String, ExportId>,
    /// The next export number. None is used twice: a late request for a removed volume must not
    /// reach a new one.
    next: u32,
}

/// The daemon's volumes, as exports.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    table: RwLock<Table>,
    /// Woken when exports come, go or change, once there is a server of vhost-user.
    waker: OnceLock<vhost_user::Waker>,
}

impl Routes {
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // No code panics while it holds the lock; after a panic the table would still be whole.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new export number.
    pub(crate) fn next_export(&self) -> ExportId {
        let mut table = self.write();
        let export = ExportId(table.next);
        table.next = table.next.checked_add(1).expect("fewer than 2^32 volumes in a run");
        export
    }

    /// Lets clients open a volume, or replaces its route.
    pub(crate) fn publish(&self, export: ExportId, route: Route) {
        let mut table = self.write();
        let named = table.names.insert(route.name.clone(), export);
        assert!(named.is_none_or(|named| named == export), "a name belongs to one volume");
        table.routes.insert(export, route);
        debug_assert_eq!(table.names.len(), table.routes.len(), "names and routes agree");
        drop(table);
        self.changed();
    }

    /// Wakes this one at each change from now on.
    pub(crate) fn set_waker(&self, waker: vhost_user::Waker) {
        assert!(self.waker.set(waker).is_ok(), "there is one server of vhost-user");
        self.changed();
    }

    fn changed(&self) {
        if let Some(waker) = self.waker.get() {
            waker.exports_changed();
        }
    }

    /// The volume of this name.
    pub(crate) fn find(&self, name: &str) -> Option<(ExportId, Route)> {
        let table = self.read();
        let export = *table.names.get(name)?;
        Some((export, table.routes[&export].clone()))
    }

    /// A volume's name, if it is there.
    pub(crate) fn name(&self, export: ExportId) -> Option<String> {
        self.read().routes.get(&export).map(|route| route.name.clone())
    }

    /// All volumes, in the order in which they were made.
    pub(crate) fn all(&self) -> Vec<Routed> {
        let table = self.read();
        let routed = |(export, route): (&ExportId, &Route)| Routed {
            export: *export,
            name: route.name.clone(),
            size: route.size,
            placement: route.placement.clone(),
        };
        table.routes.iter().map(routed).collect()
    }

    /// Applies `to` to the route of an export, if there is one.
    pub(super) fn with<T>(&self, export: ExportId, to: impl FnOnce(&Route) -> T) -> Option<T> {
        self.read().routes.get(&export).map(to)
    }
}

fn export(id: ExportId, route: &Route) -> Export {
    let DeviceInfo { description, rotational, fast_zero } = route.device.clone();
    let (read_only, clients) = (route.placement.is_read_only(), route.clients.clone());
    let export = Export::new(id, route.name.clone(), route.size);
    Export { read_only, description, rotational, fast_zero, clients, ..export }
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

    fn size_now(&self, export: ExportId) -> Option<Bytes> {
        self.with(export, |route| route.size)
    }

    fn withdraw(&self, export: ExportId) {
        let mut table = self.write();
        if let Some(route) = table.routes.remove(&export) {
            let named = table.names.remove(&route.name);
            assert_eq!(named, Some(export), "a name and its route are removed together");
        }
        drop(table);
        self.changed();
    }
}
