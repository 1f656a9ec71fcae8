//! Pods on a node: the kubelet's calls in their order among those of provisioner, resizer and
//! snapshotter, with retries, duplicates and deadlines, while the driver is killed, and the daemon
//! where a device outlives its daemon (not over nbdfuse). Whatever the interleaving: a volume has
//! what its pod has written, and one that is restored has what its snapshot had.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rng::SeededRng;
use support::caller::{Call, Caller, Claim};
use support::node::{Node, attach};
use support::{DriverProcess, Killed, number, seeds, serve, volumes};

const MIB: i64 = 1 << 20;
const LIFE: [Call; 4] = [Call::Stage, Call::Publish, Call::Unpublish, Call::Unstage];
/// The rounds of an interleaving.
const ROUNDS: u32 = 16;
const NAMES: [&str; 3] = ["pvc-1", "pvc-2", "pvc-3"];
/// The size of a volume that begins empty.
const MIB_MIN: i64 = 32;
/// A volume of this size is grown no more.
const MIB_MAX: i64 = 256;
/// More than the smallest XFS.
const XFS_MIB: i64 = 320;
/// The part of its volume that a file system gives to files, at least, in percent. It has less when
/// it was not grown with its volume, which doubles.
const USABLE: i64 = 75;

/// How far the kubelet is with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Provisioned,
    Staged,
    Published,
}

/// A snapshot, with what it was taken of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Snapshot {
    id: String,
    mib: i64,
    content: Option<String>,
}

/// What the cluster takes for true of a pod's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    mib: i64,
    /// The size of its device: not every transport lets one grow in use.
    device_mib: i64,
    stage: Stage,
    content: Option<String>,
    snapshots: Vec<Snapshot>,
}

#[derive(Clone, Debug)]
enum Operation {
    Provision { mib: i64, source: Option<Snapshot> },
    Delete,
    Kubelet(Call),
    Write(String),
    Expand { mib: i64 },
    Snapshot { name: String },
    DeleteSnapshot(Snapshot),
}

/// Writes a file of a pod, durably.
fn write(directory: &Path, content: &str) {
    let written = File::create(directory.join("content")).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        File::open(directory)?.sync_all()
    });
    written.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
}

/// Carries an operation out; returns the identifier of a snapshot that it has taken.
async fn carried_out(caller: &Caller, claim: &Claim, operation: &Operation) -> Option<String> {
    match operation {
        Operation::Provision { mib, source } => {
            let source = source.as_ref().map(|one| one.id.as_str());
            let bytes = caller.create(claim, mib * MIB, source).await;
            assert_eq!(bytes, mib * MIB, "{claim:?}");
        }
        Operation::Delete => caller.delete(claim).await,
        Operation::Kubelet(call) => caller.all(&[*call], claim).await,
        Operation::Write(content) => {
            let (at, content) = (PathBuf::from(caller.target(claim)), content.clone());
            let written = tokio::task::spawn_blocking(move || write(&at, &content));
            written.await.expect("it is written");
        }
        Operation::Expand { mib } => caller.expand(claim, mib * MIB).await,
        Operation::Snapshot { name } => return Some(caller.snapshot(claim, name).await),
        Operation::DeleteSnapshot(snapshot) => caller.delete_snapshot(&snapshot.id).await,
    }
    None
}

/// A node with a driver, and its pods.
struct Cluster {
    node: Node,
    driver: Option<DriverProcess>,
    pods: BTreeMap<String, Pod>,
    kills: u32,
}

/// Whether a device grows while it is mounted: a file of nbdfuse does not, and ublk only from Linux
/// 6.16 on.
fn grows_in_use() -> bool {
    attach() == "nbd" && may_grow()
}

/// Whether the kernel lets this process grow a mounted ext4.
fn may_grow() -> bool {
    const SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.expect("the capabilities") & 1 << SYS_RESOURCE != 0
}

/// Whether this kernel has XFS, or loads it.
fn has_xfs() -> bool {
    let has = || std::fs::read_to_string("/proc/filesystems").is_ok_and(|all| all.contains("xfs"));
    // Where there are no modules, what is there is all.
    let load = || Command::new("modprobe").arg("xfs").output();
    has() || (load().is_ok() && has())
}

fn claim(name: &str) -> Claim {
    Claim::new(name, Some("ext4"))
}

