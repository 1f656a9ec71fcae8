//! A drive of the library, command by command.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spindle_drive::{AnyDevice, Done, Tag};
use spindle_units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::bad_input;

/// The latest instant, in nanoseconds: far from where sums would overflow (146 years).
const INSTANT_MAX: u64 = 1 << 62;

/// A command that is done.
#[pyclass(frozen, get_all, module = "spindle_sim")]
pub(crate) struct Completion {
    /// The command's number, as `submit` gave it.
    tag: u64,
    /// The instant of its completion.
    at_ns: u64,
    /// Waiting for other commands, and for space in the write buffer.
    queue_ns: u64,
    /// The electronics.
    overhead_ns: u64,
    /// Arm movement, head switch and settling.
    seek_ns: u64,
    /// From then until the first sector is under the head.
    rotation_ns: u64,
    /// The media transfer and the bus.
    transfer_ns: u64,
}

#[pymethods]
impl Completion {
    fn __repr__(&self) -> String {
        format!("Completion(tag={}, at_ns={})", self.tag, self.at_ns)
    }
}

impl From<Done> for Completion {
    fn from(done: Done) -> Self {
        let parts = done.parts;
        Self {
            tag: done.tag.0,
            at_ns: done.at.as_nanos(),
            queue_ns: parts.queue.as_nanos(),
            overhead_ns: parts.overhead.as_nanos(),
            seek_ns: parts.seek.as_nanos(),
            rotation_ns: parts.rotation.as_nanos(),
            transfer_ns: parts.transfer.as_nanos(),
        }
    }
}

/// A drive with its state. Invariant: `now` is the latest instant that the drive has seen.
#[pyclass(subclass, module = "spindle_sim")]
pub(crate) struct Drive {
    device: AnyDevice,
    now: Instant,
    next_tag: u64,
    #[pyo3(get)]
    outstanding: u32,
    #[pyo3(get)]
    queue_depth_max: u32,
}

impl Drive {
    /// The instant, if it is not before one that the drive has seen.
    fn instant(&mut self, now_ns: u64) -> PyResult<Instant> {
        let earliest = self.now.as_nanos();
        if !(earliest..=INSTANT_MAX).contains(&now_ns) {
            let expected = format!("expected {earliest} to {INSTANT_MAX}: time does not run back");
            return Err(bad_input(format!("now_ns: found {now_ns}, {expected}")));
        }
        self.now = Instant::from_nanos(now_ns);
        Ok(self.now)
    }

    /// The operation, if the drive has these sectors.
    fn operation(&self, op: &str, lba: u64, sectors: u64, fua: bool) -> PyResult<Operation> {
        let op = match op {
            "read" => Op::Read,
            "write" => Op::Write,
            "flush" => Op::Flush,
            _ => return Err(bad_input(format!("op: found `{op}`, expected read, write or flush"))),
        };
        if op == Op::Flush {
            return Ok(Operation { op, extent: Extent::default(), fua: false });
        }
        let extent = Extent::new(Lba(lba), Sectors(sectors));
        let capacity = self.device.capacity();
        if extent.is_empty() || !Extent::new(Lba(0), capacity).contains(extent) {
            let found = format!("found {sectors} sectors from {lba} on");
            let expected = format!("expected at least one, within the drive's {}", capacity.0);
            return Err(bad_input(format!("{found}, {expected}")));
        }
        Ok(Operation { op, extent, fua })
    }

    fn send(&mut self, now: Instant, operation: Operation) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.outstanding += 1;
        self.device.submit(now, Tag(tag), operation);
        tag
    }

    fn take(&mut self, now: Instant) -> Option<Done> {
        let done = self.device.complete(now)?;
        self.outstanding -= 1;
        Some(done)
    }
}

#[pymethods]
impl Drive {
    #[new]
    #[pyo3(signature = (name, seed=0))]
    fn new(name: &str, seed: u64) -> PyResult<Self> {
        let spec = spindle_drive_library::open(name).map_err(bad_input)?;
        let model = spec.check().map_err(bad_input)?;
        let queue_depth_max = model.queue_depth_max();
        let device = AnyDevice::new(model).with_seed(seed);
        Ok(Self { device, now: Instant::ZERO, next_tag: 0, outstanding: 0, queue_depth_max })
    }

    #[getter]
    fn capacity_sectors(&self) -> u64 {
        self.device.capacity().0
    }

