//! `read_ahead` of a `[[disk]]` table: the memory in which the host reads ahead.

use engine::limits::{READ_AHEAD_MEMORY, READ_AHEAD_MEMORY_MAX, READ_AHEAD_MEMORY_MIN};
use engine::{Execution, FreePrefetch, PolicyName, Preemptible, ReadAheadSettings};
use units::{Bytes, Sectors};

use crate::plan::Backing;
use input::{InputError, Table, size_text};

/// What is read ahead, and an execution that prefetches to where there is memory for it. Without
/// the key the memory is there for what is prefetched alone, where clients that pause are not read
/// ahead.
pub(crate) fn check(
    table: &Table<'_>,
    kind: (PolicyName, bool),
    backing: &Backing,
    execution: Execution,
) -> Result<(ReadAheadSettings, Execution), InputError> {
    let mut memory = memory(table, kind, backing)?;
    let requests = memory > Sectors::ZERO;
    let Execution::Preemptible(how) = execution else {
        return Ok((ReadAheadSettings { memory, requests, prefetches: false }, execution));
    };
    let wanted = how.free_prefetch != FreePrefetch::Off;
    if wanted && table.value("read_ahead").is_none() && !kind.0.has_deadlines() {
        memory = memory.max(READ_AHEAD_MEMORY);
    }
    let prefetches = wanted && memory > Sectors::ZERO;
    let free_prefetch = match (wanted, prefetches) {
        (false, _) => FreePrefetch::Off,
        (true, false) => FreePrefetch::ToDrive,
        (true, true) => FreePrefetch::ToHost,
    };
    let execution = Execution::Preemptible(Preemptible { free_prefetch, ..how });
    Ok((ReadAheadSettings { memory, requests, prefetches }, execution))
}

/// The memory; zero: nothing is read ahead. By default it is on where a switch between volumes
/// costs a positioning, under a policy that knows that clients think. A disk that is read through
/// the page cache is read ahead by the kernel.
fn memory(
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
