//! Disks of the pool that failed come back, or are replaced.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use backend::{Disk, ReopenRequest};
use config::{DiskIndex, Document, Plan};
use volume::DiskId;
use volume::pool::flow::Flow;
use volume::pool::{DiskUid, Operation, PoolUid};

use super::disks::REOPEN_MAX;
use super::error::{ChangeError, refused};
use super::operator::Operator;
use crate::disk::message::Message;
use crate::disk::open;
use crate::pool::accounts::PoolDisk;
use crate::pool::discovery;
use crate::pool::view::bytes;

/// How long a replacement waits for a disk to be taken out: one metadata write of each other disk.
const TAKEN_OUT_MAX: Duration = Duration::from_secs(10);

/// Refuses a device that is not this disk of this pool.
fn check_identity(device: &mut dyn Disk, (pool, uid): (PoolUid, DiskUid)) -> Result<(), String> {
    let found = discovery::identity(device).map_err(|error| {
        format!("is not the pool's disk: {error}; `spindle pool replace` gives it the place")
    })?;
    if (found.pool, found.disk) == (pool, uid) {
        return Ok(());
    }
    Err(format!(
        "is disk {} of pool {}, and not disk {uid} of pool {pool}; `spindle pool replace` gives it \
         the place",
        found.disk, found.pool
    ))
}

impl Operator {
    /// Reopens a disk that the pool has taken out, and takes it back: what it missed is made equal
    /// while the pool is served.
    pub(super) fn reopen_pool_disk(&self, index: DiskIndex) -> Result<(), ChangeError> {
        let pool = self.state.pool()?;
        let name = self.state.disk_name(index);
        let members = pool.disks();
        let Some(number) = members.iter().find(|(_, one)| one.disk == index).map(|(id, _)| *id)
        else {
            return refused(format!(
                "disk \"{name}\" was none of the pool's when the daemon started; it comes back \
                 with the next start, and another device by `spindle pool replace`"
            ));
        };
        let (out, identity) = pool.inspect(|flow| {
            let state = flow.pool().state();
            let disk = state.disk(number).expect("a disk of the pool");
            (disk.out, (state.pool, disk.uid))
        });
        if !out {
            return refused(format!(
                "disk \"{name}\" is in the pool: it is reopened when the pool has taken it out, or \
                 with the next start"
            ));
        }
        let document = self.document();
        let open = open::reopening(&document, index, &self.state.buses);
        let open = move |old| {
            let mut device = open(old)?;
            check_identity(device.as_mut(), identity)?;
            Ok(device)
        };
        let (to, from) = sync_channel(1);
        // The receiver may have stopped waiting.
        let done = move |result| drop(to.try_send(result));
        let reopen = ReopenRequest::new(Box::new(open), done).forced();
        self.state.inbox(index).send(&mut vec![Message::Reopen(reopen)]);
        match from.recv_timeout(REOPEN_MAX) {
            Ok(result) => {
                result.map_err(|why| ChangeError::Refused(format!("disk \"{name}\" {why}")))?;
            }
            Err(RecvTimeoutError::Timeout) => {
                return refused(format!(
                    "disk \"{name}\" has commands that do not end; try again when they have"
                ));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(ChangeError::Stopping),
        }
        self.state.take_back(number, name)
    }

    /// Gives the place of a disk that the pool has taken out to another disk of the config, whose
    /// data is lost. `old` is the name in the config of the disk that is out.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn replace_pool_disk(&self, old: &str, new: &str, uid: DiskUid) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let pool = self.state.pool()?;
        let (number, member) = self.disk_to_replace(old)?;
        let after = before.replace_pool_disk(old, new)?;
        let disk = self.state.disk(new).expect("the config has found the disk");
        if pool.disks().values().any(|other| other.disk == disk) {
            return refused(format!("disk \"{new}\" is in the pool already"));
        }
        let plan = after.plan();
        let state = |flow: &Flow| flow.pool().state().disk(number).is_some_and(|one| one.has_sums);
        let blocks = plan.disks[disk.0].blocks_in_pool(pool.inspect(state));
        let replace = Operation::ReplaceDisk { disk: number, uid, blocks };
        pool.set_domains(&plan.disks, Some((uid, disk)));
        self.state.check_pool_change(&replace)?;
        self.persist(&before, &after)?;
        let joining = self.state.attach_pool_disk(plan, disk);
        self.state.attach_pool_volumes(plan, disk)?;
        pool.remove_disk(number);
        pool.begin_join(uid, joining);
        let replaced = self.state.change_pool(replace);
        if pool.end_join() {
            member.map_or(Ok(()), |member| self.state.detach_pool_disk(member))?;
        } else {
            if let Some(member) = member {
                pool.insert_disk(number, member);
            }
            self.state.detach_pool_disk(joining)?;
        }
        self.restore_on_error(&after, &before, replaced)?;
        self.set_all_pool_terms(&after);
        eprintln!("pool: disk {new} has the place of disk {old}, and gets its blocks");
        Ok(())
    }

