//! Scenarios drawn from a seed: the seed draws the options too.
//!
//! A drawn scenario is text, as a person would have written it, so that one that breaks an oracle can be kept,
//! read, and run with `spindle sim run`.

use std::fmt::Write;
use std::path::Path;

use config::Plan;
use units::{Instant, Share};

use crate::{Dice, Report, World};

/// The stream of the dice that draw scenarios; workloads count from zero.
const STREAM: u64 = u64::MAX;

const DRIVES: [(&str, u64); 3] = [("deskstar-34gxp", 1), ("st318437lw", 8), ("hgst-7k8", 32)];

fn one_of<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.below(of.len() as u64)).expect("an index")]
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> String {
    let mut dice = Dice::new(seed, STREAM);
    let mut text = format!("seed = {seed}\nduration = \"{}s\"\n", 2 + dice.below(9));
    let disks = 1 + dice.below(2);
    for disk in 0..disks {
        draw_disk(&mut dice, &mut text, disk);
    }
    for disk in 0..disks {
        draw_volumes(&mut dice, &mut text, disk);
    }
    text
}

fn draw_disk(dice: &mut Dice, text: &mut String, disk: u64) {
    let (drive, depth_max) = one_of(dice, &DRIVES);
    let depth = if dice.chance(Share::from_percent(50)) { 1 } else { 1 + dice.below(depth_max) };
    let policy = if dice.chance(Share::from_percent(85)) { "utilization" } else { "fcfs" };
    let period = one_of(dice, &[200, 1_000, 1_000, 3_000]);
    let batch = one_of(dice, &[0, 50, 200]);
    let linger = one_of(dice, &[0, 1, 2, 10]);
    let random = one_of(dice, &["20ms", "5ms"]);
    let _ = write!(
        text,
        "\n[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\ndepth = {depth}\n\
         period = \"{period}ms\"\nbatch = \"{batch}ms\"\nlinger = \"{linger}ms\"\nestimate_random = \"{random}\"\n",
    );
}

fn draw_volumes(dice: &mut Dice, text: &mut String, disk: u64) {
    let mut left = 100;
    for volume in 0..=dice.below(6) {
        let name = format!("d{disk}v{volume}");
        let reserve = dice.below(left + 1);
        left -= reserve;
        let size = one_of(dice, &["1MiB", "64MiB", "2GiB"]);
        let _ = write!(
            text,
            "\n[[volume]]\nname = \"{name}\"\ndisk = \"d{disk}\"\nsize = \"{size}\"\nreserve = \"{reserve}%\"\n"
        );
        if dice.chance(Share::from_percent(30)) {
            let _ = writeln!(
                text,
                "limit = \"{}%\"",
                reserve.max(1) + dice.below(101 - reserve.max(1))
            );
        }
        for _ in 0..=dice.below(2) {
            draw_workload(dice, text, &name);
        }
    }
}

fn draw_workload(dice: &mut Dice, text: &mut String, volume: &str) {
    let op =
        one_of(dice, &["op = \"read\"", "op = \"write\"", "op = \"mix\"\nread_share = \"70%\""]);
    let block = one_of(dice, &["512B", "4KiB", "4KiB", "64KiB", "1MiB"]);
    let access = match dice.below(3) {
        0 => "access = \"random\"".to_owned(),
        1 => "access = \"sequential\"".to_owned(),
        _ => format!("access = \"sequential\"\nrun = {}", 1 + dice.below(2_000)),
    };
    let arrival = if dice.chance(Share::from_percent(25)) {
        format!("rate = \"{}/s\"", 1 + dice.below(100))
    } else {
        let think = one_of(dice, &["0ms", "0ms", "100us", "5ms", "300ms"]);
        format!("outstanding = {}\nthink = \"{think}\"", one_of(dice, &[1, 2, 16, 64]))
    };
    let start = dice.below(1_500);
    let _ = write!(
        text,
        "\n[[workload]]\nvolume = \"{volume}\"\n{op}\n{access}\nblock = \"{block}\"\n{arrival}\nstart = \"{start}ms\"\n"
    );
    if dice.chance(Share::from_percent(30)) {
        let _ = writeln!(text, "stop = \"{}ms\"", start + 1 + dice.below(5_000));
    }
}

/// Runs the scenario of a seed under every oracle.
///
/// # Panics
/// When an oracle does not hold; the text of the scenario goes before it on standard error.
pub fn run(seed: u64) -> Report {
    let text = scenario(seed);
    let plan = Plan::parse(&text, &format!("seed {seed}"), Path::new("."))
        .and_then(Plan::for_sim)
        .unwrap_or_else(|error| panic!("a drawn scenario is sound: {error}\n{text}"));
    let mut world = World::new(&plan);
    world.run_until(Instant::ZERO + plan.duration.expect("a drawn scenario says how long"));
    world.report()
}
