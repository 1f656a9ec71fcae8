//! The driver's socket.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener as StdListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use nbd::Address;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::blocking::InProgress;
use crate::daemon::Daemon;
use crate::node::NodeVolumes;
use crate::node::steps::{self, End};
use crate::node::transport::{Transport, TransportKind};
use crate::proto::controller_server::ControllerServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::node_server::NodeServer;
use crate::services::Driver;
use crate::services::central::Central;

/// The Kubernetes driver: volumes of this node's daemon over the container storage interface.
#[derive(Clone, Debug, Parser)]
#[command(name = "spindle-csi", version, about)]
pub struct Options {
    /// The socket on which the driver is called.
    #[arg(long, value_name = "PATH", default_value = "/csi/csi.sock")]
    pub endpoint: PathBuf,
    /// The socket of the daemon's API.
    #[arg(long, value_name = "PATH", default_value = "/run/spindle/api.sock")]
    pub api: PathBuf,
    /// The NBD address of the daemon.
    #[arg(long, value_name = "ADDRESS", default_value = "unix:/run/spindle/nbd.sock")]
    pub server: Address,
    /// The name of this node in the cluster.
    #[arg(long, value_name = "NAME", required_unless_present = "central")]
    pub node: Option<String>,
    /// Serve no volumes: tell the resizer of a cluster that volumes grow on their nodes.
    #[arg(long, conflicts_with = "node")]
    pub central: bool,
    /// How volumes become block devices.
    #[arg(long, value_enum, default_value = "nbd")]
    pub attach: TransportKind,
    /// The directory for what tests need beside: the files of nbdfuse.
    #[arg(long, value_name = "DIR", default_value = "/run/spindle-csi")]
    pub directory: PathBuf,
    /// For tests: the driver ends, as if it were killed, after this step of the node's calls.
    #[arg(long, value_name = "STEP", hide = true)]
    pub end_after: Option<u64>,
    /// For tests: the processes of its group end with it.
    #[arg(long, requires = "end_after", hide = true)]
    pub end_with_group: bool,
}

/// Serves the driver until SIGINT or SIGTERM.
///
/// # Errors
/// The socket is in use or cannot be made.
pub fn run(options: Options) -> anyhow::Result<()> {
    if let Some(after) = options.end_after {
        steps::end(End { after, with_group: options.end_with_group });
    }
    let socket = bind(&options.endpoint)?;
    let endpoint = options.endpoint.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListenerStream::new(UnixListener::from_std(socket)?);
        let stopped = on_signal()?;
        let services = services(options);
        eprintln!("serving on {}", endpoint.display());
        let served = services.serve_with_incoming_shutdown(listener, async {
            let _ = stopped.await;
        });
        served.await.context("the server has ended")
    })?;
    let _ = std::fs::remove_file(&endpoint);
    Ok(())
}

/// The services of a node, or of no node.
fn services(options: Options) -> Router {
    let Options { api, server, node, attach, directory, .. } = options;
    let Some(node) = node else {
        return Server::builder()
            .add_service(IdentityServer::new(Central))
            .add_service(ControllerServer::new(Central))
            .add_service(NodeServer::new(Central));
    };
    let daemon = Daemon::new(&api);
    let transport = Transport::new(attach, daemon.clone(), server, directory);
    let driver = Driver {
        node,
        daemon,
        volumes: Arc::new(NodeVolumes::new(transport)),
        in_progress: InProgress::default(),
    };
    Server::builder()
        .add_service(IdentityServer::new(driver.clone()))
        .add_service(ControllerServer::new(driver.clone()))
        .add_service(NodeServer::new(driver))
}

/// The attempts to bind the socket, [`BIND_PAUSE`] apart: a process that a killed driver was about
/// to start holds its socket for a moment.
const BIND_ATTEMPTS_MAX: u32 = 40;
const BIND_PAUSE: Duration = Duration::from_millis(50);

#[expect(clippy::disallowed_methods, reason = "no event says that a socket is free")]
fn bind(endpoint: &Path) -> anyhow::Result<StdListener> {
    let mut attempts = 0;
    let socket = loop {
        attempts += 1;
        // A socket that a killed driver has left.
        if UnixStream::connect(endpoint).is_err() {
            let _ = std::fs::remove_file(endpoint);
        }
        match StdListener::bind(endpoint) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts < BIND_ATTEMPTS_MAX => {
                std::thread::sleep(BIND_PAUSE);
            }
            bound => break bound,
        }
    };
    let socket = socket.with_context(|| format!("--endpoint: {}", endpoint.display()))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Ends with the first SIGINT or SIGTERM.
fn on_signal() -> anyhow::Result<oneshot::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (stop, stopped) = oneshot::channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The server may have ended already.
            let _ = stop.send(());
        }
    });
    Ok(stopped)
}
