//! A scheduler, played over three nodes: it places volumes by what `GetCapacity` answers for their
//! classes, from answers that are as old as the objects of a cluster are.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use rng::SeededRng;
use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    GetCapacityRequest, GetCapacityResponse,
};
use support::calls::{Calls, at_least, capability};
use support::{DriverProcess, create_pool, serve, volumes};
use testkit::{Scratch, Server};
use tonic::Code;
use units::Share;

/// The classes: a reserve each.
const CLASSES: [u32; 3] = [10, 30, 60];
const NODES: usize = 3;
const VOLUMES: usize = 40;
/// The placements between two looks at the capacities.
const LOOK_EVERY: usize = 4;
const SIZE: i64 = 32 << 20;
const SECOND: Duration = Duration::from_secs(5);

struct Node {
    scratch: Scratch,
    calls: Calls,
    _driver: DriverProcess,
    _server: Server,
}

impl Node {
    fn new(index: usize) -> Self {
        let scratch = Scratch::new();
        create_pool(&scratch);
        let server = serve(&scratch);
        let driver = DriverProcess::start(scratch.path(), &format!("node-{index}"), "nbd");
        let calls = Calls::new(scratch.path());
        Self { scratch, calls, _driver: driver, _server: server }
    }

    async fn capacity(&self, reserve: u32) -> i64 {
        let asked = GetCapacityRequest { parameters: class(reserve), ..Default::default() };
        let method = "/csi.v1.Controller/GetCapacity";
        let answer: GetCapacityResponse =
            self.calls.finish(method, &asked, SECOND).await.expect("it answers");
        let most = answer.maximum_volume_size.expect("the driver knows it");
        assert_eq!(answer.available_capacity, most, "a class that is refused has no capacity");
        most
    }

    /// The sum of the reserves, checked to be at most all of each disk.
    fn reserved(&self) -> Share {
        let mut sums: BTreeMap<String, Share> = BTreeMap::new();
        for volume in volumes(&self.scratch) {
            let reserve: Share = volume.reserve.parse().expect("a share");
            for disk in volume.disk.split('+') {
                let sum = sums.entry(disk.to_owned()).or_insert(Share::NONE);
                *sum = sum.checked_add(reserve).expect("at most all of a disk is promised");
            }
        }
        sums.into_values().max().unwrap_or(Share::NONE)
    }
}

fn class(reserve: u32) -> BTreeMap<String, String> {
    BTreeMap::from([("reserve".to_owned(), format!("{reserve}%"))])
}

/// What a scheduler does with forty claims.
#[derive(Default)]
struct Scheduler {
    /// The volumes that are placed: the node and the name.
    placed: Vec<(usize, String)>,
    /// The nodes that volumes were placed on since the capacities were looked at.
    since_look: Vec<usize>,
    refused: usize,
}

impl Scheduler {
    /// Removes a volume, so that others fit again.
    async fn remove_one(&mut self, nodes: &[Node], rng: &mut SeededRng) {
        let at = rng.below(u64::try_from(self.placed.len()).expect("a small number"));
        let (node, volume_id) = self.placed.swap_remove(usize::try_from(at).expect("small"));
        let asked = DeleteVolumeRequest { volume_id, ..Default::default() };
        let method = "/csi.v1.Controller/DeleteVolume";
        let deleted = nodes[node].calls.finish(method, &asked, SECOND).await;
        deleted.map(|_: DeleteVolumeResponse| ()).expect("it is deleted");
    }

    /// Tries to place a volume on a node; returns whether it was.
    async fn place(&mut self, (at, node): (usize, &Node), name: &str, reserve: u32) -> bool {
        let asked = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(at_least(SIZE)),
            volume_capabilities: vec![capability(None, Mode::SingleNodeWriter)],
            parameters: class(reserve),
            ..Default::default()
        };
        let method = "/csi.v1.Controller/CreateVolume";
        match node.calls.finish::<_, CreateVolumeResponse>(method, &asked, SECOND).await {
            Ok(_) => {
                self.placed.push((at, name.to_owned()));
                true
            }
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                self.refused += 1;
                false
            }
        }
    }
}

#[test]
fn volumes_placed_by_capacity_are_refused_only_as_far_as_it_is_old_and_never_over_promised() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(async {
        let nodes: Vec<Node> = (0..NODES).map(Node::new).collect();
        let mut rng = SeededRng::new(1, 0);
        let mut scheduler = Scheduler::default();
        let mut capacities = BTreeMap::new();
        let mut removed = 0;
        for index in 0..VOLUMES {
            let reserve = CLASSES[usize::try_from(rng.below(3)).expect("one of three")];
            let name = format!("pvc-{index}");
            loop {
                if scheduler.since_look.is_empty() {
                    for (at, node) in nodes.iter().enumerate() {
                        for class in CLASSES {
                            capacities.insert((at, class), node.capacity(class).await);
                        }
                    }
                }
                let fitting = (0..NODES).filter(|at| capacities[&(*at, reserve)] >= SIZE);
                let fitting: Vec<usize> = fitting.collect();
                if fitting.is_empty() {
                    // No node keeps this promise: as in a cluster, a volume has to go.
                    scheduler.remove_one(&nodes, &mut rng).await;
                    removed += 1;
                    scheduler.since_look.clear();
                    continue;
                }
                let choices = u64::try_from(fitting.len()).expect("a small number");
                let at = fitting[usize::try_from(rng.below(choices)).expect("small")];
                if scheduler.place((at, &nodes[at]), &name, reserve).await {
                    scheduler.since_look.push(at);
                    if scheduler.since_look.len() == LOOK_EVERY {
                        scheduler.since_look.clear();
                    }
                    break;
                }
                let is_old = scheduler.since_look.contains(&at);
                assert!(is_old, "{name}: node {at} was refused what it had answered just before");
                scheduler.since_look.clear();
            }
            for node in &nodes {
                node.reserved();
            }
        }
        let Scheduler { refused, placed, .. } = scheduler;
        println!("{VOLUMES} placed, {removed} removed for them, {refused} refused");
        let full = nodes.iter().map(|node| node.reserved().as_f64()).sum::<f64>();
        println!("{} are there, on average {:.0} % of a node", placed.len(), full / 3.0 * 100.0);
        assert!(removed > 0, "the nodes were full");
    });
}
