//! From a file to a [`Plan`]: the top of the file, and what its two readers each ask of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use units::{Bytes, Duration};

use crate::error::{ConfigError, Parts};
use crate::file::read_at_most;
use crate::limits::{
    CONFIG_BYTES_MAX, DISKS_MAX, LISTEN_MAX, SOCKET_PATH_BYTES_MAX, TIME_MAX, VOLUMES_MAX,
    WORKLOADS_MAX,
};
use crate::plan::{Disk, Plan, Workload};
use crate::table::{Source, Table};
use crate::{disk, nbd, real, volume, workload};

const KEYS: &[&str] = &["seed", "duration", "listen", "nbd", "disk", "volume", "workload"];
const SEED_DEFAULT: u64 = 1;

impl Plan {
    /// Reads the config at `path`. Paths within it are relative to the directory that it lies in.
    ///
    /// # Errors
    /// The file cannot be read, is over [`CONFIG_BYTES_MAX`], is no text, or [`Plan::parse`] refuses it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let refused = |line, found: String, expected: String| {
            let (table, field, found) = (None, None, Some(found));
            let file = file.clone();
            ConfigError::from(Parts {
                file,
                line,
                table,
                field,
                found,
                expected,
                refusal: false,
                unfit: None,
            })
        };
        let bytes = read_at_most(path, CONFIG_BYTES_MAX)
            .map_err(|error| refused(None, error.to_string(), "a file that can be read".into()))?;
        let Some(bytes) = bytes else {
            let found = format!("over {CONFIG_BYTES_MAX} bytes");
            return Err(refused(None, found, format!("at most {}", Bytes(CONFIG_BYTES_MAX))));
        };
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let (before, from) = bytes.split_at(error.valid_up_to());
            let line = before.split(|byte| *byte == b'\n').count();
            let found = from.first().map_or_else(String::new, |byte| format!("\\x{byte:02x}"));
            refused(Some(line), found, "text in UTF-8".into())
        })?;
        Self::parse(text, &file, path.parent().unwrap_or(Path::new("")))
    }

    /// Checks the config `text`. Messages call it `file`; paths within it are relative to `base_dir`.
    ///
    /// # Errors
    /// The first thing that is wrong: the syntax, then the keys, then disks, volumes and workloads.
    pub fn parse(text: &str, file: &str, base_dir: &Path) -> Result<Self, ConfigError> {
        Self::parse_knowing(text, file, base_dir, &[])
    }

    /// The same. Drives that the `known` disks have are not loaded again.
    pub(crate) fn parse_knowing(
        text: &str,
        file: &str,
        base_dir: &Path,
        known: &[Disk],
    ) -> Result<Self, ConfigError> {
        let source = Source::new(file, text);
        let root = source.parse()?;
        let top = Table::top(&source, &root, KEYS)?;
        let seed =
            top.value("seed").map_or(Ok(SEED_DEFAULT), |seed| seed.integer(0..=u64::MAX, ""))?;
        let given = top
            .value("duration")
            .map(|value| value.duration(Duration::from_nanos(1)..=TIME_MAX, ""))
            .transpose()?;
        let listen = listen(&top)?;
        let nbd = nbd::check(&top, base_dir)?;
        let disk_tables = top.tables("disk", disk::KEYS, DISKS_MAX)?;
        let volume_tables = top.tables("volume", volume::KEYS, VOLUMES_MAX)?;
        let workload_tables = top.tables("workload", workload::KEYS, WORKLOADS_MAX)?;
        let disks = disk::check(&disk_tables, base_dir, known)?;
        let volumes = volume::check(&volume_tables, &disks)?;
        let workloads = workload::check(&workload_tables, &volumes, base_dir)?;
        let duration = given.or_else(|| latest_stop(&workloads));
        let file = file.to_owned();
        Ok(Self { file, seed, duration, listen, nbd, disks, volumes, workloads })
    }

    /// The plan as a simulation takes it: without what only a daemon asks for. It has a workload and a
    /// duration.
    ///
    /// # Errors
    /// There is no workload, or nothing says when the run ends.
    pub fn for_sim(self) -> Result<Self, ConfigError> {
        if self.workloads.is_empty() {
            return Err(self.lacks(
                1,
                None,
                "workload",
                "at least one table `[[workload]]` to simulate",
            ));
        }
        if let Some(disk) = self.disks.iter().find(|disk| real::is_unmeasured(&disk.drive.model)) {
            let title = format!("[[disk]] \"{}\"", disk.name);
            let expected = format!("{}: nobody knows how to simulate it", real::CURE);
            return Err(self.lacks(disk.line, Some(title), "profile", &expected));
        }
        if self.duration.is_none() {
            let endless = self.workloads.iter().position(|workload| workload.stop.is_none());
            let index = endless.expect("without a duration some workload has no stop");
            let title = format!("[[workload]] #{}", index + 1);
            let expected =
                "a time, or a `duration` at the top of the file: else the run has no end";
            return Err(self.lacks(self.workloads[index].line, Some(title), "stop", expected));
        }
        Ok(Self { listen: Vec::new(), nbd: nbd::Nbd::default(), ..self })
    }

    /// The plan as a daemon takes it: without what only a simulation asks for. It has a disk; volumes may come later.
    ///
    /// # Errors
    /// There is nothing to serve.
    pub fn for_serve(self) -> Result<Self, ConfigError> {
        if self.disks.is_empty() {
            return Err(self.lacks(1, None, "disk", "at least one table `[[disk]]` to serve from"));
        }
        Ok(Self { seed: SEED_DEFAULT, duration: None, workloads: Vec::new(), ..self })
    }

    fn lacks(
        &self,
        line: usize,
        table: Option<String>,
        field: &str,
        expected: &str,
    ) -> ConfigError {
        ConfigError::from(Parts {
            file: self.file.clone(),
            line: Some(line),
            table,
            field: Some(field.to_owned()),
            found: None,
            expected: expected.to_owned(),
            refusal: false,
            unfit: None,
        })
    }
}

/// When the last workload stops; `None` if one never does, or there is none.
fn latest_stop(workloads: &[Workload]) -> Option<Duration> {
    workloads
        .iter()
        .map(|workload| workload.stop)
        .try_fold(None, |latest, stop| Some(latest.max(Some(stop?))))?
}

/// The addresses under `[listen]`.
fn listen(top: &Table<'_>) -> Result<Vec<String>, ConfigError> {
    const EXPECTED: &str = "`unix:PATH` or `ADDRESS:PORT`, such as 127.0.0.1:10809";
    let Some(table) = top.table("listen", &["nbd"])? else { return Ok(Vec::new()) };
    let Some(nbd) = table.value("nbd") else { return Ok(Vec::new()) };
    let mut lines = BTreeMap::new();
    let mut addresses = Vec::new();
    for (value, address) in nbd.texts(LISTEN_MAX, EXPECTED)? {
        let known = match address.strip_prefix("unix:") {
            Some(path) if path.len() > SOCKET_PATH_BYTES_MAX => {
                let expected = format!("a path of at most {SOCKET_PATH_BYTES_MAX} bytes");
                return Err(value.refuse(expected));
            }
            Some(path) => !path.is_empty() && !path.contains('\0'),
            None => address.parse::<SocketAddr>().is_ok(),
        };
        if !known {
            return Err(value.refuse(EXPECTED));
        }
        if let Some(line) = lines.insert(address, value.line()) {
            return Err(
                value.refuse(format_args!("each address once (line {line} has it already)"))
            );
        }
        addresses.push(address.to_owned());
    }
    Ok(addresses)
}
