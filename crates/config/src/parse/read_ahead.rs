//! `read_ahead` of a `[[disk]]` table: the memory in which the host reads ahead.

use engine::PolicyName;
use engine::limits::{READ_AHEAD_MEMORY, READ_AHEAD_MEMORY_MAX, READ_AHEAD_MEMORY_MIN};
use units::{Bytes, Sectors};

use crate::plan::Backing;
use input::{InputError, Table, size_text};

/// The memory; zero: nothing is read ahead. By default it is on where a switch between volumes
/// costs a positioning, under a policy that knows that clients think. A disk that is read through
/// the page cache is read ahead by the kernel.
pub(crate) fn check(
    table: &Table<'_>,
    (policy, rotational): (PolicyName, bool),
    backing: &Backing,
) -> Result<Sectors, InputError> {
    let is_cached = backing.capabilities().is_cached;
    let auto = if rotational && !is_cached { READ_AHEAD_MEMORY } else { Sectors::ZERO };
    let Some(value) = table.value("read_ahead") else {
        return Ok(if policy.anticipates_think_times() { auto } else { Sectors::ZERO });
    };
    let sizes = READ_AHEAD_MEMORY_MIN.bytes()..=READ_AHEAD_MEMORY_MAX.bytes();
    let expected = format!(
        "\"auto\", \"off\", or a size from {} to {}",
        size_text(*sizes.start()),
        size_text(*sizes.end())
    );
    let text = value.text(&expected)?;
    if text == "off" {
        return Ok(Sectors::ZERO);
    }
    if policy.has_deadlines() {
        return Err(value.refuse(format_args!(
            "\"off\", or a policy without deadlines: each block of a stream is one read"
        )));
    }
    if text == "auto" {
        return Ok(auto);
    }
    let size: Bytes = text.parse().map_err(|_| value.refuse(&expected))?;
    if sizes.contains(&size) { Ok(size.sectors_floor()) } else { Err(value.refuse(expected)) }
}
