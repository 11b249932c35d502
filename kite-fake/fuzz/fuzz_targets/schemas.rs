//! See `tests/fuzz/schemas.rs`.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/fuzz/input.rs"]
mod input;
#[path = "../../tests/fuzz/world.rs"]
mod world;
#[path = "../../tests/fuzz/schemas.rs"]
mod schemas;

libfuzzer_sys::fuzz_target!(|data: &[u8]| schemas::check(data));
