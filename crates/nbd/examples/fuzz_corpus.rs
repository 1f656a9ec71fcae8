//! Writes the seeded generator's streams as the fuzzer's initial corpus: `fuzz_corpus DIRECTORY
//! COUNT`.

use std::path::Path;
use std::process::ExitCode;

/// Longer inputs slow the fuzzer down and add little coverage.
const INPUT_BYTES_MAX: usize = 16 << 10;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [directory, count] = &arguments[..] else {
        eprintln!("usage: fuzz_corpus DIRECTORY COUNT");
        return ExitCode::from(2);
    };
    let Ok(count) = count.parse::<u64>() else {
        eprintln!("found `{count}`, expected how many inputs");
        return ExitCode::from(2);
    };
    for seed in 0..count {
        let mut input = seed.to_be_bytes().to_vec();
        input.extend(spindle_nbd::fuzz::stream(seed));
        input.truncate(INPUT_BYTES_MAX);
        if let Err(error) = std::fs::write(Path::new(directory).join(format!("seed-{seed}")), input)
        {
            eprintln!("{directory}: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
