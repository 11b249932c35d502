//! See `kite-gateway/src/fuzzing/transport.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kite_gateway::fuzzing::transport(data));
