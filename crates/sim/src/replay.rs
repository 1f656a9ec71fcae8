//! A trace as a workload: its requests, at its times.
//!
//! One record is read ahead, so that the event queue has the time of the next one; no more is held.

use config::Remap;
use trace::{FileReader, Record, Scale, TraceError};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::TraceReport;

/// A trace, being replayed.
#[derive(Debug)]
pub(crate) struct Replay {
    reader: Option<FileReader>,
    next: Option<Result<Record, TraceError>>,
    scale: Scale,
    remap: Remap,
    size: Sectors,
    /// The time of the last request.
    last: Duration,
    file: String,
    sent: u64,
}

impl Replay {
    /// The trace on a volume of `size`, before its first request.
    pub(crate) fn new(replay: &config::Replay, size: Sectors) -> Self {
        let (reader, next) = match FileReader::open(&replay.path, replay.options) {
            Ok(mut reader) => {
                let next = reader.next();
                (Some(reader), next)
            }
            // The config's check opened the file. It was removed since; the error is returned when
            // its first request is due.
            Err(error) => (None, Some(Err(error))),
        };
        let (scale, remap, last) = (replay.scale, replay.remap, Duration::ZERO);
        let file = replay.path.display().to_string();
        Self { reader, next, scale, remap, size, last, file, sent: 0 }
    }

    /// The report of the replay so far.
    pub(crate) fn report(&self) -> TraceReport {
        TraceReport {
            file: self.file.clone(),
            sent: self.sent,
            widened: self.reader.as_ref().map_or(0, |reader| reader.tally().widened),
            whole: self.next.is_none(),
        }
    }

    /// The time of the next request, from the workload's start; `None` at the end. An error is due
    /// at once.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        let next = self.next.as_ref()?;
        Some(next.as_ref().map_or(self.last, |record| self.after(record)))
    }

    fn after(&self, record: &Record) -> Duration {
        self.scale.duration(record.at.since(Instant::ZERO))
    }

    /// The next request, in the volume's addresses.
    ///
    /// # Panics
    /// Past the end of the trace.
    pub(crate) fn take(&mut self) -> Result<Operation, TraceError> {
        let record = self.next.take().expect("no event is scheduled past the end")?;
        self.last = self.after(&record);
        let operation = record.operation;
        let fits = operation.extent.len <= self.size;
        let reader = self.reader.as_mut().expect("the reader yielded a record");
        if !fits {
            let found = format!("a {} of {}", operation.op, operation.extent.len);
            return Err(reader.refuse(found, format!("at most the volume's {}", self.size)));
        }
        self.next = reader.next();
        self.sent += 1;
        Ok(match self.remap {
            Remap::Refuse => operation,
            Remap::Modulo => Operation { extent: modulo(operation.extent, self.size), ..operation },
        })
    }
}

/// The extent with its start modulo `size`, or the last start at which the extent fits.
fn modulo(extent: Extent, size: Sectors) -> Extent {
    let last = size - extent.len;
    Extent::new(Lba((extent.start.0 % size.0).min(last.0)), extent.len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stay_runs_where_the_volume_is_too_small() {
        let at = |start, len| modulo(Extent::new(Lba(start), Sectors(len)), Sectors(100)).start.0;
        assert_eq!([at(7, 8), at(107, 8), at(115, 8), at(196, 4)], [7, 7, 15, 96]);
        assert_eq!([at(198, 8), at(0, 100), at(250, 100)], [92, 0, 0]);
    }
}
