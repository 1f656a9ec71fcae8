//! Runs protocol sessions with seeded hostile clients: `fuzz_session SEED CASES`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Vec<_> = std::env::args().skip(1).map(|text| text.parse::<u64>()).collect();
    let [Ok(seed), Ok(cases)] = numbers[..] else {
        eprintln!("usage: fuzz_session SEED CASES");
        return ExitCode::from(2);
    };
    println!("seed {seed}, {cases} cases");
    match spindle_nbd::fuzz::run(seed, cases) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}; to repeat:");
            eprintln!(
                "cargo run -p spindle-nbd --features fuzz --example fuzz_session -- {} 1",
                failure.seed
            );
            ExitCode::FAILURE
        }
    }
}
