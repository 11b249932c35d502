//! See `tests/fuzz/surface.rs`.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/fuzz/input.rs"]
mod input;
#[path = "../../tests/fuzz/world.rs"]
mod world;
#[path = "../../tests/fuzz/surface.rs"]
mod surface;

libfuzzer_sys::fuzz_target!(|data: &[u8]| surface::check(data));
