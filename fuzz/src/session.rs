//! One NBD session whose client says what libFuzzer found. See `nbd::fuzz::run_input` for what
//! holds.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spindle_nbd::fuzz::run_input(input));
