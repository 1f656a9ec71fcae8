//! A cluster's provisioner, resizer, attributes controller and snapshotter, played with their
//! retries, duplicates and deadlines, while the driver and the daemon are killed. Whatever the
//! interleaving: no volume is lost, none is left over, and contracts add up.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use rng::SeededRng;
use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::volume_content_source::{Type, VolumeSource};
use spindle_csi::proto::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, VolumeContentSource,
};
use support::calls::{Calls, at_least, capability};
use support::{DriverProcess, Killed, create_pool, seeds, serve};
use testkit::{Scratch, Server};
use tonic::{Code, Status};
use units::Share;

const MIB: i64 = 1 << 20;
/// The reserves of classes and of attributes classes.
const LADDER: [u32; 4] = [0, 10, 30, 60];
/// The rounds of an interleaving.
const ROUNDS: u32 = 6;
/// The volumes of an interleaving.
const NAMES: [&str; 4] = ["pvc-1", "pvc-2", "pvc-3", "pvc-4"];

/// What the cluster takes for true of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    mib: i64,
    reserve: u32,
    /// Its snapshots, by the names that the cluster gave them.
    snapshots: BTreeMap<String, String>,
}

/// What a part of the cluster is to do.
#[derive(Clone, Debug)]
enum Operation {
    Provision { mib: i64, reserve: u32, source: Option<String> },
    Delete,
    Expand { mib: i64 },
    Modify { reserve: u32 },
    Snapshot { name: String },
    DeleteSnapshot { name: String, id: String },
}

/// What the driver answers to an operation that it has carried out.
#[derive(Clone, Debug)]
enum Answer {
    Done,
    /// A volume of this size.
    Volume {
        mib: i64,
    },
    /// A snapshot with this identifier.
    Snapshot {
        id: String,
    },
}

fn percent(reserve: u32) -> String {
    format!("{reserve}%")
}

/// Carries an operation out, to an answer that is final.
async fn carried_out(
    calls: &Calls,
    volume: &str,
    operation: &Operation,
    deadline: Duration,
) -> Result<Answer, Status> {
    let volume_id = volume.to_owned();
    match operation {
        Operation::Provision { mib, reserve, source } => {
            let source = source.clone().map(|volume_id| VolumeContentSource {
                r#type: Some(Type::Volume(VolumeSource { volume_id })),
            });
            let asked = CreateVolumeRequest {
                name: volume_id,
                capacity_range: Some(at_least(mib * MIB)),
                volume_capabilities: vec![capability(Some("ext4"), Mode::SingleNodeWriter)],
                parameters: BTreeMap::from([("reserve".to_owned(), percent(*reserve))]),
                volume_content_source: source,
                ..Default::default()
            };
            let answer = calls.finish("/csi.v1.Controller/CreateVolume", &asked, deadline).await;
            answer.map(|answer: CreateVolumeResponse| {
                let volume = answer.volume.expect("a volume");
                Answer::Volume { mib: volume.capacity_bytes / MIB }
            })
        }
        Operation::Delete => {
            let asked = DeleteVolumeRequest { volume_id, ..Default::default() };
            let answer = calls.finish("/csi.v1.Controller/DeleteVolume", &asked, deadline).await;
            answer.map(|_: DeleteVolumeResponse| Answer::Done)
        }
        Operation::Expand { mib } => {
            let capacity_range = Some(at_least(mib * MIB));
            let asked =
                ControllerExpandVolumeRequest { volume_id, capacity_range, ..Default::default() };
            let method = "/csi.v1.Controller/ControllerExpandVolume";
            let answer = calls.finish(method, &asked, deadline).await;
            answer.map(|_: ControllerExpandVolumeResponse| Answer::Done)
        }
        Operation::Modify { reserve } => {
            let mutable_parameters = BTreeMap::from([("reserve".to_owned(), percent(*reserve))]);
            let asked = ControllerModifyVolumeRequest {
                volume_id,
                mutable_parameters,
                ..Default::default()
            };
            let method = "/csi.v1.Controller/ControllerModifyVolume";
            let answer = calls.finish(method, &asked, deadline).await;
            answer.map(|_: ControllerModifyVolumeResponse| Answer::Done)
        }
        Operation::Snapshot { name } => {
            let asked = CreateSnapshotRequest {
                source_volume_id: volume_id,
                name: name.clone(),
                ..Default::default()
            };
            let answer = calls.finish("/csi.v1.Controller/CreateSnapshot", &asked, deadline).await;
            answer.map(|answer: CreateSnapshotResponse| Answer::Snapshot {
                id: answer.snapshot.expect("a snapshot").snapshot_id,
            })
        }
        Operation::DeleteSnapshot { id, .. } => {
            let asked = DeleteSnapshotRequest { snapshot_id: id.clone(), ..Default::default() };
            let answer = calls.finish("/csi.v1.Controller/DeleteSnapshot", &asked, deadline).await;
            answer.map(|_: DeleteSnapshotResponse| Answer::Done)
        }
    }
}

