//! See `tests/fuzz/patches.rs`.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/fuzz/input.rs"]
mod input;
#[path = "../../tests/fuzz/patches.rs"]
mod patches;

libfuzzer_sys::fuzz_target!(|data: &[u8]| patches::check(data));
