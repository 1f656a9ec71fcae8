//! Windows of two seconds have the shares of volumes that keep many requests, however many of these
//! there are, and what slack is left is divided evenly.

use core::fmt::Write as _;
use std::path::Path;

use config::{Plan, VolumeIndex};
use spindle_sim::Simulation;
use units::{Duration, Instant};

const RANDOM: &str = "access = \"random\"\nblock = \"4KiB\"\noutstanding = 32\n";
const FEWER: &str = "access = \"random\"\nblock = \"4KiB\"\noutstanding = 16\n";
const LARGE: &str = "access = \"sequential\"\nblock = \"1MiB\"\noutstanding = 4\n";
const SMALL: &str = "access = \"sequential\"\nblock = \"4KiB\"\noutstanding = 4\n";

/// The reserve in percent, and the requests of each volume.
type Load = &'static [(u32, &'static str)];
const LOADS: [Load; 4] = [
    &[(40, RANDOM), (30, RANDOM), (20, LARGE), (0, RANDOM)],
    &[(50, RANDOM), (39, RANDOM), (10, SMALL)],
    &[(60, FEWER), (20, LARGE)],
    &[(30, RANDOM), (20, RANDOM), (0, RANDOM)],
];
const SECONDS: u32 = 60;
const WARM_UP: u32 = 5;
/// The samples in a second, and in a window.
const RATE: u32 = 100;
const WINDOW: usize = 2 * RATE as usize;

fn plan(drive: &str, chooser: &str, load: Load) -> Plan {
    let mut text = format!(
        "seed = 1\nduration = \"{SECONDS}s\"\n[[disk]]\nname = \"d0\"\ndrive = \"{drive}\"\n\
         policy = \"spindle\"\nchooser = \"{chooser}\"\n"
    );
    for (index, (reserve, requests)) in load.iter().enumerate() {
        let reserve = match reserve {
            0 => String::new(),
            percent => format!("reserve = \"{percent}%\"\n"),
        };
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d0\"\nsize = \"1500GiB\"\n{reserve}\
             [[workload]]\nvolume = \"v{index}\"\nop = \"read\"\n{requests}"
        )
        .expect("a string takes all");
    }
    let plan = Plan::parse(&text, "rounds.toml", Path::new(""));
    plan.and_then(Plan::for_sim).expect("a sound scenario")
}

/// The disk time of each volume at each sample, in seconds.
fn spent(drive: &str, chooser: &str, load: Load) -> Vec<Vec<f64>> {
    let mut simulation = Simulation::new(&plan(drive, chooser, load));
    let step = Duration::from_millis(1_000 / u64::from(RATE));
    let sample = |nth: u32| {
        simulation.run_until(Instant::ZERO + step * u64::from(nth));
        let time = |index| simulation.volume(VolumeIndex(index)).disk_time.as_secs_f64();
        (0..load.len()).map(time).collect()
    };
    (WARM_UP * RATE..=SECONDS * RATE).map(sample).collect()
}

/// The most that a volume lacks of its reserve in a window, in points.
fn missing(spent: &[Vec<f64>], volume: usize, reserve: u32) -> f64 {
    let share = |window: &[Vec<f64>]| (window[WINDOW][volume] - window[0][volume]) / 2.0 * 100.0;
    let missing = |window| f64::from(reserve) - share(window);
    spent.windows(WINDOW + 1).map(missing).fold(0.0, f64::max)
}

/// The most that a volume lacks of its reserve in a window, of all loads.
fn most_missing(drive: &str, chooser: &str) -> f64 {
    let mut most = 0.0_f64;
    for load in LOADS {
        let spent = spent(drive, chooser, load);
        let points: Vec<f64> = load
            .iter()
            .enumerate()
            .map(|(volume, (reserve, _))| missing(&spent, volume, *reserve))
            .collect();
        println!("{drive}, {chooser}: {points:.2?}");
        most = points.into_iter().fold(most, f64::max);
    }
    most
}

#[test]
fn several_reserves_have_their_shares_in_every_two_seconds() {
    for drive in ["hgst-7k8", "nearline-20t"] {
        let points = most_missing(drive, "predicted");
        assert!(points <= 2.0, "{points} points are missing on {drive}");
    }
}

#[test]
fn without_a_profile_several_reserves_have_their_shares_but_for_a_few_points() {
    for drive in ["hgst-7k8", "nearline-20t"] {
        let points = most_missing(drive, "sweep");
        assert!(points <= 4.0, "{points} points are missing on {drive}");
    }
}

#[test]
fn slack_goes_to_the_volume_that_had_least() {
    for chooser in ["predicted", "sweep"] {
        let spent = spent("hgst-7k8", chooser, LOADS[3]);
        let all = f64::from(SECONDS - WARM_UP);
        let shares: Vec<f64> = (0..3)
            .map(|volume| (spent[spent.len() - 1][volume] - spent[0][volume]) / all)
            .collect();
        println!("{chooser}: {shares:.3?}");
        for share in shares {
            assert!((0.30..=0.37).contains(&share), "{share} of the disk, not a third");
        }
    }
}
