//! `[[workload]]` tables.

use super::*;

/// The message about a workload with only these lines.
fn bare(lines: &str) -> String {
    refused(&[DISK, VOLUME], &format!("[[workload]]\n{lines}"))
}

#[test]
fn on_no_volume() {
    let expected = "the name of a volume";
    expect(&bare(""), "1: [[workload]] #1: field `volume`", "nothing", expected);
}

#[test]
fn on_an_unknown_volume() {
    let at = "2: [[workload]] #1: field `volume`";
    expect(&bare("volume = \"u\"\n"), at, "`u`", "one of the volumes \"v\"");
}

#[test]
fn with_an_unknown_op_or_none() {
    let expected = "\"read\", \"write\" or \"mix\"";
    let at = "1: [[workload]] #1: field `op`";
    expect(&bare("volume = \"v\"\n"), at, "nothing", expected);
    let at = "3: [[workload]] #1: field `op`";
    expect(&bare("volume = \"v\"\nop = \"trim\"\n"), at, "`trim`", expected);
}

#[test]
fn with_an_unknown_access_or_none() {
    let expected = "\"sequential\", \"random\", \"stream\" or \"trace\"";
    let message = bare("volume = \"v\"\nop = \"read\"\n");
    expect(&message, "1: [[workload]] #1: field `access`", "nothing", expected);
    let message = bare("volume = \"v\"\nop = \"read\"\naccess = \"zipf\"\n");
    expect(&message, "4: [[workload]] #1: field `access`", "`zipf`", expected);
}

#[test]
fn without_a_block() {
    let message = bare("volume = \"v\"\nop = \"read\"\naccess = \"random\"\n");
    expect(&message, "1: [[workload]] #1: field `block`", "nothing", "a size such as 4KiB");
}

#[test]
fn of_a_mix_without_a_share() {
    let message = bare("volume = \"v\"\nop = \"mix\"\n");
    let expected = "a share from 0% to 100%, for a mix";
    expect(&message, "1: [[workload]] #1: field `read_share`", "nothing", expected);
}

#[test]
fn of_a_share_without_a_mix() {
    let expected = "no such field, or op = \"mix\"";
    let at = "1: [[workload]] #1: field `read_share`";
    expect(&workload("read_share = \"70%\"\n"), at, "`70%`", expected);
}

#[test]
fn with_runs_of_random_access() {
    let expected = "no such field, or access = \"sequential\"";
    expect(&workload("run = 8\n"), "1: [[workload]] #1: field `run`", "`8`", expected);
}

#[test]
fn with_runs_of_length_zero() {
    let message = bare("volume = \"v\"\nop = \"read\"\naccess = \"sequential\"\nrun = 0\n");
    let expected = "a whole number from 1 to 1000000000";
    expect(&message, "5: [[workload]] #1: field `run`", "`0`", expected);
}

#[test]
fn with_too_big_a_block() {
    let start = "volume = \"v\"\nop = \"read\"\naccess = \"random\"\nblock = ";
    let at = "5: [[workload]] #1: field `block`";
    expect(&bare(&format!("{start}\"33MiB\"\n")), at, "`33MiB`", "a size from 512B to 32MiB");
    expect(&bare(&format!("{start}\"1000\"\n")), at, "`1000`", "a multiple of 512 bytes");
}

#[test]
fn with_a_block_larger_than_the_volume() {
    let small = VOLUME.replace("1GiB", "2KiB");
    let message = refused(&[DISK, &small], WORKLOAD);
    let expected = "at most 2KiB (the size of volume \"v\")";
    expect(&message, "5: [[workload]] #1: field `block`", "`4KiB`", expected);
}

#[test]
fn with_neither_a_closed_nor_an_open_loop() {
    let expected = "`outstanding` or `burst` (closed loops) or `rate` (an open loop)";
    let message = refused(&[DISK, VOLUME], WORKLOAD);
    expect(&message, "1: [[workload]] #1: field `outstanding`", "nothing", expected);
}

#[test]
fn with_both_a_closed_and_an_open_loop() {
    let message = workload("outstanding = 1\nrate = \"60/s\"\n");
    let expected = "one of `outstanding` or `burst` (closed loops) or `rate` (an open loop), \
                    and `outstanding` and `rate` are here";
    expect(&message, "2: [[workload]] #1: field `rate`", "`60/s`", expected);
}

