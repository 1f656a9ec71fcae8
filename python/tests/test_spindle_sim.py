"""Facts about the package `spindle_sim`, against the binaries and against itself.

The environment names the binaries: SPINDLE, and SPINDLE_LAB.
"""

import json
import os
import pathlib
import subprocess

import pytest
import spindle_sim

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
SPINDLE = os.environ["SPINDLE"]
# Two seconds of a scenario with thousands of requests.
SHORT = (ROOT / "examples" / "two-streams.toml").read_text().replace(
    'duration = "60s"', 'duration = "2s"')

PLAN = """
[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "ram"

[[volume]]
name = "first"
disk = "d0"
size = "1GiB"
reserve = "60%"
"""


@pytest.mark.parametrize("scenario", EXAMPLES, ids=lambda path: path.stem)
def test_a_scenario_has_the_result_of_the_binary_bit_for_bit(scenario):
    command = [SPINDLE, "sim", "run", "--json", str(scenario)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert spindle_sim.simulate(scenario).json + "\n" == printed


def test_another_seed_and_worth_are_those_of_the_binary():
    scenario = ROOT / "examples" / "two-streams.toml"
    command = [SPINDLE, "sim", "run", "--json", "--seed", "7", "--worth", str(scenario)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert spindle_sim.simulate(scenario, seed=7, worth=True).json + "\n" == printed


def test_a_scenario_that_is_wrong_is_a_value_error_in_the_words_of_spindle():
    wrong = PLAN.replace("60%", "160%")
    with pytest.raises(ValueError, match=r'text:11: .*"first": field `reserve`: found `160%`'):
        spindle_sim.simulate(text=wrong)
    with pytest.raises(OSError):
        spindle_sim.simulate("no such file.toml")
    with pytest.raises(TypeError):
        spindle_sim.simulate()


def test_a_volume_fits_up_to_what_is_left_and_no_further():
    fits = spindle_sim.admit(text=PLAN, disk="d0", size="1GiB", reserve="40%")
    assert (fits.fits, fits.reason, fits.reserve_max) == (True, None, 0.4)
    refused = spindle_sim.admit(text=PLAN, disk="d0", size="1GiB", reserve="41%")
    assert not refused.fits
    assert "expected at most 40%" in refused.reason
    with pytest.raises(ValueError, match="expected one of d0"):
        spindle_sim.admit(text=PLAN, disk="d1", size="1GiB")
    with pytest.raises(ValueError, match="field `reserved`: found `reserved`"):
        spindle_sim.admit(text=PLAN, disk="d0", size="1GiB", reserved="40%")


def test_a_stream_is_admitted_by_its_deadlines():
    plan = PLAN.replace("60%", "10%")
    stream = {"bandwidth": "2MB/s", "block": "1MB"}
    fits = spindle_sim.admit(text=plan, disk="d0", size="1GiB", stream=stream)
    assert fits.fits and fits.slack_ns > 0
    fast = {"bandwidth": "900MB/s", "block": "1MB"}
    assert not spindle_sim.admit(text=plan, disk="d0", size="1GiB", stream=fast).fits


@pytest.mark.parametrize("name", ["hgst-7k8", "samsung-870evo-1t"])
def test_the_parts_of_a_command_add_up_to_its_response_time(name):
    drive = spindle_sim.Drive(name)
    now = 0
    for lba in range(0, 1_000_000_000, 99_999_992):
        tag = drive.submit(now, "read", lba=lba, sectors=8)
        sent = now
        done = None
        while done is None:
            now = drive.next_completion()
            done = drive.complete(now)
        parts = (done.queue_ns, done.overhead_ns, done.seek_ns, done.rotation_ns, done.transfer_ns)
        assert (done.tag, done.at_ns, sum(parts)) == (tag, now, now - sent)
    assert drive.outstanding == 0 and drive.next_completion() is None


def test_a_closed_loop_is_the_same_commands_one_by_one():
    lbas = list(range(0, 4_000_000_000, 123_456_784))
    table = spindle_sim.Drive("hgst-7k8").closed_loop("read", lbas, 8, think_ns=1_000_000)
    drive = spindle_sim.Drive("hgst-7k8")
    now = 0
    for row, lba in enumerate(lbas):
        drive.submit(now, "read", lba=lba, sectors=8)
        assert table["submitted_ns"][row] == now
        now = drive.next_completion()
        assert table["at_ns"][row] == drive.complete(now).at_ns
        now += 1_000_000


def test_many_commands_outstanding_are_served_faster_than_one_at_a_time():
    lbas = [lba * 7_919_000_003 % 15_000_000_000 for lba in range(500)]
    alone = spindle_sim.Drive("hgst-7k8").closed_loop("read", lbas, 8)
    deep = spindle_sim.Drive("hgst-7k8").closed_loop("read", lbas, 8, outstanding=32)
    assert max(deep["at_ns"]) * 1.5 < max(alone["at_ns"])


def test_what_a_drive_does_not_take_is_a_value_error_and_changes_nothing():
    drive = spindle_sim.Drive("hgst-7k8")
    drive.submit(1_000, "write", lba=0, sectors=8)
    end = drive.capacity_sectors
    for wrong in [
        lambda: drive.submit(999, "read", lba=0, sectors=8),
        lambda: drive.submit(2_000, "read", lba=end, sectors=1),
        lambda: drive.submit(2_000, "read", lba=2**64 - 1, sectors=2),
        lambda: drive.submit(2_000, "read", lba=0, sectors=0),
        lambda: drive.submit(2_000, "erase", lba=0, sectors=8),
        lambda: drive.submit(2**63, "read", lba=0, sectors=8),
        lambda: drive.complete(0),
        lambda: drive.closed_loop("read", [0], 8),
        lambda: spindle_sim.Drive("no such drive"),
    ]:
        with pytest.raises(ValueError):
            wrong()
    assert drive.outstanding == 1
    for _ in range(drive.queue_depth_max - 1):
        drive.submit(2_000, "read", lba=0, sectors=8)
    with pytest.raises(ValueError, match="holds no more"):
        drive.submit(2_000, "read", lba=0, sectors=8)


def test_a_sweep_has_a_row_for_each_volume_of_each_run_whatever_runs_at_once():
    scenario = ROOT / "examples" / "two-streams.toml"
    values = {"duration": ["5s"], "volume.rand.reserve": ["10%", "30%"],
              "workload.1.outstanding": [1, 16]}
    one = spindle_sim.sweep(scenario, values, seeds=[1, 2], jobs=1)
    two = spindle_sim.sweep(scenario, values, seeds=[1, 2], jobs=2)
    assert dict(one) == dict(two)
    assert one.height == 2 * 2 * 2 * 2
    assert one["seed"][:4] == [1, 1, 2, 2]
    shares = [share for name, share in zip(one["name"], one["disk_time_share"]) if name == "rand"]
    assert min(shares) > 0.09
    with pytest.raises(ValueError, match=r"found no \[\[volume\]\]"):
        spindle_sim.sweep(scenario, {"volume.absent.reserve": ["10%"]})


def test_columns_reach_pandas_and_polars_without_a_copy():
    numpy = pytest.importorskip("numpy")
    table = spindle_sim.Drive("hgst-7k8").closed_loop("read", list(range(0, 8000, 8)), 8)
    frame = table.to_pandas()
    assert list(frame.columns) == list(table) and len(frame) == 1000
    column = numpy.asarray(table["at_ns"])
    assert numpy.shares_memory(frame["at_ns"].to_numpy(), column)
    polars = table.to_polars()["at_ns"]
    assert numpy.shares_memory(polars.to_numpy(), column)
    assert polars.to_list() == list(table["at_ns"])
    requests = spindle_sim.simulate(text=SHORT, requests=True).requests
    frame = requests.to_pandas()
    assert list(frame["volume"]) == list(requests["volume"])
    assert numpy.shares_memory(frame["lba"].to_numpy(), numpy.asarray(requests["lba"]))


def test_the_requests_of_a_run_add_up_to_its_report():
    report = spindle_sim.simulate(text=SHORT, requests=True)
    alone = spindle_sim.simulate(text=SHORT)
    assert report.json == alone.json and alone.requests is None
    requests, volumes = report.requests, report.volumes
    counts = [sum(name == volume for name in requests["volume"]) for volume in volumes["name"]]
    assert counts == volumes["requests"]
    assert all(sent <= answered for sent, answered
               in zip(requests["sent_ns"], requests["answered_ns"]))
    assert list(requests["answered_ns"]) == sorted(requests["answered_ns"])
    for at, name in enumerate(volumes["name"]):
        rows = [row for row, volume in enumerate(requests["volume"]) if volume == name]
        slowest = max(requests["answered_ns"][row] - requests["sent_ns"][row] for row in rows)
        # The report's is the upper bound of a histogram's bin, which is exact to a thousandth.
        assert slowest / 1e6 == pytest.approx(volumes["latency_ms.max"][at], rel=1e-3)
    assert not any(requests["failed"])


def test_the_requests_are_one_memory_in_arrow_polars_and_numpy():
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    numpy = pytest.importorskip("numpy")
    requests = spindle_sim.simulate(text=SHORT, requests=True).requests
    arrow, frame = pyarrow.table(requests), requests.to_polars()
    assert (arrow.num_rows, frame.height) == (requests.height, requests.height)
    assert arrow.column_names == frame.columns == list(requests)
    for name in requests:
        values = list(requests[name])
        assert arrow[name].to_pylist() == values and frame[name].to_list() == values, name
    for name in ["lba", "sectors", "sent_ns", "answered_ns", "waited_ns", "disk_time_ns"]:
        there = numpy.asarray(requests[name])
        assert numpy.shares_memory(arrow[name].chunk(0).to_numpy(), there), name
        assert numpy.shares_memory(frame[name].to_numpy(), there), name
    array = pyarrow.record_batch(requests)
    assert array.equals(arrow.to_batches()[0])
    # The memory outlives the table that it came from.
    kept = list(requests["lba"])
    del requests, there, arrow, array
    assert frame["lba"].to_list() == kept


def test_a_report_is_the_same_bit_for_bit_in_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    for scenario in EXAMPLES[:3]:
        volumes = spindle_sim.simulate(scenario).volumes
        arrow = pyarrow.table(volumes)
        for name in volumes:
            texts = [json.dumps(value) if isinstance(value, list) else value
                     for value in volumes[name]]
            assert arrow[name].to_pylist() == texts, name
    empty = pyarrow.table(spindle_sim.Table({}))
    assert (empty.num_rows, empty.num_columns) == (0, 0)


def test_a_column_of_mixed_values_is_refused_by_its_name():
    pyarrow = pytest.importorskip("pyarrow")
    mixed = spindle_sim.Table({"a": [1, None], "b": ["x", 2]})
    with pytest.raises(ValueError, match="column b: found"):
        pyarrow.table(mixed)
    numbers = spindle_sim.Table({"a": [1, None, 2.5], "b": [2**64 - 1, 0, None]})
    assert pyarrow.table(numbers).to_pydict() == {"a": [1.0, None, 2.5], "b": [2**64 - 1, 0, None]}


def test_an_experiment_has_the_figures_of_the_laboratory(tmp_path):
    program = os.environ["SPINDLE_LAB"]
    found = spindle_sim.reproduce("vdisk-fig4", program=program, out=tmp_path)
    command = [program, "reproduce", "vdisk-fig4", "--json", "--out", str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True).stdout
    assert found == json.loads(printed)
    with pytest.raises(ValueError, match="no experiment"):
        spindle_sim.reproduce("absent", program=program, out=tmp_path)
