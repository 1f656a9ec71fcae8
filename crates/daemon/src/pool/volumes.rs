//! Volumes of a pool that come, change and go while it is served.

use std::collections::BTreeMap;

use config::{DiskIndex, Plan, PoolVolume};
use nbd::ExportId;
use units::Bytes;
use volume::DiskId;
use volume::pool::flow::ChangeOutcome;
use volume::pool::{NewVolume, Operation, PoolVolumeId, Refusal, Volume};

use super::seat;
use super::served::{Served, Tenant};
use crate::inbox::Change;
use crate::live::Live;
use crate::operator::ChangeError;
use crate::router::{self, Home, Medium, Route};
use crate::service::StartError;

/// The size of a volume as clients see it.
pub(crate) fn size(volume: &Volume) -> Bytes {
    volume.size.sectors().bytes()
}

impl Live {
    /// The pool.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn pool(&self) -> Result<&Served, ChangeError> {
        self.pool.as_deref().ok_or(ChangeError::NoPool)
    }

    /// Changes the pool.
    pub(crate) fn change_pool(&self, operation: Operation) -> Result<(), ChangeError> {
        match self.pool()?.change(operation) {
            ChangeOutcome::Done => Ok(()),
            ChangeOutcome::Refused(why) => Err(ChangeError::Refused(self.in_words(&why))),
            ChangeOutcome::Failed(why) => Err(ChangeError::Pool(why)),
        }
    }

    /// A refusal, with the disks' names.
    fn in_words(&self, why: &Refusal) -> String {
        let text = why.to_string();
        let (Refusal::NoSpace { disk, .. } | Refusal::NoSuchDisk(disk) | Refusal::Draining(disk)) =
            why
        else {
            return text;
        };
        let members = self.pool.as_ref().map(|pool| pool.members()).unwrap_or_default();
        match members.get(disk) {
            Some(member) => {
                format!("{text} (disk {} of the pool is \"{}\")", disk.0, self.disks[member.disk])
            }
            None => text,
        }
    }

    /// The pool's numbers of these disks of the config.
    pub(crate) fn numbers(
        &self,
        plan: &Plan,
        disks: &[DiskIndex],
    ) -> Result<Vec<DiskId>, ChangeError> {
        let members = self.pool()?.members();
        let number = |index: &DiskIndex| {
            let found = members.iter().find(|(_, member)| member.disk == index.0);
            found.map(|(id, _)| *id).ok_or_else(|| {
                let name = &plan.disks[index.0].name;
                ChangeError::Refused(format!("disk \"{name}\" is not in the pool"))
            })
        };
        disks.iter().map(number).collect()
    }

    /// Gives a volume an account on each of the pool's disks.
    pub(crate) fn seat(&self, plan: &Plan, name: &str) -> Result<Tenant, ChangeError> {
        let export = self.routes.number();
        let mut accounts = BTreeMap::new();
        for member in self.pool()?.members().values() {
            let joins = seat::promise(plan, name, member.disk);
            let added = self.inboxes[member.disk].change(Change::Add { export, joins });
            accounts.insert(member.disk, added.expect("a volume is added without the disk"));
        }
        Ok(Tenant { export, accounts })
    }

    /// Takes a volume's accounts back, when all that was asked of them is answered.
    pub(crate) fn unseat(&self, tenant: &Tenant) {
        for (disk, account) in &tenant.accounts {
            self.inboxes[*disk].dismiss(*account);
        }
    }

    /// Promises a volume what the plan says, on every disk of the pool.
    pub(crate) fn promise(&self, plan: &Plan, name: &str, tenant: &Tenant) {
        for (disk, account) in &tenant.accounts {
            let joins = seat::promise(plan, name, *disk);
            let changed = self.inboxes[*disk].change(Change::Contract { volume: *account, joins });
            changed.expect("a contract changes without the disk");
        }
    }

    /// A volume or snapshot of the pool by its name.
    pub(crate) fn pooled(&self, name: &str) -> Option<(PoolVolumeId, Volume)> {
        let pool = self.pool.as_ref()?;
        pool.look(|flow| flow.pool().state().named(name).map(|(id, volume)| (id, volume.clone())))
    }

    /// Lets clients open a volume or snapshot that the pool has.
    pub(crate) fn show(
        &self,
        plan: &Plan,
        (id, volume): (PoolVolumeId, &Volume),
        export: ExportId,
    ) {
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&volume.name));
        let members = self.pool.as_ref().map(|pool| pool.members()).unwrap_or_default();
        let first = members.values().next().map_or(0, |member| member.disk);
        let Medium { rotational, fast_zero, .. } = Medium::of(&plan.disks[first]);
        let of = if volume.origin.is_some() { "a snapshot in the pool" } else { "in the pool" };
        let route = Route {
            name: volume.name.clone(),
            size: size(volume),
            home: Home::Pool { volume: id, read_only: volume.origin.is_some() },
            medium: Medium { description: of.to_owned(), rotational, fast_zero },
            clients: router::clients(planned.and_then(|planned| planned.clients.as_ref())),
        };
        self.routes.publish(export, route);
    }

    /// Opens the pool for clients: what it holds is shown, and what the plan has beyond that is made.
    pub(crate) fn open_pool(&self, plan: &Plan) -> Result<(), StartError> {
        let (Some(served), Some(planned)) = (&self.pool, &plan.pool) else { return Ok(()) };
        served.begin();
        let held: Vec<(PoolVolumeId, Volume)> = served.look(|flow| {
            flow.pool().state().volumes().map(|(id, volume)| (id, volume.clone())).collect()
        });
        for (id, volume) in &held {
            let taken = plan.volumes.iter().find(|plain| plain.name == volume.name);
            if let Some(plain) = taken {
                return Err(StartError::Volume {
                    place: format!("{}:{}", plan.file, plain.line),
                    name: plain.name.clone(),
                    error: ChangeError::Exists { name: plain.name.clone() },
                });
            }
            let tenant = served.tenant(*id).expect("all that were found have accounts");
            self.show(plan, (*id, volume), tenant.export);
            tell_apart(plan, volume);
            self.settle_as_planned(plan, *id, volume);
        }
        for wanted in &planned.volumes {
            if held.iter().any(|(_, volume)| volume.name == wanted.name) {
                continue;
            }
            self.make(plan, wanted).map_err(|error| StartError::Volume {
                place: format!("{}:{}", plan.file, wanted.line),
                name: wanted.name.clone(),
                error,
            })?;
            eprintln!("pool: volume {} was not there, and was made: {}", wanted.name, wanted.size);
        }
        Ok(())
    }

    /// Has a volume lie where the config says: it was to be moved when the daemon ended, or the config was edited since.
    fn settle_as_planned(&self, plan: &Plan, id: PoolVolumeId, volume: &Volume) {
        let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&volume.name));
        let Some((planned, Ok(disks))) =
            planned.map(|planned| (planned, self.numbers(plan, &planned.disks)))
        else {
            return;
        };
        if volume.origin.is_some() || (planned.zone, &disks) == (volume.zone, &volume.disks) {
            return;
        }
        let settle = Operation::Relocate { volume: id, zone: planned.zone, disks };
        match self.change_pool(settle) {
            Ok(()) => eprintln!("pool: volume {} is moved to where the config says", volume.name),
            Err(error) => {
                eprintln!("pool: volume {} stays where it lies: {error}", volume.name);
            }
        }
    }

    /// Makes a volume as the plan has it.
    pub(crate) fn make(&self, plan: &Plan, planned: &PoolVolume) -> Result<(), ChangeError> {
        let disks = self.numbers(plan, &planned.disks)?;
        let tenant = self.seat(plan, &planned.name)?;
        let name = planned.name.clone();
        let &PoolVolume { layout, zone, thin, .. } = planned;
        // What is random about it is that it differs from its neighbours.
        let seed = checksum::crc64(name.as_bytes());
        let size = planned.blocks();
        let new = NewVolume { name, size, layout, zone, thin, seed, disks };
        self.change_pool(Operation::Create(new)).inspect_err(|_| self.unseat(&tenant))?;
        self.present(plan, &planned.name, tenant);
        Ok(())
    }

    /// A volume that has just been made: with its accounts, and for clients to open.
    pub(crate) fn present(&self, plan: &Plan, name: &str, tenant: Tenant) {
        let (id, volume) = self.pooled(name).expect("it was made");
        let export = tenant.export;
        self.pool.as_ref().expect("it is in the pool").seat(id, tenant);
        self.show(plan, (id, &volume), export);
    }
}

/// Says where the config and the pool differ on a volume.
fn tell_apart(plan: &Plan, volume: &Volume) {
    let planned = plan.pool.as_ref().and_then(|pool| pool.volume(&volume.name));
    let name = &volume.name;
    match planned {
        None if volume.origin.is_some() => {}
        None => eprintln!(
            "pool: volume {name} is not in the config: it is served, and promised nothing"
        ),
        Some(planned) if planned.size != size(volume) => {
            let (here, there) = (size(volume), planned.size);
            eprintln!(
                "pool: volume {name} has {here}; that the config says {there} changes nothing"
            );
        }
        Some(_) => {}
    }
}
