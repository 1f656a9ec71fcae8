//! Snapshots. The daemon keeps no time with a snapshot, so its name there ends with the time at
//! which it was taken: `NAME@SECONDS`.

use std::time::{SystemTime, UNIX_EPOCH};

use api::Volume;
use prost_types::Timestamp;
use tonic::Status;
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

/// The time at which a snapshot was taken, from its name.
fn taken_at(name: &str) -> i64 {
    name.rsplit_once('@').and_then(|(_, seconds)| seconds.parse().ok()).unwrap_or(0)
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
        creation_time: Some(Timestamp { seconds: taken_at(&found.name), nanos: 0 }),
        ready_to_use: true,
        ..Default::default()
    })
}

impl Driver {
    fn all_snapshots(&self) -> Result<Vec<Snapshot>, Status> {
        Ok(self.daemon.all()?.iter().filter_map(describe).collect())
    }

    pub(super) fn take_snapshot(
        &self,
        asked: &CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        if asked.name.is_empty() || asked.source_volume_id.is_empty() {
            return Err(Status::invalid_argument("expected name and source_volume_id"));
        }
        let name = id_of(&asked.name);
        let is_it = |one: &Snapshot| {
            one.snapshot_id.rsplit_once('@').is_some_and(|(begin, _)| begin == name)
        };
        if let Some(snapshot) = self.all_snapshots()?.into_iter().find(is_it) {
            if snapshot.source_volume_id != asked.source_volume_id {
                return Err(Status::already_exists(format!(
                    "snapshot \"{name}\" is there, of volume \"{}\"",
                    snapshot.source_volume_id
                )));
            }
            return Ok(CreateSnapshotResponse { snapshot: Some(snapshot) });
        }
        let source = self.daemon.volume(&asked.source_volume_id)?;
        let id = format!("{name}@{}", seconds_now());
        self.daemon.snapshot(&source.name, &id)?;
        let found = self.daemon.find(&id)?.as_ref().and_then(describe);
        let gone = || Status::unavailable(format!("snapshot \"{id}\" is gone already"));
        Ok(CreateSnapshotResponse { snapshot: Some(found.ok_or_else(gone)?) })
    }

    pub(super) fn delete_snapshot(
        &self,
        asked: &DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        if asked.snapshot_id.is_empty() {
            return Err(Status::invalid_argument("expected snapshot_id"));
        }
        let found = self.daemon.find(&asked.snapshot_id)?;
        // A volume of that name is no snapshot, and stays.
        if found.is_some_and(|one| snapshot_of(&one).is_some()) {
            self.daemon.remove(&asked.snapshot_id)?;
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
        assert_eq!((taken_at("a@b@17"), taken_at("a")), (17, 0));
    }
}