    /// Gives every volume of the pool the terms that the config has for it.
    fn set_all_pool_terms(&self, document: &Document) {
        let Some(pool) = &self.state.pool else { return };
        for (id, accounts) in pool.all_accounts() {
            let found = pool
                .inspect(|flow| flow.pool().state().volume(id).map(|volume| volume.name.clone()));
            if let Some(name) = found {
                self.state.set_pool_terms(document.plan(), &name, &accounts);
            }
        }
    }

    /// The disk of this name that is out: one that is served, or the only one that is missing.
    /// Waits for one that is being taken out: a daemon that has just started may not have done so.
    fn disk_to_replace(&self, name: &str) -> Result<(DiskId, Option<PoolDisk>), ChangeError> {
        let pool = self.state.pool()?;
        pool.wait_for_losses(TAKEN_OUT_MAX);
        let there = pool.disks();
        let served = there.iter().find(|(_, one)| self.state.disk_name(one.disk) == name);
        let is_out = |id: DiskId| {
            pool.inspect(|flow| flow.pool().state().disk(id).is_some_and(|disk| disk.out))
        };
        if let Some((id, member)) = served {
            if is_out(*id) {
                return Ok((*id, Some(*member)));
            }
            return refused(format!(
                "disk \"{name}\" is in the pool; expected one that the pool has taken out \
                 (`spindle pool remove` empties a disk that works)"
            ));
        }
        let missing: Vec<DiskId> = pool.inspect(|flow| {
            let disks = flow.pool().state().disks();
            disks.map(|(id, _)| id).filter(|id| !there.contains_key(id)).collect()
        });
        match missing[..] {
            [id] if is_out(id) => Ok((id, None)),
            [] => {
                refused(format!("disk \"{name}\" is none of the pool's, which has all of its own"))
            }
            [id] if pool.inspect(|flow| flow.pool().failing().contains(&id)) => refused(
                "the disk that is missing is being taken out; try again when it is".to_owned(),
            ),
            [_] => refused("the pool cannot go on without the disk that is missing".to_owned()),
            _ => refused(format!(
                "{} disks of the pool are missing: start the daemon with all but one of them",
                missing.len()
            )),
        }
    }

    /// The names of the disks that the pool has taken out, as far as they are there.
    pub(super) fn disks_out(&self) -> Vec<String> {
        let Some(pool) = &self.state.pool else { return Vec::new() };
        let (there, out) = (pool.disks(), self.disks_out_of_pool());
        let served = out.iter().filter_map(|id| there.get(id));
        served.map(|member| self.state.disk_name(member.disk).to_owned()).collect()
    }

    /// The disks that the pool has taken out, there or missing.
    pub(super) fn disks_out_of_pool(&self) -> Vec<DiskId> {
        let Some(pool) = &self.state.pool else { return Vec::new() };
        pool.inspect(|flow| {
            let disks = flow.pool().state().disks().filter(|(_, disk)| disk.out);
            disks.map(|(id, _)| id).collect()
        })
    }

    /// Writes the pool in the newest version of its format from here on.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn upgrade_pool(&self) -> Result<(), ChangeError> {
        let _lock = self.lock();
        self.state.change_pool(Operation::Upgrade)
    }
}

impl crate::state::DaemonState {
    /// Takes a disk back that the pool had taken out.
    fn take_back(&self, number: DiskId, name: &str) -> Result<(), ChangeError> {
        self.pool()?.reset_sums(number);
        self.change_pool(Operation::TakeBack { disk: number })?;
        let stale = self.pool()?.inspect(|flow| {
            flow.pool().state().stale(number).map_or(0, volume::pool::BlockSet::blocks)
        });
        eprintln!("pool: disk {name} is back; {} of it are brought up to date", bytes(stale));
        Ok(())
    }

    /// Takes the disks back that are there, and that the pool had taken out when the daemon ended.
    pub(crate) fn take_back_all(&self, plan: &Plan) {
        let Some(pool) = &self.pool else { return };
        for (number, member) in pool.disks() {
            let out =
                pool.inspect(|flow| flow.pool().state().disk(number).is_some_and(|disk| disk.out));
            let name = &plan.disks[member.disk.0].name;
            if out && let Err(error) = self.take_back(number, name) {
                eprintln!("pool: disk {name} stays out: {error}");
            }
        }
    }
}
