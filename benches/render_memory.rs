//! How much memory rendering takes: `make bench`. Of `max alloc`, the bytes are the most that one render holds at a time.
//! Apart from the times, which counting makes longer.

#![allow(clippy::expect_used)]

#[allow(dead_code)]
mod apps;

use apps::{sample, text};
use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

#[divan::bench]
fn text_compiled_once(bencher: Bencher<'_, '_>) {
    let (pack, values) = sample();
    text(&pack, &values);
    bencher.bench(|| text(&pack, &values));
}
