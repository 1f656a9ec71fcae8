//! The driver's socket.

use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use nbd::Address;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::blocking::InProgress;
use crate::daemon::Daemon;
use crate::node::NodeVolumes;
use crate::node::steps::{self, End};
use crate::node::transport::{Transport, TransportKind};
use crate::proto::controller_server::ControllerServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::node_server::NodeServer;
use crate::services::Driver;

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
    #[arg(long, value_name = "NAME")]
    pub node: String,
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
    let Options { endpoint, api, server, node, attach, directory, .. } = options;
    if let Some(after) = options.end_after {
        steps::end(End { after, with_group: options.end_with_group });
    }
    // A socket that a killed driver has left.
    if std::os::unix::net::UnixStream::connect(&endpoint).is_err() {
        let _ = std::fs::remove_file(&endpoint);
    }
    let socket = StdListener::bind(&endpoint);
    let socket = socket.with_context(|| format!("--endpoint: {}", endpoint.display()))?;
    socket.set_nonblocking(true)?;
    let daemon = Daemon::new(&api);
    let transport = Transport::new(attach, daemon.clone(), server, directory);
    let driver = Driver {
        node,
        daemon,
        volumes: Arc::new(NodeVolumes::new(transport)),
        in_progress: InProgress::default(),
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (stop, stopped) = oneshot::channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // The server may have ended already.
            let _ = stop.send(());
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListenerStream::new(UnixListener::from_std(socket)?);
        eprintln!("serving on {}", endpoint.display());
        Server::builder()
            .add_service(IdentityServer::new(driver.clone()))
            .add_service(ControllerServer::new(driver.clone()))
            .add_service(NodeServer::new(driver))
            .serve_with_incoming_shutdown(listener, async {
                let _ = stopped.await;
            })
            .await
            .context("the server has ended")
    })?;
    let _ = std::fs::remove_file(&endpoint);
    Ok(())
}
