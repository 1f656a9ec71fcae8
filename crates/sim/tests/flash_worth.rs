//! The worth of reserves on flash, where requests of different lengths are in the drive together.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::worth;
use stats::WorthReport;

const SATA: &str = "samsung-870evo-1t";
const NVME: &str = "intel-p4500-2t";

/// A client with this many requests of this length outstanding.
fn client(op: &str, access: &str, block: &str, outstanding: u32) -> String {
    format!(
        "op = \"{op}\"\naccess = \"{access}\"\nblock = \"{block}\"\noutstanding = {outstanding}\n"
    )
}

/// Volumes with reserves of these percentages, and their clients.
fn plan(drive: &str, clients: &[(u32, &str)]) -> Plan {
    let mut text = format!("duration = \"2s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n");
    for (index, (percent, workload)) in clients.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\ndisk = \"d\"\nsize = \"100GiB\"\n\
             reserve = \"{percent}%\"\n[[workload]]\nvolume = \"v{index}\"\n{workload}\n"
        )
        .expect("a string takes all");
    }
    Plan::parse(&text, "plan.toml", Path::new("")).expect("a sound scenario")
}

/// What the reserves are worth to their clients.
fn worths(drive: &str, clients: &[(u32, &str)]) -> Vec<WorthReport> {
    let plan = plan(drive, clients);
    let warm_up = worth::default_warm_up(plan.duration.expect("a length"));
    worth::worths(&plan, warm_up).into_iter().map(|worth| worth.expect("a reserve")).collect()
}

/// The requests a second of each client.
fn rates(drive: &str, clients: &[(u32, &str)]) -> Vec<f64> {
    let plan = plan(drive, clients);
    let warm_up = worth::default_warm_up(plan.duration.expect("a length"));
    worth::measure(&plan, warm_up).into_iter().map(|measured| measured.rate).collect()
}

#[test]
fn half_of_a_flash_drive_is_worth_half_beside_requests_of_any_length() {
    let clients = [
        client("read", "random", "4KiB", 32),
        client("read", "random", "4KiB", 4),
        client("read", "random", "128KiB", 16),
        client("read", "random", "128KiB", 1),
        client("read", "sequential", "1MiB", 4),
        client("write", "random", "4KiB", 32),
        client("write", "random", "128KiB", 16),
        client("write", "random", "128KiB", 1),
    ];
    for (index, one) in clients.iter().enumerate() {
        for other in &clients[index..] {
            for worth in worths(SATA, &[(50, one), (50, other)]) {
                assert!(worth.value >= 0.9, "{one}beside\n{other}{worth:?}");
            }
        }
    }
}

#[test]
fn a_fifth_is_a_fifth_where_both_keep_many_long_requests() {
    let long = client("read", "random", "128KiB", 16);
    for drive in [SATA, NVME] {
        for worth in worths(drive, &[(80, &long), (20, &long)]) {
            assert!(worth.value >= 0.95, "{drive}: {worth:?}");
        }
    }
}

#[test]
fn a_client_that_pauses_has_its_worth_beside_long_requests() {
    let pausing = client("read", "random", "4KiB", 1) + "think = { exponential = \"1ms\" }\n";
    for access in ["random", "sequential"] {
        let long = client("read", access, "1MiB", 4);
        let worths = worths(SATA, &[(50, &pausing), (50, &long)]);
        assert!(worths[0].value >= 0.85, "{access}: {:?}", worths[0]);
        assert!(worths[1].value >= 1.5, "{access}: what it leaves: {:?}", worths[1]);
    }
}

#[test]
fn each_of_five_clients_has_its_worth() {
    let clients = [
        client("read", "random", "128KiB", 16),
        client("read", "random", "128KiB", 1),
        client("read", "random", "4KiB", 1) + "think = { exponential = \"1ms\" }\n",
        client("read", "sequential", "1MiB", 4),
        client("write", "random", "128KiB", 16),
    ];
    let worths = worths(SATA, &clients.each_ref().map(|client| (20, client.as_str())));
    // The one that pauses waits for a command of each of the others.
    let least = [0.9, 0.9, 0.7, 0.9, 0.9];
    for (worth, least) in worths.iter().zip(least) {
        assert!(worth.value >= least, "{worth:?}");
    }
}

#[test]
fn a_volume_has_its_share_of_a_full_drive_beside_one_read_at_a_time() {
    let single = client("read", "random", "4KiB", 1);
    // The drive, the requests outstanding, their reserve, and the least of its rate alone that the
    // other client has.
    let cases = [(SATA, 32, 50, 0.9), (SATA, 32, 80, 0.83), (NVME, 256, 50, 0.75)];
    for (drive, outstanding, percent, least) in cases {
        let many = client("read", "random", "4KiB", outstanding);
        let [all, alone] = [&many, &single].map(|client| rates(drive, &[(100, client)])[0]);
        let both = rates(drive, &[(percent, &many), (100 - percent, &single)]);
        let share = f64::from(percent) / 100.0;
        assert!(both[0] >= 0.93 * share * all, "{drive}, {percent} % of {all}: {both:?}");
        assert!(both[1] >= least * alone, "{drive}, {percent} % of {all}, {alone}: {both:?}");
    }
}

#[test]
fn a_share_is_kept_beside_long_requests_and_one_read_at_a_time() {
    let (many, long) =
        (client("read", "random", "4KiB", 32), client("read", "random", "128KiB", 16));
    let [all, all_long] = [&many, &long].map(|client| rates(SATA, &[(100, client)])[0]);
    let single = client("read", "random", "4KiB", 1);
    let rates = rates(SATA, &[(40, &many), (40, &long), (20, &single)]);
    assert!(rates[0] >= 0.8 * 0.4 * all, "of {all}: {rates:?}");
    assert!(rates[1] >= 0.95 * 0.4 * all_long, "of {all_long}: {rates:?}");
}
