//! Drives whose FUA is not used: one flush ends the forced writes of a volume.

use config::Plan;

use self::writers::{DATABASE, LARGE_WRITES, RANDOM_WRITES, READER};

#[path = "common/writers.rs"]
mod writers;

/// A disk with this way past its write cache, and volumes, each with its contract and its workload.
fn plan(size: &str, (drive, way): (&str, &str), volumes: &[(&str, &str)]) -> Plan {
    let disk = format!("drive = \"{drive}\"\nwrite_cache = \"{way}\"");
    writers::plan(&disk, size, volumes)
}

/// The rate of each volume's requests, the percentage of the disk's time that it had, and the 99th
/// percentile in ms, behind the time in which the buffers fill.
fn rates(plan: &Plan) -> Vec<(f64, f64, f64)> {
    let (rates, report) = writers::rates(plan);
    let both = rates.into_iter().zip(report.volumes);
    both.map(|(rate, volume)| (rate, 100.0 * volume.disk_time_share, volume.latency_ms.p99))
        .collect()
}

#[test]
fn random_destages_with_flushes_are_nearly_as_fast_as_forced_ones() {
    let drives = [
        ("hgst-7k8", "100GiB", 0.85),
        ("hgst-7k8", "7000GiB", 0.85),
        ("nearline-20t", "17000GiB", 0.85),
        // A flush costs it 17 ms beside the write.
        ("barracuda-2t", "1500GiB", 0.4),
    ];
    for (drive, size, least) in drives {
        let rate = |way| rates(&plan(size, (drive, way), &[("", RANDOM_WRITES)]))[0].0;
        let [forced, off, flushed] = ["forced", "off", "flushed"].map(rate);
        println!("{drive}, {size}: {forced:.1} forced, {off:.1} off, {flushed:.1} flushed");
        assert!(flushed >= least * forced, "{drive}: {flushed} of {forced}");
    }
}

#[test]
fn a_limit_holds_where_flushes_make_the_writes_durable() {
    for limit in [10_u8, 30, 60] {
        let contract = format!("limit = \"{limit}%\"");
        let plan = plan("100GiB", ("hgst-7k8", "flushed"), &[(&contract, RANDOM_WRITES)]);
        let (rate, time, _) = rates(&plan)[0];
        println!("{rate:.1} a second in {time:.1} % at {limit} %");
        assert!((time - f64::from(limit)).abs() <= 1.0, "{time} % at {limit} %");
    }
}

#[test]
fn flushes_are_in_the_time_of_the_volume_that_wrote() {
    for neighbour in [RANDOM_WRITES, LARGE_WRITES] {
        for (client, share) in [(DATABASE, 30), (READER, 50)] {
            let own = format!("reserve = \"{share}%\"");
            let rest = format!("reserve = \"{}%\"", 100 - share);
            let volumes = [(own.as_str(), client), (rest.as_str(), neighbour)];
            let of = |way| rates(&plan("100GiB", ("hgst-7k8", way), &volumes));
            let (forced, flushed) = (of("forced"), of("flushed"));
            println!("{forced:.1?} forced, {flushed:.1?} flushed: {client} beside {neighbour}");
            for ((forced, _, _), (flushed, time, p99)) in forced.iter().zip(&flushed).take(1) {
                assert!(*flushed >= 0.95 * forced, "{flushed} of {forced}: {client}");
                assert!((time - f64::from(share)).abs() <= 1.0, "{time} %: {client}");
                assert!(*p99 <= 120.0, "{p99} ms: {client}");
            }
            assert!(flushed[1].0 >= 0.8 * forced[1].0, "{flushed:?} of {forced:?}: {neighbour}");
        }
    }
}
