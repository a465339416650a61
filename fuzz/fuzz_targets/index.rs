#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sherpack_operator_fuzz::index::index(bytes));
