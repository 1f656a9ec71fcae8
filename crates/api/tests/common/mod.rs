//! A daemon with its API in the test's process.

#![allow(dead_code, reason = "each file of tests uses its part of this")]
#![allow(unreachable_pub, reason = "a module of the tests")]

use std::path::PathBuf;

pub mod exposition;

use config::Document;
use daemon::Daemon;
use nbd::Address;
use spindle_api::{Api, Bound, Client, Server, Token};
use tempfile::TempDir;

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

fn token(directory: &TempDir) -> Token {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.path().join("token");
    std::fs::write(&path, TOKEN).expect("a scratch file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("ours");
    Token::read(&path).expect("a token")
}