impl Cluster {
    fn new(what: &str) -> Option<Self> {
        let node = Node::new(what)?;
        if !may_grow() {
            eprintln!("SKIPPED: no CAP_SYS_RESOURCE here: the growth of ext4 was NOT tried");
        }
        let driver = Some(node.driver(&[]));
        Some(Self { node, driver, pods: BTreeMap::new(), kills: 0 })
    }

    /// Kills processes, and starts them again.
    fn kill(&mut self, killed: Killed) {
        if killed.has_driver() {
            self.driver.take().expect("it runs").kill();
        }
        if killed.has_daemon() {
            // A server that is dropped is killed.
            drop(self.node.server.take());
            self.node.server = Some(serve(&self.node.scratch));
        }
        if self.driver.is_none() {
            self.driver = Some(self.node.driver(&[]));
        }
        self.kills += u32::from(killed != Killed::Nothing);
    }

    /// An operation that the cluster may begin on a volume.
    fn drawn(&self, name: &str, others: &[&str], rng: &mut SeededRng, round: u32) -> Operation {
        let Some(pod) = self.pods.get(name) else {
            // A snapshot that may be deleted meanwhile is no source.
            let free = self.pods.iter().filter(|(of, _)| !others.contains(&of.as_str()));
            let all: Vec<&Snapshot> = free.flat_map(|(_, pod)| &pod.snapshots).collect();
            let source = all.first().filter(|_| rng.below(4) > 0).map(|one| (*one).clone());
            let larger = if may_grow() { rng.below(2) } else { 0 };
            let mib = source.as_ref().map_or(MIB_MIN, |one| one.mib << larger);
            return Operation::Provision { mib, source };
        };
        match (pod.stage, rng.below(6)) {
            (Stage::Provisioned, 0) if pod.snapshots.is_empty() => Operation::Delete,
            (Stage::Provisioned, _) => Operation::Kubelet(Call::Stage),
            (Stage::Staged, 0) => Operation::Kubelet(Call::Unstage),
            (Stage::Staged, _) => Operation::Kubelet(Call::Publish),
            (Stage::Published, 0) => Operation::Kubelet(Call::Unpublish),
            (Stage::Published, 1) if pod.mib < MIB_MAX && may_grow() => {
                Operation::Expand { mib: pod.mib * 2 }
            }
            (Stage::Published, 2) => Operation::Snapshot { name: format!("{name}-at-{round}") },
            (Stage::Published, 3) if !pod.snapshots.is_empty() => {
                Operation::DeleteSnapshot(pod.snapshots[0].clone())
            }
            (Stage::Published, _) => Operation::Write(format!("{name}, round {round}")),
        }
    }

    /// Takes an operation that was carried out for true.
    fn note(&mut self, name: &str, done: Operation, taken: Option<String>) {
        let pod = match done {
            Operation::Provision { mib, source } => {
                let content = source.and_then(|one| one.content);
                let (stage, snapshots) = (Stage::Provisioned, Vec::new());
                let pod = Pod { mib, device_mib: 0, stage, content, snapshots };
                self.pods.insert(name.to_owned(), pod);
                return;
            }
            Operation::Delete => {
                self.pods.remove(name);
                return;
            }
            _ => self.pods.get_mut(name).expect("it is provisioned"),
        };
        match done {
            Operation::Provision { .. } | Operation::Delete => unreachable!("they are done"),
            Operation::Kubelet(Call::Publish) => pod.stage = Stage::Published,
            Operation::Kubelet(Call::Stage) => {
                (pod.stage, pod.device_mib) = (Stage::Staged, pod.mib);
            }
            Operation::Kubelet(Call::Unpublish) => pod.stage = Stage::Staged,
            Operation::Kubelet(Call::Unstage) => pod.stage = Stage::Provisioned,
            Operation::Write(content) => pod.content = Some(content),
            Operation::Expand { mib } => {
                pod.mib = mib;
                if grows_in_use() {
                    pod.device_mib = mib;
                }
            }
            Operation::Snapshot { .. } => {
                let id = taken.expect("it was taken");
                pod.snapshots.push(Snapshot { id, mib: pod.mib, content: pod.content.clone() });
            }
            Operation::DeleteSnapshot(gone) => pod.snapshots.retain(|one| *one != gone),
        }
    }

    /// Compares what pods read, and how much they can write, with what the cluster knows.
    async fn check(&self) {
        for (name, pod) in self.pods.iter().filter(|(_, pod)| pod.stage == Stage::Published) {
            let at = PathBuf::from(self.node.caller.target(&claim(name))).join("content");
            let found = std::fs::read_to_string(&at).ok();
            assert_eq!(found, pod.content, "{name}");
            let total = self.node.caller.total(&claim(name)).await;
            let least = pod.device_mib * MIB * USABLE / 100;
            assert!(total >= least, "{name}: {total} bytes, expected {least} of {pod:?}");
        }
    }

