//! One NBD session whose client says what libFuzzer found. See `frontend::fuzz::run_input` for what holds.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spindle_frontend::fuzz::run_input(input));
