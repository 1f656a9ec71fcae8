//! The attributes controller, played on a volume under fio: its share follows a change, measured by
//! the accounts of the daemon, and a change that is refused changes nothing.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::{
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, CreateVolumeRequest,
    CreateVolumeResponse,
};
use support::calls::{Calls, at_least, capability};
use support::{DriverProcess, create_pool, serve, volumes};
use testkit::{Scratch, client};
use tonic::{Code, Status};

const DEADLINE: Duration = Duration::from_mins(1);
/// The time between two looks at the accounts.
const PAUSE: Duration = Duration::from_millis(20);
/// The disk time in which a share is measured, in seconds.
const WINDOW: f64 = 0.5;
/// The disk time within which a share follows a change, in seconds.
const FOLLOWS_WITHIN: f64 = 2.0;
/// The looks that are begun again, at most: then the clients do not ask at all.
const BEGUN_AGAIN_MAX: u32 = 1_000;
/// The farthest that a share over a longer time is from what was asked for, in percent points.
const OFF_MAX: f64 = 5.0;

/// A running fio. It is killed when it is dropped.
struct Load(Child);

impl Load {
    fn start(directory: &Path, volume: &str) -> Self {
        let socket = directory.join("nbd.sock");
        let uri = format!("--uri=nbd+unix:///{volume}?socket={}", socket.display());
        let options = "--name=load --ioengine=nbd --rw=randread --bs=4k --iodepth=8 --size=1g \
                       --time_based --runtime=600";
        let mut command = client("fio");
        command.args(options.split_whitespace()).arg(uri).current_dir(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it is installed"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The disk time that the two volumes were charged.
#[derive(Clone, Copy, Debug)]
struct Accounts {
    changed: f64,
    other: f64,
    /// Whether both have requests outstanding. A share is promised to a volume that asks.
    both_ask: bool,
}

impl Accounts {
    fn of(all: &[api::Volume]) -> Self {
        let of = |name: &str| all.iter().find(|one| one.name == name).expect("it is there");
        let (changed, other) = (of("changed"), of("other"));
        let both_ask = changed.in_flight > 0 && other.in_flight > 0;
        Self { changed: changed.disk_time_s, other: other.disk_time_s, both_ask }
    }

    /// The disk time between two looks, and the share of the changed volume, in percent.
    fn since(self, earlier: Self) -> (f64, f64) {
        let (changed, other) = (self.changed - earlier.changed, self.other - earlier.other);
        let time = changed + other;
        (time, if time > 0.0 { 100.0 * changed / time } else { 0.0 })
    }
}

struct Node {
    scratch: Scratch,
    calls: Calls,
}

impl Node {
    fn accounts(&self) -> Accounts {
        Accounts::of(&volumes(&self.scratch))
    }

    /// Looks at the accounts until the disk has worked for `time` seconds; returns all looks. One
    /// at which a client has nothing outstanding, for want of a processor, begins them again.
    async fn looks(&self, from: Accounts, time: f64) -> Vec<Accounts> {
        let (mut all, mut begun_again) = (vec![from], 0);
        while all[all.len() - 1].since(all[0]).0 < time {
            tokio::time::sleep(PAUSE).await;
            let look = self.accounts();
            if !look.both_ask && begun_again < BEGUN_AGAIN_MAX {
                all.clear();
                begun_again += 1;
            }
            all.push(look);
        }
        all
    }

    async fn create(&self, name: &str, parameters: &[(&str, &str)]) {
        let asked = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(at_least(1 << 30)),
            volume_capabilities: vec![capability(None, Mode::SingleNodeWriter)],
            parameters: map(&[parameters, &[("disks", "d0")]].concat()),
            ..Default::default()
        };
        let method = "/csi.v1.Controller/CreateVolume";
        let answer: Result<CreateVolumeResponse, _> =
            self.calls.finish(method, &asked, DEADLINE).await;
        answer.expect("it fits");
    }

    async fn modify(&self, parameters: &[(&str, &str)]) -> Result<(), Status> {
        let asked = ControllerModifyVolumeRequest {
            volume_id: "changed".to_owned(),
            mutable_parameters: map(parameters),
            ..Default::default()
        };
        let method = "/csi.v1.Controller/ControllerModifyVolume";
        let answer = self.calls.finish(method, &asked, DEADLINE).await;
        answer.map(|_: ControllerModifyVolumeResponse| ())
    }

    /// The contracts of all volumes, and the config.
    fn state(&self) -> (Vec<(String, String, String, u32)>, String) {
        let of = |one: api::Volume| (one.name, one.reserve, one.limit, one.weight);
        let contracts = volumes(&self.scratch).into_iter().map(of).collect();
        let config = std::fs::read_to_string(self.scratch.join("plan.toml"));
        (contracts, config.expect("it is there"))
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The disk time after which the share over the last window is within its bound of what was asked
/// for, if there is such a time.
fn followed_after(looks: &[Accounts], share: f64) -> Option<f64> {
    looks.iter().enumerate().find_map(|(at, now)| {
        let window = looks[..at].iter().rev().map(|one| now.since(*one));
        let (_, found) = window.into_iter().find(|(time, _)| *time >= WINDOW)?;
        let is_near = (found - share).abs() <= 2.0 * OFF_MAX;
        is_near.then(|| now.since(looks[0]).0)
    })
}

#[test]
fn a_share_under_load_follows_its_class_and_a_refused_change_changes_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(async {
        let scratch = Scratch::new();
        create_pool(&scratch);
        let _server = serve(&scratch);
        let _driver = DriverProcess::start(scratch.path(), "node-1", "nbd");
        let calls = Calls::new(scratch.path());
        let node = Node { scratch, calls };
        node.create("changed", &[("reserve", "20%"), ("limit", "20%")]).await;
        node.create("other", &[("reserve", "30%")]).await;
        let loads = ["changed", "other"].map(|name| Load::start(node.scratch.path(), name));
        // Both have begun.
        let mut begun = node.accounts();
        while begun.changed == 0.0 || begun.other == 0.0 {
            tokio::time::sleep(PAUSE).await;
            begun = node.accounts();
        }
        let warm = node.looks(begun, 2.0 * FOLLOWS_WITHIN).await;
        let mut before = warm[warm.len() - 1];
        for share in [60, 10, 50] {
            let percent = format!("{share}%");
            let change = [("reserve", percent.as_str()), ("limit", percent.as_str())];
            node.modify(&change).await.expect("it fits");
            let (asked, changed) = (f64::from(share), node.accounts());
            let looks = node.looks(changed, FOLLOWS_WITHIN).await;
            let after = followed_after(&looks, asked);
            let last = looks[looks.len() - 1];
            let steady = node.looks(last, FOLLOWS_WITHIN).await;
            let (time, found) = steady[steady.len() - 1].since(steady[0]);
            let was = changed.since(before).1;
            println!("{was:.1} % to {asked} %: {after:.2?} s, then {found:.1} % over {time:.1} s");
            assert!(after.is_some(), "{asked} %: not within {FOLLOWS_WITHIN} s of disk time");
            assert!((found - asked).abs() <= OFF_MAX, "{asked} %: {found:.1} % afterwards");
            before = last;
        }
        let state = node.state();
        // Beside the 30 % of the other volume.
        let refused = node.modify(&[("reserve", "80%")]).await.expect_err("it does not fit");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains('%'), "it says what would fit: {refused}");
        let unknown = node.modify(&[("reserve", "20%"), ("colour", "red")]).await;
        assert_eq!(unknown.expect_err("it is unknown").code(), Code::InvalidArgument);
        assert_eq!(node.state(), state, "a refused change changes nothing");
        let refused_at = node.accounts();
        let looks = node.looks(refused_at, FOLLOWS_WITHIN).await;
        let (time, found) = looks[looks.len() - 1].since(looks[0]);
        println!("refused: {found:.1} % over {time:.1} s");
        assert!((found - 50.0).abs() <= OFF_MAX, "{found:.1} % after a refusal");
        drop(loads);
    });
}
