//! See `tests/fuzz/apply.rs`.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/fuzz/input.rs"]
mod input;
#[path = "../../tests/fuzz/world.rs"]
mod world;
#[path = "../../tests/fuzz/apply.rs"]
mod apply;

libfuzzer_sys::fuzz_target!(|data: &[u8]| apply::check(data));
