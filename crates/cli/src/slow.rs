//! The slow-request log of `spindle serve`: lines on standard error, at a limited rate.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use config::{Log, LogFormat};
use console::eprintln;
use daemon::{Filter, Operator, Subscriber};
use stats::{DroppedReport, SCHEMA};
use units::Duration;

/// Lines a second of all disks together, so that the log stays readable.
const LINES_MAX: u32 = 20;
/// The interval at which the end of the daemon is polled.
const PAUSE: Duration = Duration::from_millis(200);

/// The thread that writes the log.
#[derive(Debug)]
pub(crate) struct SlowLog {
    stopped: Arc<AtomicBool>,
    writing: JoinHandle<()>,
}

impl SlowLog {
    /// Starts the log, if the config defines slow requests.
    pub(crate) fn start(log: &Log, json: bool, operator: Operator) -> io::Result<Option<Self>> {
        let Some(at_least) = log.slow else { return Ok(None) };
        let filter = Filter { at_least, per_second_max: Some(LINES_MAX), ..Filter::ALL };
        let watcher = operator.subscribe(filter).expect("it is the first subscriber");
        let default = if json { LogFormat::Json } else { LogFormat::Text };
        let (format, stopped) = (log.format.unwrap_or(default), Arc::new(AtomicBool::new(false)));
        let seen = stopped.clone();
        let write = move || {
            while !seen.load(Ordering::Relaxed) {
                write(&operator, &watcher, PAUSE, format);
            }
            write(&operator, &watcher, Duration::ZERO, format);
        };
        let writing = std::thread::Builder::new().name("slow".to_owned()).spawn(write)?;
        Ok(Some(Self { stopped, writing }))
    }

    /// Writes the remaining lines, and ends.
    pub(crate) fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.writing.join().expect("it does not panic");
    }
}

fn write(operator: &Operator, watcher: &Subscriber, at_most: Duration, format: LogFormat) {
    let delivery = watcher.next(at_most);
    let json = |line: serde_json::Result<String>| line.expect("its shapes are JSON");
    for traced in &delivery.requests {
        let report = operator.report(traced);
        match format {
            LogFormat::Text => eprintln!("slow: {}", report.line()),
            LogFormat::Json => eprintln!("{}", json(serde_json::to_string(&report))),
        }
    }
    let dropped = delivery.dropped;
    match format {
        _ if dropped == 0 => {}
        LogFormat::Text => {
            eprintln!("slow: {dropped} more, not listed: the limit is {LINES_MAX} lines a second");
        }
        LogFormat::Json => {
            eprintln!(
                "{}",
                json(serde_json::to_string(&DroppedReport { schema: SCHEMA, dropped }))
            );
        }
    }
}