/// A node and what the cluster knows of it.
struct Cluster {
    scratch: Scratch,
    server: Option<Server>,
    driver: Option<DriverProcess>,
    calls: Calls,
    known: BTreeMap<String, Known>,
    refusals: u32,
    kills: u32,
}

impl Cluster {
    fn new() -> Self {
        let scratch = Scratch::new();
        create_pool(&scratch);
        let server = Some(serve(&scratch));
        let driver = Some(DriverProcess::start(scratch.path(), "node-1", "nbd"));
        let calls = Calls::new(scratch.path());
        let known = BTreeMap::new();
        Self { scratch, server, driver, calls, known, refusals: 0, kills: 0 }
    }

    /// Kills processes, and starts them again.
    fn kill(&mut self, killed: Killed) {
        if killed.has_driver() {
            self.driver.take().expect("it runs").kill();
        }
        if killed.has_daemon() {
            // A server that is dropped is killed.
            drop(self.server.take());
            self.server = Some(serve(&self.scratch));
        }
        if self.driver.is_none() {
            self.driver = Some(DriverProcess::start(self.scratch.path(), "node-1", "nbd"));
        }
        self.kills += u32::from(killed != Killed::Nothing);
    }

    /// An operation that the cluster may begin on a volume.
    fn drawn(&self, volume: &str, rng: &mut SeededRng, round: u32) -> Operation {
        let mib = i64::try_from(16 * (1 + rng.below(8))).expect("a small number");
        let reserve = LADDER[usize::try_from(rng.below(4)).expect("one of four")];
        let Some(known) = self.known.get(volume) else {
            let source = self.known.keys().next().filter(|_| rng.below(3) == 0).cloned();
            let least = source.as_ref().map_or(0, |source| self.known[source].mib);
            return Operation::Provision { mib: mib.max(least), reserve, source };
        };
        match (rng.below(5), known.snapshots.first_key_value()) {
            (0, None) => Operation::Delete,
            (0 | 1, Some((name, id))) => {
                Operation::DeleteSnapshot { name: name.clone(), id: id.clone() }
            }
            (1 | 2, _) => Operation::Expand { mib: known.mib + mib },
            (3, _) => Operation::Modify { reserve },
            _ => Operation::Snapshot { name: format!("snapshot-{volume}-{round}") },
        }
    }

