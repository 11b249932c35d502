//! See `kite-gateway/relay/src/fuzzing/transport.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kite_ssh_relay::fuzzing::transport(data));
