//! Load generators: clients that load a live volume over NBD with a workload of the simulator.

mod paced;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::Context;
use config::{Arrival, Requests, Synthetic, ThinkTime, Workload};
use daemon::Clock;
use nbd::Address;
use nbd::client::{Client, Receiver, Sender};
use sim::{Generator, SeededRng};
use stats::Latency;
use units::{Duration, Instant, Op, Operation};

/// A client in a closed loop, on a thread of its own; on two with think times or bursts.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Load {
    /// Connects to `export` and begins. When this returns, the client has opened the export.
    ///
    /// # Errors
    /// If the export cannot be opened, or the workload is not one of this kind of loop.
    pub fn start(
        address: &Address,
        export: &str,
        workload: &Workload,
        rng: SeededRng,
    ) -> anyhow::Result<Self> {
        let (client, generator) = open(address, export, workload, rng)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let paced =
            !matches!(synthetic(workload)?.arrival, Arrival::Closed { think: ThinkTime::NONE, .. });
        let drive = if paced { paced::drive } else { drive };
        let work = move || drive(client, generator, &stopped);
        let thread = std::thread::Builder::new().name(export.to_owned()).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Sends no further request, waits for those in flight, and disconnects.
    ///
    /// # Errors
    /// If the connection or a request has failed.
    ///
    /// # Panics
    /// If the client's thread has panicked.
    pub fn stop(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a client does not panic")
    }
}

fn open(
    address: &Address,
    export: &str,
    workload: &Workload,
    rng: SeededRng,
) -> anyhow::Result<(Client, Generator)> {
    let mut client = Client::connect(address).with_context(|| format!("{address}"))?;
    let opened = client.go(export).with_context(|| format!("export {export}"))?;
    let drawn = synthetic(workload)?;
    let generator = Generator::new(drawn, opened.size.sectors_floor(), rng);
    Ok((client, generator))
}

fn synthetic(workload: &Workload) -> anyhow::Result<&Synthetic> {
    match &workload.requests {
        Requests::Synthetic(drawn) => Ok(drawn),
        _ => anyhow::bail!("a trace is for simulation only"),
    }
}

fn drive(mut client: Client, mut generator: Generator, stop: &AtomicBool) -> anyhow::Result<()> {
    let outstanding = generator.outstanding().context("an open loop has a client of its own")?;
    let mut payload = Vec::new();
    let mut send = |client: &mut Client, cookie| {
        let operation = generator.operation();
        let writes = operation.op == Op::Write;
        payload.resize(if writes { operation.extent.len.bytes_usize() } else { 0 }, 0);
        client.send(cookie, operation, &payload)
    };
    for cookie in 0..u64::from(outstanding) {
        send(&mut client, cookie)?;
    }
    let mut in_flight = outstanding;
    while in_flight > 0 {
        let completion = client.receive()?;
        completion.result.map_err(|error| anyhow::anyhow!("a request failed: {error}"))?;
        if stop.load(Ordering::Relaxed) {
            in_flight -= 1;
        } else {
            send(&mut client, completion.cookie)?;
        }
    }
    client.disconnect().context("at the disconnect")
}

/// A client that sends when it is time, whatever is under way: one thread asks, another hears the
/// answers.
#[derive(Debug)]
pub struct OpenLoad {
    stop: mpsc::Sender<()>,
    sending: JoinHandle<anyhow::Result<Sender>>,
    receiving: JoinHandle<anyhow::Result<Latency>>,
}

/// The next request and its time; `None` at the end.
type Next = Box<dyn FnMut() -> Option<(Instant, Operation)> + Send>;

impl OpenLoad {
    /// Connects to `export` and begins. When this returns, the client has opened the export.
    ///
    /// # Errors
    /// If the export cannot be opened, or the workload is not one of this kind of loop.
    pub fn start(
        address: &Address,
        export: &str,
        workload: &Workload,
        rng: SeededRng,
    ) -> anyhow::Result<Self> {
        let (client, mut generator) = open(address, export, workload, rng)?;
        anyhow::ensure!(generator.outstanding().is_none(), "a closed loop has a client of its own");
        let clock = Clock::start();
        let mut due = clock.now();
        let next = move || {
            due += generator.pause();
            Some((due, generator.operation()))
        };
        Self::with(client, export, clock, Box::new(next))
    }

    /// The same for a list of requests whose times count from `from` on `clock`.
    ///
    /// # Errors
    /// If the export cannot be opened.
    pub fn start_timed(
        address: &Address,
        export: &str,
        timed: Arc<[(Duration, Operation)]>,
        (clock, from): (Clock, Instant),
    ) -> anyhow::Result<Self> {
        let mut client = Client::connect(address).with_context(|| format!("{address}"))?;
        client.go(export).with_context(|| format!("export {export}"))?;
        let mut sent = 0;
        let next = move || {
            let (at, operation) = *timed.get(sent)?;
            sent += 1;
            Some((from + at, operation))
        };
        Self::with(client, export, clock, Box::new(next))
    }

    fn with(client: Client, export: &str, clock: Clock, next: Next) -> anyhow::Result<Self> {
        let (sender, receiver) = client.split();
        let (stop, stopped) = mpsc::channel();
        let (sent, in_flight) = mpsc::channel();
        let thread = || std::thread::Builder::new().name(export.to_owned());
        let send = move || send(sender, next, clock, &sent, &stopped);
        let sending = thread().spawn(send)?;
        let receiving = thread().spawn(move || receive(receiver, clock, &in_flight))?;
        Ok(Self { stop, sending, receiving })
    }

    /// Sends no further request, waits for those in flight, disconnects, and returns the latencies.
    ///
    /// # Errors
    /// If the connection or a request has failed.
    ///
    /// # Panics
    /// If a thread of the client has panicked.
    pub fn stop(self) -> anyhow::Result<Latency> {
        // A client that has failed does not listen; it is joined below and says why.
        let _ = self.stop.send(());
        let sender = self.sending.join().expect("a client does not panic");
        let latency = self.receiving.join().expect("a client does not panic")?;
        sender?.disconnect().context("at the disconnect")?;
        Ok(latency)
    }
}

/// Sends until told to stop. A request's cookie is the time at which it was sent.
fn send(
    mut sender: Sender,
    mut next: Next,
    clock: Clock,
    sent: &mpsc::Sender<()>,
    stopped: &mpsc::Receiver<()>,
) -> anyhow::Result<Sender> {
    while let Some((due, operation)) = next() {
        let left = std::time::Duration::from_nanos(due.saturating_since(clock.now()).as_nanos());
        if stopped.recv_timeout(left) != Err(mpsc::RecvTimeoutError::Timeout) {
            return Ok(sender);
        }
        let payload = match operation.op {
            Op::Write => vec![0; operation.extent.len.bytes_usize()],
            _ => Vec::new(),
        };
        sender.send(clock.now().as_nanos(), operation, &payload)?;
        sent.send(()).context("the receiver of answers is gone")?;
    }
    // The stop, or the end of the sender.
    let _ = stopped.recv();
    Ok(sender)
}

/// Receives one answer for each request that was sent, and records its latency.
fn receive(
    mut receiver: Receiver,
    clock: Clock,
    in_flight: &mpsc::Receiver<()>,
) -> anyhow::Result<Latency> {
    let mut latency = Latency::default();
    while in_flight.recv().is_ok() {
        let completion = receiver.receive()?;
        completion.result.map_err(|error| anyhow::anyhow!("a request failed: {error}"))?;
        let took: Duration = clock.now().saturating_since(Instant::from_nanos(completion.cookie));
        latency.record(took);
    }
    Ok(latency)
}