#[test]
fn with_a_rate_out_of_range() {
    let at = "1: [[workload]] #1: field `rate`";
    let expected = "a rate above zero such as 60/s or 0.5/s";
    expect(&workload("rate = \"60\"\n"), at, "`60`", expected);
    expect(&workload("rate = \"0/s\"\n"), at, "`0/s`", expected);
    let expected = "a rate from one in 10000000s to one in 1us";
    expect(&workload("rate = \"2000000/s\"\n"), at, "`2000000/s`", expected);
}

#[test]
fn that_think_in_an_open_loop() {
    let message = workload("rate = \"60/s\"\nthink = \"1ms\"\n");
    let expected = "no such field, or `outstanding` or `burst` instead of `rate`";
    expect(&message, "2: [[workload]] #1: field `think`", "`1ms`", expected);
}

#[test]
fn with_think_times_that_are_none() {
    let at = "2: [[workload]] #1: field `think`";
    let expected = "a time from 0s to 10000000s, or { exponential = the mean }";
    let think = |value: &str| workload(&format!("outstanding = 1\nthink = {value}\n"));
    expect(&think("\"5\""), at, "`5`", expected);
    expect(&think("5"), at, "`5`", &format!("{expected}, in quotes"));
    let at = "2: [[workload]] #1: think: field `exponential`";
    expect(&think("{}"), at, "nothing", "the mean, a time such as 1ms");
    let expected = "a time from 1ns to 10000000s";
    expect(&think("{ exponential = \"0s\" }"), at, "`0s`", expected);
    expect(&think("{ exponential = \"10000001s\" }"), at, "`10000001s`", expected);
    let at = "2: [[workload]] #1: think: field `normal`";
    let expected = "one of the keys `exponential`";
    expect(&think("{ normal = \"1ms\" }"), at, "`normal`", expected);
}

#[test]
fn that_flush_without_waiting_for_each_write() {
    let at = "2: [[workload]] #1: field `flush_every`";
    let expected = "no such field, or op = \"write\" and outstanding = 1";
    expect(&workload("outstanding = 1\nflush_every = 1\n"), at, "`1`", expected);
    let write = WORKLOAD.replace("\"read\"", "\"write\"");
    let writing = |lines: &str| refused(&[DISK, VOLUME, &write], lines);
    expect(&writing("outstanding = 2\nflush_every = 1\n"), at, "`1`", expected);
    expect(&writing("rate = \"60/s\"\nflush_every = 1\n"), at, "`1`", expected);
    let expected = "a whole number from 1 to 1000000";
    expect(&writing("outstanding = 1\nflush_every = 0\n"), at, "`0`", expected);
}

#[test]
fn with_bursts_that_are_none() {
    let message = workload("outstanding = 2\nburst = 2\n");
    let expected = "one of `outstanding` or `burst` (closed loops) or `rate` (an open loop), \
                    and `outstanding` and `burst` are here";
    expect(&message, "2: [[workload]] #1: field `burst`", "`2`", expected);
    let at = "1: [[workload]] #1: field `burst`";
    let expected = "a whole number from 1 to 4096";
    expect(&workload("burst = 0\n"), at, "`0`", expected);
    expect(&workload("burst = 4097\n"), at, "`4097`", expected);
    expect(&workload("burst = \"8\"\n"), at, "`\"8\"`", &format!("{expected}, without quotes"));
}

#[test]
fn with_too_many_outstanding() {
    let expected = "a whole number from 1 to 4096";
    let at = "1: [[workload]] #1: field `outstanding`";
    expect(&workload("outstanding = 4097\n"), at, "`4097`", expected);
    expect(&workload("outstanding = 0\n"), at, "`0`", expected);
}

#[test]
fn that_stop_before_they_start() {
    let message = workload("outstanding = 1\nstart = \"5s\"\nstop = \"5s\"\n");
    let at = "3: [[workload]] #1: field `stop`";
    expect(&message, at, "`5s`", "a time after 5s (the start)");
}

#[test]
fn too_many() {
    let workloads = "[[workload]]\n".repeat(10_001);
    let at = "10001: field `workload`";
    expect(&error(&workloads).to_string(), at, "`10001`", "at most 10000 tables `[[workload]]`");
}

#[test]
fn with_more_in_flight_on_one_disk_than_its_engine_holds() {
    let load = "[[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\nblock = \
         \"4KiB\"\noutstanding = 4096\n";
    let message = refused(&[DISK, VOLUME], &load.repeat(129));
    let expected = "at most 0 (what is left of 524288 on its disk)";
    expect(&message, "774: [[workload]] #129: field `outstanding`", "`4096`", expected);
}