    /// Some operations at once, amid which something may be killed.
    async fn round(&mut self, rng: &mut SeededRng, round: u32) {
        let mut names = NAMES;
        rng.shuffle(&mut names);
        let count = 1 + usize::try_from(rng.below(2)).expect("a small number");
        let mut running = Vec::new();
        for name in &names[..count] {
            let operation = self.drawn(name, &names[..count], rng, round);
            // A duplicate changes nothing. A pod writes once.
            let is_call = !matches!(operation, Operation::Write(_));
            for _ in 0..=rng.below(if is_call { 2 } else { 1 }) {
                let deadline = Duration::from_millis(2 << rng.below(10));
                let (caller, asked) = (self.node.caller.within(deadline), operation.clone());
                let of = claim(name);
                let task = async move { carried_out(&caller, &of, &asked).await };
                running.push(((*name).to_owned(), operation.clone(), tokio::spawn(task)));
            }
        }
        tokio::time::sleep(Duration::from_millis(rng.below(150))).await;
        let drawn = Killed::ALL[usize::try_from(rng.below(4)).expect("one of four")];
        let killed = match drawn {
            // A file of nbdfuse ends with its connection.
            Killed::Daemon | Killed::Both if attach() == "nbdfuse" => Killed::Driver,
            other => other,
        };
        self.kill(killed);
        let mut done: BTreeMap<String, (Operation, Option<String>)> = BTreeMap::new();
        for (name, operation, task) in running {
            let taken = task.await.expect("it is carried out");
            println!("{name}: {operation:?}, {killed:?} is killed");
            done.insert(name, (operation, taken));
        }
        for (name, (operation, taken)) in done {
            self.note(&name, operation, taken);
        }
        self.check().await;
    }

