//! The API's server: its sockets are bound before the daemon starts, and served by one thread.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::middleware;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use nbd::{Address, BoundSocket, SocketMode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::access::{authorise, refuse_other_hosts, refuse_other_origins};
use crate::context::{Api, Closing};
use crate::events::Events;
use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_TIME_MAX, STOP_MAX};
use crate::resources::events::remember;
use crate::routes;
use crate::token::Token;

#[derive(Debug)]
enum Socket {
    Unix(BoundSocket),
    Tcp(StdTcpListener, Token),
}

/// Listening sockets that are not served yet.
#[derive(Debug)]
pub struct Bound(Vec<Socket>);

impl Bound {
    /// Listens on all addresses. Only its owner can use a Unix socket; a TCP client needs the
    /// token.
    ///
    /// # Errors
    /// An address is in use or cannot be listened on, or there is a TCP address and no token.
    pub fn listen(addresses: &[Address], token: Option<&Token>) -> io::Result<Self> {
        let bind = |address: &Address| {
            let named = |error: io::Error| {
                let why = format!(
                    "found `{address}`, expected an address for the API that is free ({error})"
                );
                io::Error::new(error.kind(), why)
            };
            match address {
                Address::Unix(path) => {
                    let listening = BoundSocket::bind(path, SocketMode::Owner).map_err(named)?;
                    listening.listener.set_nonblocking(true)?;
                    Ok(Socket::Unix(listening))
                }
                Address::Tcp(tcp) => {
                    let token = token.ok_or_else(|| {
                        let why =
                            format!("found `{address}` without a token, expected one for TCP");
                        io::Error::new(io::ErrorKind::PermissionDenied, why)
                    })?;
                    let listener = StdTcpListener::bind(tcp).map_err(named)?;
                    listener.set_nonblocking(true)?;
                    Ok(Socket::Tcp(listener, token.clone()))
                }
            }
        };
        addresses.iter().map(bind).collect::<io::Result<_>>().map(Self)
    }

    /// The addresses; for port 0, with the chosen port.
    ///
    /// # Errors
    /// The system's error.
    pub fn addresses(&self) -> io::Result<Vec<Address>> {
        let address = |socket: &Socket| match socket {
            Socket::Unix(listening) => Ok(Address::Unix(listening.file.path().to_owned())),
            Socket::Tcp(listener, _) => listener.local_addr().map(Address::Tcp),
        };
        self.0.iter().map(address).collect()
    }
}

/// A served API.
#[derive(Debug)]
pub struct Server {
    stop: oneshot::Sender<()>,
    closing: Closing,
    events: Events,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves `api` on these sockets.
    ///
    /// # Errors
    /// The system provides no thread, or no runtime.
    pub fn start(bound: Bound, api: Api) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(CONNECTIONS_MAX)
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (closing, events) = (api.closing.clone(), api.events.clone());
        let thread = std::thread::Builder::new().name("api".to_owned()).spawn(move || {
            runtime.block_on(serve(bound, api, stopped));
            runtime.shutdown_timeout(STOP_MAX);
        })?;
        Ok(Self { stop, closing, events, thread })
    }

    /// Stops: accepts no further connections, and answers the requests in progress.
    ///
    /// # Panics
    /// If its thread has panicked.
    pub fn stop(self) {
        self.closing.close();
        self.events.close();
        // The server may have ended already.
        let _ = self.stop.send(());
        self.thread.join().expect("the API's thread does not panic");
    }
}

async fn serve(bound: Bound, api: Api, stopped: oneshot::Receiver<()>) {
    let graceful = Arc::new(GracefulShutdown::new());
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let remembering = tokio::spawn(remember(api.clone()));
    let router = routes::router(api).layer(middleware::from_fn(refuse_other_origins));
    let (mut files, mut accepting) = (Vec::new(), Vec::new());
    for socket in bound.0 {
        let (permits, graceful) = (Arc::clone(&permits), Arc::clone(&graceful));
        let task = match socket {
            Socket::Unix(BoundSocket { listener, file }) => {
                files.push(file);
                let listener = UnixListener::from_std(listener).expect("within a runtime");
                let listener = Arc::new(listener);
                let accept = move || {
                    let listener = Arc::clone(&listener);
                    async move { listener.accept().await.map(|(stream, _)| stream) }
                };
                let router = router.clone().layer(middleware::from_fn(refuse_other_hosts));
                tokio::spawn(accept_all(accept, router, graceful, permits))
            }
            Socket::Tcp(listener, token) => {
                let listener = TcpListener::from_std(listener).expect("within a runtime");
                let listener = Arc::new(listener);
                let accept = move || {
                    let listener = Arc::clone(&listener);
                    async move { listener.accept().await.map(|(stream, _)| stream) }
                };
                let router = router.clone().layer(middleware::from_fn_with_state(token, authorise));
                tokio::spawn(accept_all(accept, router, graceful, permits))
            }
        };
        accepting.push(task);
    }
    // The sender sends or is dropped: in both cases the server stops.
    let _ = stopped.await;
    remembering.abort();
    for task in accepting {
        task.abort();
        // The task's end is an error, because it was aborted.
        let _ = task.await;
    }
    drop(files);
    let graceful = Arc::into_inner(graceful).expect("no task accepts any more");
    // A client that does not read its last reply in time loses it.
    let _ = tokio::time::timeout(STOP_MAX, graceful.shutdown()).await;
}

/// Accepts connections up to the limit, until the task is aborted.
async fn accept_all<S, A>(
    accept: impl Fn() -> A,
    router: Router,
    graceful: Arc<GracefulShutdown>,
    permits: Arc<Semaphore>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Future<Output = io::Result<S>>,
{
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        match accept().await {
            Ok(stream) => serve_connection(stream, router.clone(), graceful.watcher(), permit),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one connection, which holds a permit until its end.
fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: Watcher,
    permit: OwnedSemaphorePermit,
) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = watcher.watch(connection);
    tokio::spawn(async move {
        // A client's error is not an error of the server.
        let _ = connection.await;
        drop(permit);
    });
}
