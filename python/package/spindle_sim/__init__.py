"""Spindle from Python: scenarios in virtual time, admission, and drives command by command.

>>> import spindle_sim
>>> report = spindle_sim.simulate("examples/two-streams.toml")
>>> report.volumes["disk_time_share"]
>>> drive = spindle_sim.Drive("hgst-7k8")
>>> drive.submit(0, "read", lba=1_000_000, sectors=8)
>>> drive.complete(drive.next_completion()).rotation_ns

Results are those of the binary `spindle`, bit for bit: the same crates compute them. All times of
drives are integers, in nanoseconds of virtual time. Bad input is a `ValueError`, in the words of
`spindle`; a file that cannot be read is an `OSError`.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, overload

from . import _native
from ._native import Completion, drive_names

__all__ = ["Admission", "Completion", "Drive", "Labels", "Report", "Table", "admit",
           "drive_names", "reproduce", "simulate", "sweep"]

# The native columns are rows of these: `Q` is an unsigned integer of 64 bits.
_INTEGER = "Q"


class Labels(Sequence[str]):
    """A column of few different texts: a code of 32 bits for each row, and what the codes stand
    for."""

    def __init__(self, codes: memoryview, labels: Sequence[str]) -> None:
        self.codes = codes
        self.labels = list(labels)

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Labels: ...
    def __getitem__(self, row: int | slice) -> str | Labels:
        if isinstance(row, slice):
            return Labels(self.codes[row], self.labels)
        return self.labels[self.codes[row]]


class Table(Mapping[str, Sequence[Any]]):
    """Columns of equal length by their names.

    A table is handed over by Arrow's PyCapsule interface: `pyarrow.table(table)`,
    `pandas.DataFrame.from_arrow(table)`, `to_polars`. Integer columns of drives and of
    requests are memory views, which all of them, and numpy, read without a copy.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = dict(columns)
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"found columns of lengths {sorted(lengths)}, expected one length")
        self.height = lengths.pop() if lengths else 0

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Rows of nested objects; the column of a nested value is `outer.inner`, and a row without
        it has `None` there."""
        flat = [dict(_flat(row)) for row in rows]
        names = list(dict.fromkeys(itertools.chain.from_iterable(flat)))
        return cls({name: [row.get(name) for row in flat] for name in names})

    def __getitem__(self, name: str) -> Sequence[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.height} rows: {', '.join(self._columns)})"

    def _native_columns(self) -> list[tuple[str, str, Any, list[str] | None]]:
        """Each column's name, kind, values and labels, as the native half takes them."""
        def native(name: str, column: Sequence[Any]) -> tuple[str, str, Any, list[str] | None]:
            if isinstance(column, Labels):
                return name, "I", _bytes_of(column.codes), column.labels
            if isinstance(column, memoryview):
                return name, column.format, _bytes_of(column), None
            return name, "list", [_scalar(value) for value in column], None

        return [native(name, column) for name, column in self._columns.items()]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream: the table as one batch. A requested schema is not taken up: the
        consumer casts."""
        return _native.arrow_stream(self._native_columns(), self.height)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Arrow's C array: a struct array with the columns as fields."""
        return _native.arrow_array(self._native_columns(), self.height)

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        import numpy
        import pandas

        def series(column: Sequence[Any]) -> Any:
            if isinstance(column, Labels):
                codes = numpy.asarray(column.codes)
                return pandas.Categorical.from_codes(codes, categories=column.labels)
            return numpy.asarray(column) if isinstance(column, memoryview) else column

        columns = {name: series(column) for name, column in self._columns.items()}
        return pandas.DataFrame(columns, copy=False)

    def to_polars(self) -> Any:
        """The table as a `polars.DataFrame`."""
        import polars

        # Polars takes a mapping for a dictionary of columns, and would copy them.
        return polars.DataFrame(_Stream(self))


class _Stream:
    """A table that is nothing but Arrow's stream."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _bytes_of(view: memoryview) -> bytes:
    """The whole object that a view is of; a copy for a part of one."""
    owner = view.obj
    whole = isinstance(owner, bytes) and view.contiguous and view.nbytes == len(owner)
    return owner if whole else view.tobytes()


def _scalar(value: Any) -> Any:
    """A value that Arrow has a column for: lists are their JSON."""
    return json.dumps(value) if isinstance(value, list) else value


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@dataclass(frozen=True)
class Report:
    """The report of a run. `json` is what `spindle sim run --json` prints."""

    json: str
    #: One row for each answered request, in the order of the answers, if `requests` was asked for:
    #: its volume and operation, its sectors on the disk, when it was sent and answered, how long
    #: its first command waited, and the disk time that its volume was charged.
    requests: Table | None = None

    @property
    def value(self) -> dict[str, Any]:
        """The report as Python's dictionaries and lists."""
        return json.loads(self.json)

    @property
    def volumes(self) -> Table:
        """One row for each volume."""
        return Table.from_rows(self.value["volumes"])

    @property
    def disks(self) -> Table:
        """One row for each disk."""
        return Table.from_rows(self.value["disks"])

    @property
    def oracles(self) -> dict[str, int]:
        """What the oracles of the run checked."""
        return self.value["oracles"]


