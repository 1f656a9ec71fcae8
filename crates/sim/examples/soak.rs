//! Generated scenarios under every oracle: `cargo run --release -p spindle-sim --example soak --
//! FROM COUNT`.

use spindle_sim::seeds;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(Ok(from)), Some(Ok(count)), None) = (numbers.next(), numbers.next(), numbers.next())
    else {
        eprintln!("usage: soak FROM COUNT: the first seed, and the number of seeds");
        std::process::exit(2);
    };
    let scratch = tempfile::TempDir::new().expect("a scratch directory");
    let (mut answered, mut promises, mut worths) = (0, 0, 0);
    for seed in from..from.saturating_add(count) {
        let run = std::panic::catch_unwind(|| seeds::run(seed, scratch.path()));
        let Ok(report) = run else {
            eprintln!("{}", seeds::scenario(seed));
            eprintln!("repeat with: cargo run --release -p spindle-sim --example soak -- {seed} 1");
            std::process::exit(1);
        };
        answered += report.oracles.answered;
        promises += report.oracles.promises_checked;
        worths += report.oracles.worths_checked;
        for (name, _) in seeds::scenario(seed).traces {
            std::fs::remove_file(scratch.path().join(name)).expect("it was written");
        }
    }
    println!(
        "{count} scenarios from seed {from} on: {answered} requests, {promises} checks of \
         reserves, {worths} of them of clients that had paused, every oracle held"
    );
}
