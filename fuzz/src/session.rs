//! One NBD session whose client sends the fuzzer's input. See `spindle_nbd::fuzz::run_input` for
//! the properties that are checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spindle_nbd::fuzz::run_input(input));