    /// Takes a final answer for true.
    fn note(&mut self, volume: &str, done: &Operation, answer: Result<Answer, Status>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(status) => {
                // What does not fit, and a source that the same round has deleted.
                let codes = match done {
                    Operation::Provision { .. } => vec![Code::ResourceExhausted, Code::NotFound],
                    Operation::Modify { .. } => vec![Code::InvalidArgument],
                    Operation::Expand { .. } => vec![Code::OutOfRange],
                    _ => vec![],
                };
                assert!(codes.contains(&status.code()), "{done:?} of {volume}: {status}");
                assert!(!status.message().is_empty(), "a refusal says what would fit");
                self.refusals += 1;
                return;
            }
        };
        let known = self.known.get_mut(volume);
        match (done, answer, known) {
            (Operation::Provision { mib: asked, reserve, source }, Answer::Volume { mib }, _) => {
                // A clone is as large as its source, which may grow in the same round.
                assert!(if source.is_some() { mib >= *asked } else { mib == *asked }, "{done:?}");
                let new = Known { mib, reserve: *reserve, snapshots: BTreeMap::new() };
                self.known.insert(volume.to_owned(), new);
            }
            (Operation::Delete, ..) => drop(self.known.remove(volume)),
            (Operation::Expand { mib }, _, Some(known)) => known.mib = *mib,
            (Operation::Modify { reserve }, _, Some(known)) => known.reserve = *reserve,
            (Operation::Snapshot { name }, Answer::Snapshot { id }, Some(known)) => {
                known.snapshots.insert(name.clone(), id);
            }
            (Operation::DeleteSnapshot { name, .. }, _, Some(known)) => {
                known.snapshots.remove(name);
            }
            (done, answer, _) => panic!("{done:?} of {volume}: {answer:?}"),
        }
    }

    /// Compares what the daemon has with what the cluster knows.
    fn check(&self) {
        let all = support::volumes(&self.scratch);
        let mut found = BTreeMap::new();
        let mut sums: BTreeMap<String, Share> = BTreeMap::new();
        for volume in &all {
            let pool = volume.pool.as_ref().expect("all are of the pool");
            let reserve: Share = volume.reserve.parse().expect("a share");
            if let Some(of) = &pool.snapshot_of {
                found.entry(of.clone()).or_insert((0, Share::NONE, vec![])).2.push(&volume.name);
                continue;
            }
            for disk in volume.disk.split('+') {
                let sum = sums.entry(disk.to_owned()).or_insert(Share::NONE);
                let more = sum.checked_add(reserve);
                *sum = more.unwrap_or_else(|| panic!("more than {disk} has: {all:#?}"));
            }
            let size = i64::try_from(volume.size_bytes).expect("a small number");
            let entry = found.entry(volume.name.clone()).or_insert((0, Share::NONE, vec![]));
            (entry.0, entry.1) = (size / MIB, reserve);
        }
        for (name, known) in &self.known {
            let snapshots: Vec<_> = known.snapshots.values().collect();
            let expected = (known.mib, Share::from_percent(known.reserve), snapshots);
            let there = found.remove(name);
            let there = there.map(|(mib, reserve, mut snapshots)| {
                snapshots.sort_unstable();
                // Two of one name are one: they are deleted together.
                snapshots.dedup_by_key(|id| id.rsplit_once('@').map(|(name, _)| name.to_owned()));
                (mib, reserve, snapshots)
            });
            assert_eq!(there, Some(expected), "{name}: found, and expected");
        }
        assert!(found.is_empty(), "left over: {found:?}");
    }

    /// Some operations at once, amid which something may be killed.
    async fn round(&mut self, rng: &mut SeededRng, round: u32) {
        let mut names = NAMES;
        rng.shuffle(&mut names);
        let count = 1 + usize::try_from(rng.below(3)).expect("a small number");
        let mut running = Vec::new();
        for volume in &names[..count] {
            let operation = self.drawn(volume, rng, round);
            // Each of one's callers may have called twice: a duplicate changes nothing.
            for _ in 0..=rng.below(2) {
                let deadline = Duration::from_micros(500 << rng.below(10));
                let (calls, of) = (self.calls.clone(), (*volume).to_owned());
                let asked = operation.clone();
                let task = async move { carried_out(&calls, &of, &asked, deadline).await };
                running.push(((*volume).to_owned(), operation.clone(), tokio::spawn(task)));
            }
        }
        tokio::time::sleep(Duration::from_micros(rng.below(8_000))).await;
        let killed = Killed::ALL[usize::try_from(rng.below(4)).expect("one of four")];
        self.kill(killed);
        let mut answers: BTreeMap<String, (Operation, Vec<_>)> = BTreeMap::new();
        for (volume, operation, task) in running {
            let answer = task.await.expect("it does not panic");
            println!("{volume}: {operation:?}, {killed:?} is killed: {answer:?}");
            answers.entry(volume).or_insert((operation, vec![])).1.push(answer);
        }
        for (volume, (operation, mut answers)) in answers {
            // A duplicate that came after a kill may be refused what the first was given, or be
            // given what the first was refused: what was given stands.
            answers.sort_by_key(Result::is_err);
            self.note(&volume, &operation, answers.swap_remove(0));
        }
        self.check();
    }

    /// Deletes everything, and finds nothing left.
    async fn clear(&mut self) {
        for (volume, known) in std::mem::take(&mut self.known) {
            let second = Duration::from_secs(1);
            for (name, id) in known.snapshots {
                let delete = Operation::DeleteSnapshot { name, id };
                carried_out(&self.calls, &volume, &delete, second).await.expect("it is deleted");
            }
            let deleted = carried_out(&self.calls, &volume, &Operation::Delete, second).await;
            deleted.expect("it is deleted");
        }
        self.check();
    }
}

#[test]
fn no_interleaving_with_kills_loses_a_volume_or_leaves_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(async {
        let mut cluster = Cluster::new();
        for seed in seeds(8) {
            println!("SPINDLE_SEED={seed} cargo test -p spindle-csi --test cluster");
            let mut rng = SeededRng::new(seed, 0);
            for round in 0..ROUNDS {
                cluster.round(&mut rng, round).await;
            }
            cluster.clear().await;
        }
        println!("{} kills, {} refusals", cluster.kills, cluster.refusals);
        assert!(cluster.kills > 0, "something was killed");
    });
}