    /// Removes everything in the order in which a cluster does, and finds nothing left.
    async fn clear(&mut self) {
        let caller = &self.node.caller;
        for (name, pod) in std::mem::take(&mut self.pods) {
            let calls: &[Call] = match pod.stage {
                Stage::Published => &LIFE[2..],
                Stage::Staged => &LIFE[3..],
                Stage::Provisioned => &[],
            };
            caller.all(calls, &claim(&name)).await;
            for snapshot in pod.snapshots {
                caller.delete_snapshot(&snapshot.id).await;
            }
            caller.delete(&claim(&name)).await;
        }
        self.node.check_nothing_left();
        let left = volumes(&self.node.scratch);
        assert!(left.is_empty(), "left over: {left:?}");
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(test)
}

#[test]
fn pods_find_what_they_wrote_whatever_is_killed_amid_the_calls() {
    run(async {
        let Some(mut cluster) = Cluster::new("pods over kills") else { return };
        for seed in seeds(3) {
            println!("SPINDLE_SEED={seed} cargo test -p spindle-csi --test pods kill");
            let mut rng = SeededRng::new(seed, 0);
            for round in 0..ROUNDS {
                cluster.round(&mut rng, round).await;
            }
            cluster.clear().await;
        }
        println!("{} kills", cluster.kills);
    });
}

/// Writes and verifies, again and again until it is told to stop; reports each time.
struct Writer {
    rounds: mpsc::Receiver<()>,
    enough: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Writer {
    fn start(directory: PathBuf) -> Self {
        let (report, rounds) = mpsc::channel();
        let enough = Arc::new(AtomicBool::new(false));
        let is_enough = enough.clone();
        let thread = std::thread::spawn(move || {
            let options = "--name=verified --size=8m --rw=randwrite --bsrange=4k-64k --direct=1 \
                           --ioengine=psync --verify=crc32c --verify_fatal=1 --verify_state_save=0";
            let options: Vec<&str> = options.split_whitespace().collect();
            while !is_enough.load(Ordering::Relaxed) {
                testkit::succeed("fio", &options, &directory);
                // The test may have ended.
                let _ = report.send(());
            }
        });
        Self { rounds, enough, thread }
    }

    /// Waits until what was begun before is verified, and more is written.
    fn await_rounds(&self) {
        for _ in 0..2 {
            self.rounds.recv().expect("the writer has not failed");
        }
    }

    fn stop(self) {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().expect("every byte was read as it was written");
    }
}

#[test]
fn a_writer_goes_on_while_driver_and_daemon_are_killed() {
    run(async {
        let Some(mut cluster) = Cluster::new("a writer over kills") else { return };
        let claim = claim("written");
        let caller = cluster.node.caller.clone();
        caller.create(&claim, 64 * MIB, None).await;
        caller.all(&LIFE[..2], &claim).await;
        write(Path::new(&caller.target(&claim)), "before");
        let writer = Writer::start(PathBuf::from(caller.target(&claim)));
        let kinds = match attach().as_str() {
            // A file of nbdfuse ends with its connection.
            "nbdfuse" => &[Killed::Driver][..],
            _ => &[Killed::Driver, Killed::Daemon, Killed::Both],
        };
        let kills = number("SPINDLE_KILLS").unwrap_or(3);
        for kill in 0..kills {
            let killed = kinds[usize::try_from(kill).expect("few") % kinds.len()];
            cluster.kill(killed);
            // The kubelet makes sure that what it has mounted is there.
            caller.all(&[Call::Stage, Call::Publish], &claim).await;
            writer.await_rounds();
            println!("{killed:?} was killed: the writer goes on");
        }
        if may_grow() {
            caller.expand(&claim, 128 * MIB).await;
        }
        let total = caller.total(&claim).await;
        assert!(total > 96 * MIB || !grows_in_use(), "{total}");
        writer.await_rounds();
        writer.stop();
        caller.all(&LIFE[2..], &claim).await;
        // Read back from the volume, not from memory: the device is another one.
        let block = claim.used_as(None);
        caller.all(&LIFE[..2], &block).await;
        let device = cluster.node.device(&block);
        testkit::succeed("e2fsck", &["-f", "-n", &device], cluster.node.scratch.path());
        caller.all(&LIFE[2..], &block).await;
        caller.all(&LIFE[..2], &claim).await;
        let at = Path::new(&caller.target(&claim)).join("content");
        assert_eq!(std::fs::read_to_string(at).expect("it is there"), "before");
        caller.all(&LIFE[2..], &claim).await;
        cluster.node.check_nothing_left();
        caller.delete(&claim).await;
        println!("{kills} kills under a writer");
    });
}

#[test]
fn an_xfs_grows_under_its_pod_and_is_restored_beside_it() {
    run(async {
        let Some(mut cluster) = Cluster::new("XFS under pods") else { return };
        if !has_xfs() {
            eprintln!("SKIPPED: this kernel has no XFS: it was NOT tried");
            return;
        }
        let claim = Claim::new("xfs", Some("xfs"));
        let caller = cluster.node.caller.clone();
        let content = |claim: &Claim| PathBuf::from(caller.target(claim)).join("content");
        caller.create(&claim, XFS_MIB * MIB, None).await;
        caller.all(&LIFE[..2], &claim).await;
        write(Path::new(&caller.target(&claim)), "before");
        caller.expand(&claim, 2 * XFS_MIB * MIB).await;
        let grown = 2 * XFS_MIB * MIB * USABLE / 100;
        let total = caller.total(&claim).await;
        assert!(total >= grown || !grows_in_use(), "{total}");
        let snapshot = caller.snapshot(&claim, "xfs-at-1").await;
        write(Path::new(&caller.target(&claim)), "after");
        cluster.kill(Killed::Driver);
        // Beside its source, which is mounted and has the same UUID.
        let copy = Claim::new("restored", Some("xfs"));
        caller.create(&copy, 2 * XFS_MIB * MIB, Some(&snapshot)).await;
        caller.all(&LIFE[..2], &copy).await;
        for (claim, expected) in [(&claim, "after"), (&copy, "before")] {
            let found = std::fs::read_to_string(content(claim)).expect("it is there");
            assert_eq!(found, expected, "{claim:?}");
        }
        let total = caller.total(&copy).await;
        assert!(total >= grown, "a copy has the size that was asked for: {total}");
        for claim in [&claim, &copy] {
            caller.all(&LIFE[2..], claim).await;
        }
        // A device that could not grow in use has grown when it is staged again.
        caller.all(&LIFE[..2], &claim).await;
        let total = caller.total(&claim).await;
        assert!(total >= grown, "{total}");
        assert_eq!(std::fs::read_to_string(content(&claim)).expect("it is there"), "after");
        caller.all(&LIFE[2..], &claim).await;
        cluster.node.check_nothing_left();
        caller.delete_snapshot(&snapshot).await;
        for claim in [&claim, &copy] {
            caller.delete(claim).await;
        }
        println!("XFS has grown, and was restored beside itself");
    });
}
