//! A daemon with its API in the test's process.

#![allow(dead_code, reason = "each file of tests uses its part of this")]
#![allow(unreachable_pub, reason = "a module of the tests")]

use std::path::PathBuf;

pub mod exposition;

use config::Document;
use daemon::Daemon;
use nbd::Address;
use serde_json::{Value, json};
use spindle_api::{Answer, Api, Bound, Client, Server, Token};
use tempfile::TempDir;
use units::{Extent, Lba, Sectors};

/// Two small volumes on one disk in memory.
pub const CONFIG: &str = r#"# What we promise.
[[disk]]
name = "d0"
drive = "hgst-7k8"

[[volume]]
name = "a" # the first
disk = "d0"
size = "64MiB"
reserve = "50%"

[[volume]]
name = "b"
disk = "d0"
size = "32MiB"
"#;

/// A token of valid length.
pub const TOKEN: &str = "0123456789abcdef";

pub struct Served {
    pub directory: TempDir,
    pub config: PathBuf,
    pub client: Client,
    /// The address that requires a token.
    pub tcp: Address,
    pub operator: daemon::Operator,
    running: Option<(Daemon, Server)>,
}

impl Served {
    pub fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let path = directory.path().join("plan.toml");
        std::fs::write(&path, config).expect("a scratch file");
        Self::again(directory)
    }

    /// Starts on the directory of an earlier daemon.
    pub fn again(directory: TempDir) -> Self {
        let config = directory.path().join("plan.toml");
        let (nbd, socket) = (directory.path().join("nbd.sock"), directory.path().join("api.sock"));
        let document = Document::read(&config).expect("a sound config");
        let tcp = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let bind =
            || Bound::listen(&[Address::Unix(socket.clone()), tcp], Some(&token(&directory)));
        let daemon = Daemon::start_with(document.plan(), &[Address::Unix(nbd)], bind);
        let (daemon, bound) = daemon.expect("it can be served");
        let tcp = bound.addresses().expect("bound")[1].clone();
        let operator = daemon.operator(document);
        let api = Api::new(operator.clone());
        let server = Server::start(bound, api).expect("a thread");
        let running = Some((daemon, server));
        Self { directory, config, client: Client::new(&socket), tcp, operator, running }
    }

    pub fn nbd(&self) -> Address {
        Address::Unix(self.directory.path().join("nbd.sock"))
    }

    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.config).expect("it is there")
    }

    pub fn stop(mut self) -> TempDir {
        let (daemon, server) = self.running.take().expect("it runs");
        server.stop();
        daemon.stop().expect("the sockets' thread ends well");
        self.directory
    }
}

pub fn create(served: &Served, spec: &Value) -> Answer {
    served.client.post("volumes", spec).expect("an answer")
}

pub fn set(served: &Served, volume: &str, change: &Value) -> Answer {
    served.client.patch("volumes", volume, change).expect("an answer")
}

/// A volume, with its latencies.
pub fn volume(served: &Served, name: &str) -> Value {
    served.client.get("volumes", Some(name)).expect("an answer").body["volume"].clone()
}

pub fn disk(served: &Served, name: &str) -> Value {
    served.client.get("disks", Some(name)).expect("an answer").body["disk"].clone()
}

pub fn faulty(answer: &Answer, status: u16, code: &str, field: Option<&str>) {
    let error = &answer.body["error"];
    assert_eq!((answer.status, &error["code"]), (status, &json!(code)), "{answer:?}");
    assert_eq!(error["field"].as_str(), field, "{answer:?}");
}

pub fn open(served: &Served, volume: &str) -> nbd::client::Client {
    let mut client = nbd::client::Client::connect(&served.nbd()).expect("it listens");
    client.go(volume).expect("it is served");
    client
}

pub fn blocks(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

fn token(directory: &TempDir) -> Token {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.path().join("token");
    std::fs::write(&path, TOKEN).expect("a scratch file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("ours");
    Token::read(&path).expect("a token")
}
