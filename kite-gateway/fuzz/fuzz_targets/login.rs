//! See `kite-gateway/src/fuzzing/login.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kite_gateway::fuzzing::login(data));
