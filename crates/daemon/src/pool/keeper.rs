//! The thread that ends what moving blocks has begun.

use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use super::served::Served;
use crate::operator::Operator;

/// How often it looks whether blocks have arrived: nothing waits for it but promises on disks that a volume has left.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Served {
    /// Waits until it is time to look again; says whether the pool is closed.
    fn wait(&self) -> bool {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.closing.wait_timeout_while(closed, LOOK_EVERY, |closed| !*closed);
        let (closed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *closed
    }

    /// Nobody tidies up from now on.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.notify_all();
    }
}

/// Tidies up until the pool is closed.
pub(crate) fn keep(operator: Operator) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("pool".to_owned()).spawn(move || {
        let mut told = String::new();
        let mut alarmed = false;
        let Some(pool) = operator.live.pool.clone() else { return };
        while !pool.wait() {
            let status = pool.look(|flow| flow.pool().status());
            if status.alarm && !alarmed {
                let percent = 100 - status.free * 100 / status.blocks.max(1);
                eprintln!("pool: alarm: {percent} % of it is in use");
            }
            alarmed = status.alarm;
            // What fails is tried again: a config that cannot be written now may be later. It is told once.
            let words = operator.tidy().err().map(|error| error.to_string()).unwrap_or_default();
            if !words.is_empty() && words != told {
                eprintln!("pool: what has been moved cannot be ended: {words}");
            }
            told = words;
        }
    })
}
