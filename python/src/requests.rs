//! The requests of a run as columns.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spindle_sim::RecordedRequest;
use spindle_units::Op;

/// A column: its name, the kind of its values (a format character of Python's `struct`), the
/// values as native bytes, and the labels of codes.
pub(crate) type Column = (&'static str, &'static str, Py<PyBytes>, Option<Vec<String>>);

/// The operations, by their codes.
const OPERATIONS: [(Op, &str); 6] = [
    (Op::Read, "read"),
    (Op::Write, "write"),
    (Op::Flush, "flush"),
    (Op::Trim, "trim"),
    (Op::WriteZeroes, "write-zeroes"),
    (Op::Seek, "seek"),
];

/// The columns of these requests; `names` are those of the volumes.
pub(crate) fn columns(
    py: Python<'_>,
    names: Vec<String>,
    requests: &[RecordedRequest],
) -> Vec<Column> {
    let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes).unbind();
    let wide = |of: &dyn Fn(&RecordedRequest) -> u64| {
        bytes(requests.iter().flat_map(|request| of(request).to_ne_bytes()).collect())
    };
    let codes = |of: &dyn Fn(&RecordedRequest) -> usize| {
        let code = |request| u32::try_from(of(request)).expect("few labels").to_ne_bytes();
        bytes(requests.iter().flat_map(code).collect())
    };
    let operation = |request: &RecordedRequest| {
        let found = OPERATIONS.iter().position(|(op, _)| *op == request.operation.op);
        found.expect("every operation has a code")
    };
    let operations = OPERATIONS.iter().map(|(_, name)| (*name).to_owned()).collect();
    let failed = bytes(requests.iter().map(|request| u8::from(request.failed)).collect());
    let disk_time = requests.iter().flat_map(|request| request.disk_time.as_nanos().to_ne_bytes());
    vec![
        ("volume", "I", codes(&|request| request.volume.0), Some(names)),
        ("op", "I", codes(&operation), Some(operations)),
        ("lba", "Q", wide(&|request| request.operation.extent.start.0), None),
        ("sectors", "Q", wide(&|request| request.operation.extent.len.0), None),
        ("sent_ns", "Q", wide(&|request| request.sent.as_nanos()), None),
        ("answered_ns", "Q", wide(&|request| request.answered.as_nanos()), None),
        ("waited_ns", "Q", wide(&|request| request.waited.as_nanos()), None),
        ("disk_time_ns", "q", bytes(disk_time.collect()), None),
        ("failed", "?", failed, None),
    ]
}
