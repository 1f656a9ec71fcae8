//! From a file to a [`Plan`]: the top of the file, and what the simulation and the daemon each
//! require of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use units::Duration;

use input::{InputError, Problem, Source, Table, read_text};

use super::names::Names;
use super::path::path;
use super::{
    admit, bus, change, deadlines, disk, log, nbd, pool, real, unkept, volume, workload,
    write_buffer,
};
use crate::error::ConfigError;
use crate::limits::{
    CONFIG_BYTES_MAX, DISKS_MAX, LISTEN_MAX, POOL_CHANGES_MAX, POOL_VOLUMES_MAX,
    SOCKET_PATH_BYTES_MAX, TIME_MAX, VOLUMES_MAX, WORKLOADS_MAX,
};
use crate::plan::{Disk, Log, Nbd, NotCreated, Plan, Workload};
use crate::{defaults, keys};

impl Plan {
    /// Reads the config at `path`. Paths within it are relative to its directory.
    ///
    /// # Errors
    /// The file cannot be read, has more than [`CONFIG_BYTES_MAX`] bytes, is not UTF-8, or
    /// [`Plan::parse`] refuses it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path, CONFIG_BYTES_MAX)?;
        let file = path.display().to_string();
        Self::parse(&text, &file, path.parent().unwrap_or(Path::new("")))
    }

    /// Checks the config `text`. Messages call it `file`; paths within it are relative to
    /// `base_dir`.
    ///
    /// # Errors
    /// The first error: in the syntax, then in the keys, then in disks, volumes and workloads.
    pub fn parse(text: &str, file: &str, base_dir: &Path) -> Result<Self, ConfigError> {
        Self::parse_knowing(text, file, base_dir, &[])
    }

    /// As [`Plan::parse`], without loading the drives of the `known` disks again.
    pub(crate) fn parse_knowing(
        text: &str,
        file: &str,
        base_dir: &Path,
        known: &[Disk],
    ) -> Result<Self, ConfigError> {
        let source = Source::new(file, text);
        Self::of_tables(&source, &source.parse()?, base_dir, known)
    }

    /// As [`Plan::parse`], from the tables of a text.
    pub(super) fn of_tables(
        source: &Source<'_>,
        root: &DeTable<'_>,
        base_dir: &Path,
        known: &[Disk],
    ) -> Result<Self, ConfigError> {
        let top = Table::top(source, root, &keys::TOP)?;
        let seed =
            top.value("seed").map_or(Ok(defaults::SEED), |seed| seed.integer(0..=u64::MAX, ""))?;
        let given = top
            .value("duration")
            .map(|value| value.duration(Duration::from_nanos(1)..=TIME_MAX, ""))
            .transpose()?;
        let Listen { nbd: listen, vhost_user } = listen(&top, base_dir)?;
        let nbd = nbd::check(&top, base_dir)?;
        let log = log::check(&top, base_dir)?;
        let disk_tables = top.tables("disk", &keys::DISK, DISKS_MAX)?;
        let volume_tables = top.tables("volume", &keys::VOLUME, VOLUMES_MAX)?;
        let pool_table = top.table("pool", &keys::POOL)?;
        let pool_volume_tables = match &pool_table {
            Some(table) => table.tables("volume", &keys::POOL_VOLUME, POOL_VOLUMES_MAX)?,
            None => Vec::new(),
        };
        let change_tables = top.tables("change", &keys::CHANGE, POOL_CHANGES_MAX)?;
        let workload_tables = top.tables("workload", &keys::WORKLOAD, WORKLOADS_MAX)?;
        let bus_tables = top.tables("bus", &keys::BUS, DISKS_MAX)?;
        let buses = bus::check(&bus_tables, &disk_tables)?;
        let mut disks = disk::check(&disk_tables, &buses, (base_dir, known))?;
        bus::refuse_unused(&bus_tables, &buses)?;
        write_buffer::divide(&top, &disk_tables, &mut disks)?;
        pool::check_spares(&disk_tables, pool_table.as_ref())?;
        let pool = pool_table.as_ref().map(|table| pool::head(table, &disks)).transpose()?;
        let pooled = pool.as_ref().map_or(&[][..], |pool| &pool.disks);
        let mut names = Names::default();
        let volumes = volume::check(&volume_tables, &disks, pooled, &mut names)?;
        let bounds = deadlines::bounds(&disks);
        admit::admit(&volume_tables, &disks, &bounds, &volumes)?;
        let pool = match (pool, &pool_table) {
            (Some(pool), Some(table)) => {
                let tables = (table, pool_volume_tables.as_slice());
                let pool = pool::check(tables, &disks, pool, &mut names)?;
                admit::admit_pool(tables, &disks, &bounds, &pool)?;
                Some(pool)
            }
            _ => None,
        };
        let changes = change::check(&change_tables, pool.as_ref(), &mut names)?;
        let loaded = workload::Loaded::of(&volumes, pool.as_ref(), &changes);
        let workloads = workload::check(&workload_tables, &loaded, base_dir)?;
        let duration = given.or_else(|| latest_stop(&workloads));
        let file = source.file().to_owned();
        Ok(Self {
            file,
            seed,
            duration,
            listen,
            vhost_user,
            nbd,
            log,
            disks,
            volumes,
            pool,
            changes,
            workloads,
        })
    }

    /// The plan for a simulation: without what only a daemon uses. It has a workload and a
    /// duration.
    ///
    /// # Errors
    /// There is no workload, the run has no end, or the pool's volumes do not fit it together.
    pub fn for_sim(self) -> Result<Self, ConfigError> {
        self.check_pool()?;
        if self.workloads.is_empty() {
            let expected = "at least one table `[[workload]]` to simulate";
            return Err(self.lacks(1, None, "workload", expected).into());
        }
        if let Some(disk) = self.disks.iter().find(|disk| real::is_unmeasured(&disk.drive.model)) {
            let title = format!("[[disk]] \"{}\"", disk.name);
            let expected =
                format!("{}: without one it cannot be simulated", real::HELP_MEASURE_PROFILE);
            return Err(self.lacks(disk.line, Some(title), "profile", &expected).into());
        }
        if self.duration.is_none() {
            let endless = self.workloads.iter().position(|workload| workload.stop.is_none());
            let index = endless.expect("without a duration some workload has no stop");
            let title = format!("[[workload]] #{}", index + 1);
            let expected =
                "a time, or a `duration` at the top of the file: else the run has no end";
            let line = self.workloads[index].line;
            return Err(self.lacks(line, Some(title), "stop", expected).into());
        }
        let (nbd, log) = (Nbd::default(), Log::default());
        Ok(Self { listen: Vec::new(), vhost_user: None, nbd, log, ..self })
    }

    /// Makes the pool once, as a simulation does when it begins.
    fn check_pool(&self) -> Result<(), ConfigError> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let Err(not_created) = pool.create(&self.disks) else { return Ok(()) };
        let NotCreated { line, volume, reason } = not_created;
        let title = volume.map(|name| format!("[[pool.volume]] \"{name}\""));
        let expected = format!("volumes that fit the pool together ({reason})");
        Err(self.lacks(line, title, "size", &expected).into())
    }

    /// The plan for a daemon: without what only a simulation uses. It has a disk; volumes can be
    /// created later.
    ///
    /// # Errors
    /// There is no disk, or one accepts contracts that its policy does not keep.
    pub fn for_serve(self) -> Result<Self, ConfigError> {
        if self.disks.is_empty() {
            let expected = "at least one table `[[disk]]` to serve from";
            return Err(self.lacks(1, None, "disk", expected).into());
        }
        if let Some(disk) = self.disks.iter().find(|disk| disk.unkept_contracts) {
            let title = format!("[[disk]] \"{}\"", disk.name);
            let expected = "\"refused\", or no such field: a daemon keeps each contract that it \
                            accepts";
            let parts = self.lacks(disk.line, Some(title), unkept::KEY, expected);
            return Err(Problem { found: Some("allowed".to_owned()), ..parts }.into());
        }
        let (changes, workloads) = (Vec::new(), Vec::new());
        Ok(Self { seed: defaults::SEED, duration: None, changes, workloads, ..self })
    }

    fn lacks(&self, line: usize, table: Option<String>, field: &str, expected: &str) -> Problem {
        Problem {
            file: self.file.clone(),
            line: Some(line),
            table,
            field: Some(field.to_owned()),
            found: None,
            expected: expected.to_owned(),
            is_refusal: false,
        }
    }
}

/// When the last workload stops; `None` if one never does, or there is none.
fn latest_stop(workloads: &[Workload]) -> Option<Duration> {
    workloads
        .iter()
        .map(|workload| workload.stop)
        .try_fold(None, |latest, stop| Some(latest.max(Some(stop?))))?
}

/// Where clients reach the daemon.
#[derive(Debug, Default)]
struct Listen {
    nbd: Vec<String>,
    vhost_user: Option<PathBuf>,
}

/// The table `[listen]`.
fn listen(top: &Table<'_>, base_dir: &Path) -> Result<Listen, InputError> {
    let Some(table) = top.table("listen", &keys::LISTEN)? else { return Ok(Listen::default()) };
    let directory = table.value("vhost_user").map(|value| {
        let text = value.text("a directory for sockets")?;
        path(&value, text, base_dir)
    });
    Ok(Listen { nbd: nbd_addresses(&table)?, vhost_user: directory.transpose()? })
}

/// The addresses of NBD.
fn nbd_addresses(table: &Table<'_>) -> Result<Vec<String>, InputError> {
    const EXPECTED: &str = "`unix:PATH` or `ADDRESS:PORT`, such as 127.0.0.1:10809";
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