def _source(path: str | os.PathLike[str] | None, text: str | None) -> tuple[str, str, str]:
    """The text of a scenario or config, its name in messages, and where its files are."""
    if (path is None) == (text is None):
        raise TypeError("expected a path or a text, and not both")
    if text is not None:
        return text, "text", "."
    file = pathlib.Path(path)
    return file.read_text(encoding="utf-8"), str(file), str(file.parent)


def simulate(path: str | os.PathLike[str] | None = None, *, text: str | None = None,
             seed: int | None = None, worth: bool = False, requests: bool = False) -> Report:
    """Runs a scenario (a file, or its text) in virtual time.

    `seed` replaces the scenario's. With `worth` each reserve is compared with its client alone on
    a drive slowed to the reserve. With `requests` the report has a row for each request, of at
    most four million. Other threads of Python run meanwhile.
    """
    report, columns = _native.simulate(*_source(path, text), seed, worth, requests)
    return Report(report, None if columns is None else Table(dict(map(_column, columns))))


def _column(column: tuple[str, str, bytes, list[str] | None]) -> tuple[str, Sequence[Any]]:
    """A native column with its name."""
    name, kind, values, labels = column
    view = memoryview(values).cast(kind)
    return name, view if labels is None else Labels(view, labels)


@dataclass(frozen=True)
class Admission:
    """Whether a volume fits beside the others of a config."""

    fits: bool
    #: Why not, in a sentence with what would.
    reason: str | None
    #: The part of the disk's time that is not reserved without it.
    reserve_max: float
    #: The disk time that best effort can use without a missed deadline, in nanoseconds: with the
    #: volume if it fits. `None` if the disk keeps no deadlines.
    slack_ns: int | None


def admit(path: str | os.PathLike[str] | None = None, *, text: str | None = None, disk: str,
          size: str, **contract: Any) -> Admission:
    """Asks whether a volume fits on a disk of a config, as the daemon would before it serves it.

    `contract` has the keys of `[[volume]]`: `reserve="30%"`,
    `stream={"bandwidth": "2MB/s", "block": "1MB"}`.
    """
    fields = {"name": "(a volume to come)", "disk": disk, "size": size, **contract}
    lines = [f"{key} = {_literal(value)}" for key, value in fields.items()]
    table = "\n".join(["[[volume]]", *lines, ""])
    return Admission(*_native.admit(*_source(path, text), disk, table))


def _literal(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_literal(part)}" for key, part in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_literal(part) for part in value) + "]"
    if isinstance(value, (bool, str, int, float)):
        # TOML writes these as JSON does.
        return json.dumps(value)
    raise TypeError(f"found {type(value).__name__}, expected what TOML has")


def sweep(path: str | os.PathLike[str] | None = None,
          values: Mapping[str, Sequence[Any]] | None = None, *, text: str | None = None,
          seeds: Sequence[int | None] = (None,), worth: bool = False,
          jobs: int | None = None) -> Table:
    """Simulates a scenario with each combination of values, and each seed.

    A name of `values` is `key` or `table.name.key`, such as `volume.seq.reserve` or
    `workload.0.outstanding`. The result has a row for each volume of each run: the values, the
    seed, and the columns of `Report.volumes`. `jobs` runs go on at once (all processors); the
    order of rows does not depend on it.
    """
    source, file, base_dir = _source(path, text)
    names = list(values or {})
    runs = [(dict(zip(names, chosen)), seed)
            for chosen in itertools.product(*(values or {}).values()) for seed in seeds]

    def run(which: tuple[dict[str, Any], int | None]) -> list[dict[str, Any]]:
        chosen, seed = which
        literals = [(name, _literal(value)) for name, value in chosen.items()]
        changed = _native.with_values(source, literals)
        value = json.loads(_native.simulate(changed, file, base_dir, seed, worth, False)[0])
        return [{**chosen, "seed": value["seed"], **volume} for volume in value["volumes"]]

    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count()) as pool:
        return Table.from_rows([row for rows in pool.map(run, runs) for row in rows])


class Drive(_native.Drive):
    """A drive of the library (`drive_names()`), or of a drive file, command by command.

    A component for discrete-event simulations: `submit` a command at an instant, ask for the
    `next_completion`, go there, and `complete`. The parts of a completion add up to its response
    time. Instants never run backwards.
    """

    def closed_loop(self, op: str, lbas: Sequence[int], sectors: int, *, outstanding: int = 1,
                    think_ns: int = 0) -> Table:
        """Sends commands of `sectors` sectors at these addresses, `outstanding` at once, each
        `think_ns` behind the answer to the one before it; a row for each command."""
        columns = super().closed_loop(op, lbas, sectors, outstanding, think_ns)
        return Table({name: memoryview(column).cast(_INTEGER) for name, column in columns})


def reproduce(experiment: str, *, program: str = "spindle-lab",
              out: str | os.PathLike[str] = "out") -> dict[str, Any]:
    """Reproduces a published experiment with the program `spindle-lab`, and gives its checks and
    figures. The experiment's files are written to `out`."""
    command = [program, "reproduce", experiment, "--json", "--out", os.fspath(out)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    # Status 1: a check was missed, which the result says.
    if ran.returncode not in (0, 1) or not ran.stdout:
        raise ValueError(ran.stderr.strip() or f"{program} ended with {ran.returncode}")
    return json.loads(ran.stdout)
