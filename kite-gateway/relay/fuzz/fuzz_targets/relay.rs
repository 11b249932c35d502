//! See `kite-gateway/relay/src/relay/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kite_ssh_relay::fuzzing::relay(data));
