#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kimi_agent_protocol::fuzzing::shapes(data));
