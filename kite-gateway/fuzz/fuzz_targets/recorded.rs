//! See `kite-gateway/src/fuzzing/recorded.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kite_gateway::fuzzing::recorded(data));