    #[pyo3(signature = (now_ns, op, lba=0, sectors=0, fua=false))]
    fn submit(
        &mut self,
        now_ns: u64,
        op: &str,
        lba: u64,
        sectors: u64,
        fua: bool,
    ) -> PyResult<u64> {
        let operation = self.operation(op, lba, sectors, fua)?;
        if self.outstanding == self.queue_depth_max {
            let found = format!("{} commands are in the drive", self.outstanding);
            return Err(bad_input(format!("{found}, its queue holds no more")));
        }
        let now = self.instant(now_ns)?;
        Ok(self.send(now, operation))
    }

    fn next_completion(&self) -> Option<u64> {
        self.device.next_completion().map(Instant::as_nanos)
    }

    fn complete(&mut self, now_ns: u64) -> PyResult<Option<Completion>> {
        let now = self.instant(now_ns)?;
        Ok(self.take(now).map(Completion::from))
    }

    /// The columns of a closed loop, each a row of native 64-bit integers.
    #[pyo3(signature = (op, lbas, sectors, outstanding=1, think_ns=0))]
    fn closed_loop<'py>(
        &mut self,
        py: Python<'py>,
        op: &str,
        lbas: Vec<u64>,
        sectors: u64,
        outstanding: u32,
        think_ns: u64,
    ) -> PyResult<Vec<(&'static str, Bound<'py, PyBytes>)>> {
        let operations = lbas.iter().map(|lba| self.operation(op, *lba, sectors, false));
        let operations = operations.collect::<PyResult<Vec<_>>>()?;
        if self.outstanding > 0 || !(1..=self.queue_depth_max).contains(&outstanding) {
            let expected = format!("expected an idle drive, and 1 to {}", self.queue_depth_max);
            return Err(bad_input(format!("outstanding: found {outstanding}, {expected}")));
        }
        if think_ns > INSTANT_MAX / 2 / (lbas.len().max(1) as u64) {
            return Err(bad_input(format!("think_ns: found {think_ns}, expected less")));
        }
        let done = py.detach(|| self.run(&operations, outstanding, Duration::from_nanos(think_ns)));
        let column = |of: fn(&(Instant, Done)) -> u64| {
            let bytes: Vec<u8> = done.iter().flat_map(|row| of(row).to_ne_bytes()).collect();
            PyBytes::new(py, &bytes)
        };
        Ok(vec![
            ("submitted_ns", column(|(sent, _)| sent.as_nanos())),
            ("at_ns", column(|(_, done)| done.at.as_nanos())),
            ("queue_ns", column(|(_, done)| done.parts.queue.as_nanos())),
            ("overhead_ns", column(|(_, done)| done.parts.overhead.as_nanos())),
            ("seek_ns", column(|(_, done)| done.parts.seek.as_nanos())),
            ("rotation_ns", column(|(_, done)| done.parts.rotation.as_nanos())),
            ("transfer_ns", column(|(_, done)| done.parts.transfer.as_nanos())),
        ])
    }
}

impl Drive {
    /// Each of the clients sends the next operation when its last one is answered and its think
    /// time is over. The completions are in the order of the operations.
    fn run(
        &mut self,
        operations: &[Operation],
        clients: u32,
        think: Duration,
    ) -> Vec<(Instant, Done)> {
        let first = self.next_tag;
        let mut ready: BinaryHeap<_> = (0..clients).map(|_| Reverse(self.now)).collect();
        let mut sent = Vec::with_capacity(operations.len());
        let mut done = Vec::with_capacity(operations.len());
        while done.len() < operations.len() {
            let next = ready.peek().filter(|_| sent.len() < operations.len()).map(|at| at.0);
            let completes = self.device.next_completion();
            match (next, completes) {
                (Some(at), completes) if completes.is_none_or(|completes| at < completes) => {
                    ready.pop();
                    self.now = at;
                    self.send(at, operations[sent.len()]);
                    sent.push(at);
                }
                (_, Some(at)) => {
                    self.now = self.now.max(at);
                    if let Some(answer) = self.take(self.now) {
                        ready.push(Reverse(self.now + think));
                        done.push(answer);
                    }
                }
                (_, None) => unreachable!("a client is ready, or waits for the drive"),
            }
        }
        done.sort_by_key(|answer| answer.tag);
        let index = |answer: &Done| usize::try_from(answer.tag.0 - first).expect("a short list");
        done.into_iter().map(|answer| (sent[index(&answer)], answer)).collect()
    }
}
