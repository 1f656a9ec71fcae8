//! The maintenance thread: completes relocations, puts spares in the place of disks that the pool
//! has taken out, and reports the pool's alarm, these disks, the progress and the end of
//! resynchronisation, and what a scrub finds.

use std::thread;
use std::time::Duration;

use super::operator::Operator;
use super::spares::Spares;

/// The interval of checks for completed relocations, and of samples of what is left to be made
/// equal. Of the rest only the contracts on disks that a volume has left depend on it.
const INTERVAL: Duration = Duration::from_millis(500);

/// Spawns the thread, which runs until maintenance is stopped.
pub(crate) fn spawn(operator: Operator) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("pool".to_owned()).spawn(move || {
        let mut reported = String::new();
        let (mut was_alarmed, mut was_behind) = (false, false);
        let mut were_out = operator.disks_out();
        let (mut spares, mut scrub) = (Spares::default(), operator.unreported_scrub());
        let Some(pool) = operator.state.pool.clone() else { return };
        while !pool.wait_for_maintenance(INTERVAL) {
            let status = pool.inspect(|flow| flow.pool().status());
            if status.alarm && !was_alarmed {
                let percent = 100 - status.free * 100 / status.blocks.max(1);
                eprintln!("pool: alarm: {percent} % of it is in use");
            }
            was_alarmed = status.alarm;
            let out = operator.disks_out();
            for name in out.iter().filter(|name| !were_out.contains(*name)) {
                eprintln!(
                    "pool: disk {name} failed, and is out: mirrors go on without it; `spindle pool \
                     status` says what to do"
                );
            }
            were_out = out;
            operator.use_spares(&mut spares);
            let is_behind = pool.sample_resync(operator.now());
            if was_behind && !is_behind {
                eprintln!("pool: the copies of its mirrors are equal again");
            }
            was_behind = is_behind;
            operator.report_scrub(&mut scrub);
            // A failed step is tried again: a config that cannot be written now may be later. Each
            // failure is reported once.
            let failed = operator.complete_relocations().err();
            let message = failed.map(|error| error.to_string()).unwrap_or_default();
            if !message.is_empty() && message != reported {
                eprintln!("pool: a completed relocation cannot be recorded: {message}");
            }
            reported = message;
        }
        // A scrub may have ended since it was looked at last.
        operator.report_scrub(&mut scrub);
    })
}
