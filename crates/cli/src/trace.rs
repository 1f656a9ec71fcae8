//! `spindle trace stat` and `spindle trace convert`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ::trace::{FileReader, LeftOut, Options, Record, Stat, Tally, TraceError, WriteError, Writer};
use anyhow::Context;
use console::{ExitStatus, bad_input, eprintln, print, println, table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use units::Bytes;

use crate::args::{TraceConvert, TraceInput, TraceStat};

/// Records between two updates of the progress bar: drawing it takes longer than reading a record.
const RECORDS_PER_MOVE: u64 = 4_096;

/// The summary of a trace, as JSON.
#[derive(Serialize)]
struct StatReport {
    schema: u32,
    file: String,
    format: &'static str,
    requests: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    trims: u64,
    bytes: u64,
    bytes_read: u64,
    bytes_written: u64,
    duration_s: f64,
    interarrival_ms: Option<f64>,
    request_bytes: SizesReport,
    response_ms_mean: Option<f64>,
    devices: Vec<DeviceReport>,
    tally: TallyReport,
}

#[derive(Serialize)]
struct SizesReport {
    least: Option<u64>,
    mean: Option<u64>,
    most: Option<u64>,
    /// Requests of at least this number of bytes, and of fewer than twice as many.
    by_power: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct DeviceReport {
    device: u32,
    requests: u64,
    reads: u64,
    bytes: u64,
    first_sector: Option<u64>,
    end_sector: u64,
}

/// Anomalies beside the requests.
#[derive(Serialize)]
struct TallyReport {
    skipped: u64,
    other_devices: u64,
    widened: u64,
    widened_bytes: u64,
    empty: u64,
    truncated: u64,
}

/// The result of a conversion, as JSON.
#[derive(Serialize)]
struct ConvertReport {
    schema: u32,
    from: &'static str,
    to: &'static str,
    requests: u64,
    left_out: u64,
    fua_left_out: u64,
    tally: TallyReport,
}

impl From<Tally> for TallyReport {
    fn from(tally: Tally) -> Self {
        Self {
            skipped: tally.skipped,
            other_devices: tally.other_devices,
            widened: tally.widened,
            widened_bytes: tally.widened_bytes.0,
            empty: tally.empty,
            truncated: tally.truncated,
        }
    }
}

pub(crate) fn stat(args: &TraceStat, json: bool) -> anyhow::Result<ExitStatus> {
    let mut reader = open(&args.input)?;
    let mut stat = Stat::default();
    each(&mut reader, &args.input.file, |record| {
        stat.add(record);
        Ok(())
    })?;
    if json {
        println!("{}", serde_json::to_string(&report(&args.input.file, &reader, &stat))?);
    } else {
        print(&args.input.file, &reader, &stat);
    }
    tell(reader.tally());
    Ok(ExitStatus::Success)
}

pub(crate) fn convert(args: &TraceConvert, json: bool) -> anyhow::Result<ExitStatus> {
    let mut reader = open(&args.input)?;
    let output = Output::at(&args.output, &args.input.file)?;
    let left_out = write(args, &mut reader, &output);
    let left_out = output.settle(left_out)?;
    let tally = reader.tally();
    let written = tally.records - left_out.requests;
    if json {
        let report = ConvertReport {
            schema: stats::SCHEMA,
            from: reader.format().name(),
            to: args.to.format().name(),
            requests: written,
            left_out: left_out.requests,
            fua_left_out: left_out.fua,
            tally: tally.into(),
        };
        println!("{}", serde_json::to_string(&report)?);
    } else {
        let (from, to) = (reader.format(), args.to.format());
        println!("{}: {written} requests, {from} to {to}", args.output.display());
        if left_out != LeftOut::default() {
            let LeftOut { requests, fua } = left_out;
            eprintln!(
                "{to} cannot say: {requests} requests left out, {fua} without their forced access"
            );
        }
    }
    tell(tally);
    Ok(ExitStatus::Success)
}

fn open(input: &TraceInput) -> anyhow::Result<FileReader> {
    let capacity = input.capacity.map(Bytes::sectors_floor);
    let TraceInput { format, device, lenient, .. } = *input;
    let options = Options { format, device, capacity, lenient };
    FileReader::open(&input.file, options).map_err(bad_input)
}

/// Calls `with` for each record, with a progress bar on standard error.
fn each(
    reader: &mut FileReader,
    file: &Path,
    mut with: impl FnMut(&Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{msg:24} {wide_bar} {bytes}/{total_bytes}");
    let length = fs::metadata(file).map_or(0, |metadata| metadata.len());
    let bar = ProgressBar::new(length).with_style(style.expect("the template is sound"));
    bar.set_message("reading");
    let mut count = 0_u64;
    while let Some(record) = reader.next().transpose().map_err(|error: TraceError| {
        bar.finish_and_clear();
        bad_input(error)
    })? {
        with(&record)?;
        count += 1;
        if count.is_multiple_of(RECORDS_PER_MOVE) {
            bar.set_position(reader.tally().bytes_read);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn write(args: &TraceConvert, reader: &mut FileReader, output: &Output) -> anyhow::Result<LeftOut> {
    let context = || args.output.display().to_string();
    let explain = |error: WriteError| match error {
        WriteError::Files => bad_input(format!("{}: {error}", context())),
        WriteError::Io(error) => anyhow::Error::new(error).context(context()),
    };
    let mut writer = Writer::new(output.create()?, args.to).map_err(explain)?;
    each(reader, &args.input.file, |record| {
        let at = args.scale_time.instant(record.at);
        writer.write(&Record { at, ..*record }).map_err(explain)
    })?;
    writer.finish().map_err(explain)
}

/// The output of a conversion. A file is written under a temporary name and renamed when it is
/// complete, so that a refused trace leaves no file; a pipe is written directly.
struct Output {
    place: PathBuf,
    partial: Option<PathBuf>,
}

impl Output {
    fn at(place: &Path, input: &Path) -> anyhow::Result<Self> {
        if let (Ok(to), Ok(from)) = (place.canonicalize(), input.canonicalize())
            && to == from
        {
            let place = place.display();
            return Err(bad_input(format!(
                "{place}: found the trace itself, expected another file"
            )));
        }
        let straight = fs::metadata(place).is_ok_and(|metadata| !metadata.is_file());
        let mut partial = place.as_os_str().to_owned();
        partial.push(".partial");
        Ok(Self { place: place.to_owned(), partial: (!straight).then(|| partial.into()) })
    }

    fn create(&self) -> anyhow::Result<impl Write> {
        let path = self.partial.as_ref().unwrap_or(&self.place);
        let file = File::create(path)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
        Ok(BufWriter::new(file))
    }

    /// Renames a complete file, and removes an incomplete one.
    fn settle<T>(&self, done: anyhow::Result<T>) -> anyhow::Result<T> {
        let Some(partial) = &self.partial else { return done };
        if done.is_ok() {
            fs::rename(partial, &self.place).with_context(|| self.place.display().to_string())?;
        } else {
            // The file may not exist, and the first error is the one to report.
            let _ = fs::remove_file(partial);
        }
        done
    }
}

fn report(file: &Path, reader: &FileReader, stat: &Stat) -> StatReport {
    let some = stat.reads + stat.writes > 0;
    let by_power = (0_u32..).zip(stat.sizes.by_power).filter(|(_, count)| *count > 0);
    StatReport {
        schema: stats::SCHEMA,
        file: file.display().to_string(),
        format: reader.format().name(),
        requests: stat.requests,
        reads: stat.reads,
        writes: stat.writes,
        flushes: stat.flushes,
        trims: stat.trims,
        bytes: stat.bytes().0,
        bytes_read: stat.bytes_read.0,
        bytes_written: stat.bytes_written.0,
        duration_s: stat.duration().as_secs_f64(),
        interarrival_ms: stat.interarrival().map(units::Duration::as_millis_f64),
        request_bytes: SizesReport {
            least: some.then_some(stat.sizes.least.0),
            mean: stat.size_mean().map(|mean| mean.0),
            most: some.then_some(stat.sizes.most.0),
            by_power: by_power.map(|(power, count)| (1 << power, count)).collect(),
        },
        response_ms_mean: stat.response_mean().map(units::Duration::as_millis_f64),
        devices: stat
            .devices
            .iter()
            .map(|(device, stat)| DeviceReport {
                device: *device,
                requests: stat.requests,
                reads: stat.reads,
                bytes: stat.bytes.0,
                first_sector: stat.first.map(|first| first.0),
                end_sector: stat.end.0,
            })
            .collect(),
        tally: reader.tally().into(),
    }
}

fn print(file: &Path, reader: &FileReader, stat: &Stat) {
    println!("{} ({})", file.display(), reader.format());
    let (reads, writes) = (stat.reads, stat.writes);
    let (flushes, trims) = (stat.flushes, stat.trims);
    let requests = stat.requests;
    println!(
        "requests  {requests}: {reads} reads, {writes} writes, {flushes} flushes, {trims} trims"
    );
    let (all, read, written) = (stat.bytes(), stat.bytes_read, stat.bytes_written);
    println!("bytes     {} ({all}): {} read, {} written", all.0, read.0, written.0);
    let interarrival = stat.interarrival();
    let interarrival = interarrival.map_or_else(String::new, |mean| format!(", one in {mean}"));
    println!("duration  {}{interarrival}", stat.duration());
    if let Some(mean) = stat.size_mean() {
        let sizes = &stat.sizes;
        println!("size      {mean} in the mean, {} to {}", sizes.least, sizes.most);
    }
    if let Some(mean) = stat.response_mean() {
        println!("response  {mean} in the mean, as measured");
    }
    println!();
    let powers = (0_u32..).zip(stat.sizes.by_power).filter(|(_, count)| *count > 0);
    let row = |(power, count): (u32, u64)| {
        vec![format!("{} and more", Bytes(1 << power)), count.to_string()]
    };
    print!("{}", table::text(&["size", "requests"], &powers.map(row).collect::<Vec<_>>()));
    println!();
    let head = ["device", "requests", "reads", "bytes", "first sector", "end"];
    let row = |(device, stat): (&u32, &::trace::DeviceStat)| {
        vec![
            device.to_string(),
            stat.requests.to_string(),
            stat.reads.to_string(),
            stat.bytes.0.to_string(),
            stat.first.map_or_else(|| "-".into(), |first| first.0.to_string()),
            stat.end.0.to_string(),
        ]
    };
    print!("{}", table::text(&head, &stat.devices.iter().map(row).collect::<Vec<_>>()));
}

/// Reports anomalies on standard error.
fn tell(tally: Tally) {
    let notes = [
        (tally.truncated, "last record cut short, passed over"),
        (tally.empty, "requests of nothing, passed over"),
        (tally.widened, "requests began or ended within a sector, and were widened to all of it"),
        (tally.other_devices, "requests to other devices"),
    ];
    for (count, note) in notes.into_iter().filter(|(count, _)| *count > 0) {
        eprintln!("{count} {note}");
    }
}
