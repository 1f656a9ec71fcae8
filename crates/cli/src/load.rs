//! A client that loads a volume over NBD as a workload says: the closed loop of the simulator, live.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;
use config::{Requests, Workload};
use frontend::Address;
use frontend::client::Client;
use sim::{Dice, Generator};
use units::Op;

/// A client at work on a thread of its own.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Load {
    /// Connects to `export` and begins. When this returns, the client has opened the export.
    pub(crate) fn start(
        address: &Address,
        export: &str,
        workload: &Workload,
        dice: Dice,
    ) -> anyhow::Result<Self> {
        let mut client = Client::connect(address).with_context(|| format!("{address}"))?;
        let opened = client.go(export).with_context(|| format!("export {export}"))?;
        let Requests::Drawn(drawn) = &workload.requests else {
            anyhow::bail!("a trace is for simulation only")
        };
        let generator = Generator::new(drawn, opened.size.sectors_floor(), dice);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || drive(client, generator, &stopped);
        let thread = std::thread::Builder::new().name(export.to_owned()).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Sends no more, waits for what is under way, and says goodbye.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a client does not panic")
    }
}

fn drive(mut client: Client, mut generator: Generator, stop: &AtomicBool) -> anyhow::Result<()> {
    let outstanding = generator.outstanding().context("an open loop is for simulation only")?;
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
    let mut under_way = outstanding;
    while under_way > 0 {
        let completion = client.receive()?;
        completion.result.map_err(|error| anyhow::anyhow!("a request failed: {error}"))?;
        if stop.load(Ordering::Relaxed) {
            under_way -= 1;
        } else {
            send(&mut client, completion.cookie)?;
        }
    }
    client.disconnect().context("goodbye")
}
