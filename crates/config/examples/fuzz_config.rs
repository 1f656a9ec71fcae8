//! Reads mutated configs until one breaks a promise: `fuzz_config SEED CASES`.
//!
//! The last line of a failure is the command that repeats it.

use std::panic::catch_unwind;
use std::process::ExitCode;

#[path = "../tests/mutate/mod.rs"]
mod mutate;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|text| text.parse().ok()).collect();
    let &[first, cases] = numbers.as_slice() else {
        eprintln!("usage: fuzz_config SEED CASES, two whole numbers");
        return ExitCode::from(2);
    };
    let mut refused = u64::from(mutate::check(mutate::GOOD));
    for seed in (0..cases).map(|case| first.wrapping_add(case)) {
        let text = mutate::mutated(seed);
        if let Ok(bad) = catch_unwind(|| mutate::check(&text)) {
            refused += u64::from(bad);
        } else {
            eprintln!("the config was:\n{text}");
            eprintln!("cargo run -p spindle-config --example fuzz_config -- {seed} 1");
            return ExitCode::FAILURE;
        }
    }
    println!("{cases} configs from seed {first} on: {refused} refused, {} read", cases - refused);
    ExitCode::SUCCESS
}
