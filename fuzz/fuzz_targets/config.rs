#![no_main]

#[path = "../checks.rs"]
#[allow(dead_code, reason = "each fuzzer tries one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| checks::config(text));
