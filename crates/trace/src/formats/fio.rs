//! fio's I/O logs, versions 2 and 3, as "Trace file format" of its manual and `iolog.c` describe
//! them.
//!
//! ```text
//! fio version 2 iolog             fio version 3 iolog
//! /dev/sda add                    19 /dev/sda add
//! /dev/sda open                   124 /dev/sda open
//! /dev/sda wait 5000 0            5128 /dev/sda read 4096 8192
//! /dev/sda read 4096 8192         5290 /dev/sda datasync 0 0
//! ```
//! Offsets and lengths are bytes. Version 3 begins each line with microseconds from the start of
//! the run. Version 2 has no times but its waits: microseconds from the wait before, as the manual
//! says (fio's own replay of a `wait` counts milliseconds from its start instead, and contradicts
//! its manual). Without waits all requests come at once.
//!
//! Files are devices, numbered from 0 in the order in which the log names them first.

use units::Op;

use crate::error::Fault;
use crate::limits::FILES_MAX;
use crate::record::Raw;
use crate::text::{number, time};

/// The version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Two,
    Three,
}

impl Version {
    fn header(self) -> &'static str {
        match self {
            Self::Two => "fio version 2 iolog",
            Self::Three => "fio version 3 iolog",
        }
    }

    fn line(self) -> &'static str {
        match self {
            Self::Two => "`FILE ACTION` or `FILE ACTION OFFSET LENGTH`",
            Self::Three => "`MICROSECONDS FILE ACTION` or `MICROSECONDS FILE ACTION OFFSET LENGTH`",
        }
    }
}

/// The files so far, and the time.
#[derive(Debug)]
pub(crate) struct Lines {
    version: Version,
    begun: bool,
    files: Vec<String>,
    clock: u128,
}

impl Lines {
    pub(crate) fn new(version: Version) -> Self {
        Self { version, begun: false, files: Vec::new(), clock: 0 }
    }

    pub(crate) fn request(&mut self, line: &str) -> Result<Option<Raw>, Fault> {
        if !self.begun {
            self.begun = true;
            let header = self.version.header();
            let expected = || Fault::of(line, format!("`{header}` on the first line"));
            return if line == header { Ok(None) } else { Err(expected()) };
        }
        let form = self.version.line();
        let mut words = line.split_ascii_whitespace();
        let mut word = || words.next().ok_or_else(|| Fault::of(line, form));
        if self.version == Version::Three {
            self.clock = time(word()?, 1_000, "microseconds from the start of the run")?;
        }
        let (file, action) = (word()?, word()?);
        let device = self.device(file)?;
        if matches!(action, "add" | "open" | "close") {
            return match words.next() {
                None => Ok(None),
                Some(_) => Err(Fault::of(line, form)),
            };
        }
        let mut bytes = || number(words.next().unwrap_or_default(), "a number of bytes");
        let (start, len): (u64, u64) = (bytes()?, bytes()?);
        if words.next().is_some() {
            return Err(Fault::of(line, form));
        }
        let op = match action {
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Trim,
            "sync" | "datasync" => return Ok(Some(Raw::flush(self.clock, device))),
            "wait" if self.version == Version::Two => {
                self.clock += u128::from(start) * 1_000;
                return Ok(None);
            }
            _ => return Err(Fault::of(action, self.actions())),
        };
        Ok(Some(Raw::new(self.clock, device, op, start, len)))
    }

    fn actions(&self) -> &'static str {
        match self.version {
            Version::Two => "add, open, close, wait, read, write, trim, sync or datasync",
            Version::Three => "add, open, close, read, write, trim, sync or datasync",
        }
    }

    fn device(&mut self, file: &str) -> Result<u32, Fault> {
        let index = self.files.iter().position(|known| known == file);
        if index.is_none() && self.files.len() == FILES_MAX {
            return Err(Fault::of(file, format!("at most {FILES_MAX} files")));
        }
        let index = index.unwrap_or_else(|| {
            self.files.push(file.to_owned());
            self.files.len() - 1
        });
        Ok(u32::try_from(index).expect("files are few"))
    }
}
