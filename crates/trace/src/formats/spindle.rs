//! Spindle's own format: one request a line, exact and readable.
//!
//! ```text
//! spindle trace 1
//! # ns  op  first sector  sectors  device  [response ns  [think ns]]
//! 13191135 R 576560 6 20
//! 17829285 W+ 0 8 0 663000 -
//! ```
//! `R` reads, `W` writes, `F` flushes, `T` trims, `Z` writes zeroes; `+` is forced unit access; `-`
//! is a number that is not known. Sectors have 512 bytes. Lines that begin with `#` are left out.

use units::{Op, SECTOR_BYTES};

use crate::error::Fault;
use crate::record::{Raw, bytes};
use crate::text::{duration, number, time};

/// The first line.
pub(crate) const HEADER: &str = "spindle trace 1";

const LINE: &str = "`NS OP SECTOR SECTORS DEVICE [RESPONSE_NS [THINK_NS]]`";
const OPS: [(Op, &str); 5] =
    [(Op::Read, "R"), (Op::Write, "W"), (Op::Flush, "F"), (Op::Trim, "T"), (Op::WriteZeroes, "Z")];

/// The letter of an operation.
pub(crate) fn mark(op: Op) -> &'static str {
    let (_, mark) = OPS.iter().find(|(known, _)| *known == op).expect("each has a letter");
    mark
}

/// Whether the first line has been read.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    begun: bool,
}

impl Lines {
    pub(crate) fn request(&mut self, line: &str) -> Result<Option<Raw>, Fault> {
        if !self.begun {
            self.begun = true;
            return if line == HEADER {
                Ok(None)
            } else {
                Err(Fault::of(line, format!("`{HEADER}` on the first line")))
            };
        }
        if line.starts_with('#') {
            return Ok(None);
        }
        request(line).map(Some)
    }
}

fn request(line: &str) -> Result<Raw, Fault> {
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next().ok_or_else(|| Fault::of(line, LINE));
    let at = time(word()?, 1, "nanoseconds from the trace's start")?;
    let letters = word()?;
    let (mark, fua) = letters.strip_suffix('+').map_or((letters, false), |mark| (mark, true));
    let op = OPS.iter().find(|(_, known)| *known == mark);
    let (op, _) = op.ok_or_else(|| Fault::of(letters, "R, W, F, T or Z, with or without +"))?;
    let sectors = |text| bytes(number(text, "a whole number of sectors")?, SECTOR_BYTES);
    let (start, len) = (sectors(word()?)?, sectors(word()?)?);
    let device = number(word()?, "the number of a device")?;
    let optional = |text: Option<&str>| match text {
        None | Some("-") => Ok(None),
        Some(text) => duration(text, 1, "nanoseconds, or -").map(Some),
    };
    let (response, think) = (optional(words.next())?, optional(words.next())?);
    if words.next().is_some() {
        return Err(Fault::of(line, LINE));
    }
    Ok(Raw { fua, response, think, ..Raw::new(at, device, *op, start, len) })
}
