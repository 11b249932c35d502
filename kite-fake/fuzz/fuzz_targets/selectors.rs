//! See `tests/fuzz/selectors.rs`.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/fuzz/input.rs"]
mod input;
#[path = "../../tests/fuzz/selectors.rs"]
mod selectors;

libfuzzer_sys::fuzz_target!(|data: &[u8]| selectors::check(data));
