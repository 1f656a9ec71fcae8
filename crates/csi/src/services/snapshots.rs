//! Snapshots. The daemon keeps no time with a snapshot, so its name there ends with the time at
//! which it was taken: `NAME@SECONDS`. A driver that is killed may leave a request that the daemon
//! carries out after the next driver has looked: then there are two of one `NAME`. The older one is
//! the snapshot, and both are deleted together.

use std::time::{SystemTime, UNIX_EPOCH};

use api::Volume;
use prost_types::Timestamp;
use tonic::{Code, Status};
use units::Bytes;

use super::Driver;
use super::pages::page;
use crate::daemon::snapshot_of;
use crate::limits::NAME_BYTES_MAX;
use crate::proto::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
    list_snapshots_response,
};
use crate::size::signed;

/// The identifier of what is asked for by this name. A long name is shortened, with its checksum.
pub(crate) fn id_of(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let mut end = NAME_BYTES_MAX - 16;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{:016x}", &name[..end], checksum::crc64(name.as_bytes()))
}

/// The name that was asked for, and the time at which the snapshot was taken. One that this driver
/// has not taken has no time.
fn parts(id: &str) -> (&str, Option<i64>) {
    let parts = id.rsplit_once('@');
    let parts = parts.and_then(|(name, seconds)| Some((name, seconds.parse().ok()?)));
    parts.map_or((id, None), |(name, seconds)| (name, Some(seconds)))
}

/// The seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the cluster wants to know when it was taken")]
fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn describe(found: &Volume) -> Option<Snapshot> {
    Some(Snapshot {
        size_bytes: signed(Bytes(found.size_bytes)),
        snapshot_id: found.name.clone(),
        source_volume_id: snapshot_of(found)?.to_owned(),
        creation_time: Some(Timestamp { seconds: parts(&found.name).1.unwrap_or(0), nanos: 0 }),
        ready_to_use: true,
        ..Default::default()
    })
}

impl Driver {
    fn all_snapshots(&self) -> Result<Vec<Snapshot>, Status> {
        Ok(self.daemon.all()?.iter().filter_map(describe).collect())
    }

    /// The oldest snapshot that was taken by a name.
    fn taken(&self, name: &str) -> Result<Option<Snapshot>, Status> {
        let all = self.all_snapshots()?.into_iter();
        let of = all.filter(|one| matches!(parts(&one.snapshot_id), (of, Some(_)) if of == name));
        Ok(of.min_by_key(|one| parts(&one.snapshot_id).1))
    }

    pub(super) fn take_snapshot(
        &self,
        asked: &CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        if asked.name.is_empty() || asked.source_volume_id.is_empty() {
            return Err(Status::invalid_argument("expected name and source_volume_id"));
        }
        let name = id_of(&asked.name);
        if self.taken(&name)?.is_none() {
            let source = self.daemon.volume(&asked.source_volume_id)?;
            let taken = self.daemon.snapshot(&source.name, &format!("{name}@{}", seconds_now()));
            // It may have been taken meanwhile, for a driver that was killed.
            taken.or_else(|error| match error.code() {
                Code::AlreadyExists => Ok(()),
                _ => Err(error),
            })?;
        }
        let gone = || Status::unavailable(format!("snapshot \"{name}\" is gone already"));
        let snapshot = self.taken(&name)?.ok_or_else(gone)?;
        if snapshot.source_volume_id != asked.source_volume_id {
            return Err(Status::already_exists(format!(
                "snapshot \"{name}\" is there, of volume \"{}\"",
                snapshot.source_volume_id
            )));
        }
        Ok(CreateSnapshotResponse { snapshot: Some(snapshot) })
    }

    pub(super) fn delete_snapshot(
        &self,
        asked: &DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        if asked.snapshot_id.is_empty() {
            return Err(Status::invalid_argument("expected snapshot_id"));
        }
        let (name, taken) = parts(&asked.snapshot_id);
        let is_it = |id: &str| match (parts(id), taken) {
            ((of, Some(_)), Some(_)) => of == name,
            _ => id == asked.snapshot_id,
        };
        // A volume of that name is no snapshot, and stays.
        for one in self.all_snapshots()?.iter().filter(|one| is_it(&one.snapshot_id)) {
            self.daemon.remove(&one.snapshot_id)?;
        }
        Ok(DeleteSnapshotResponse {})
    }

    pub(super) fn find_snapshot(
        &self,
        asked: &GetSnapshotRequest,
    ) -> Result<GetSnapshotResponse, Status> {
        if asked.snapshot_id.is_empty() {
            return Err(Status::invalid_argument("expected snapshot_id"));
        }
        let found = self.daemon.find(&asked.snapshot_id)?.as_ref().and_then(describe);
        let id = &asked.snapshot_id;
        let snapshot = found.ok_or_else(|| Status::not_found(format!("no snapshot \"{id}\"")))?;
        Ok(GetSnapshotResponse { snapshot: Some(snapshot) })
    }

    pub(super) fn list_snapshots_of(
        &self,
        asked: &ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse, Status> {
        let mut all = self.all_snapshots()?;
        let ListSnapshotsRequest { snapshot_id, source_volume_id, .. } = asked;
        all.retain(|one| {
            (snapshot_id.is_empty() || one.snapshot_id == *snapshot_id)
                && (source_volume_id.is_empty() || one.source_volume_id == *source_volume_id)
        });
        let (some, next_token) = page(all, asked.max_entries, &asked.starting_token)?;
        let entry = |snapshot| list_snapshots_response::Entry { snapshot: Some(snapshot) };
        Ok(ListSnapshotsResponse { entries: some.into_iter().map(entry).collect(), next_token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_and_stay_different() {
        let name = |last: char| "ä".repeat(100) + &last.to_string();
        let (one, two) = (id_of(&name('a')), id_of(&name('b')));
        assert!(one != two && one.len() <= NAME_BYTES_MAX, "{one} {two}");
        assert_eq!(id_of("pvc-1"), "pvc-1");
        assert_eq!(parts("a@b@17"), ("a@b", Some(17)));
        assert_eq!(parts("a@b"), ("a@b", None));
    }
}
