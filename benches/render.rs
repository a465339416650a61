//! How long rendering takes: `make bench`.

#![allow(clippy::expect_used)]

mod apps;

use apps::{sample, text, with_input};
use divan::Bencher;
use divan::counter::BytesCount;
use sherpack_operator::pack::render;

/// As in what ships.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// The templates to text, compiled before. The published engine takes 0.40 ms when its values are converted before, too.
#[divan::bench]
fn text_compiled_once(bencher: Bencher<'_, '_>) {
    let (pack, values) = sample();
    let bytes: usize = text(&pack, &values).iter().map(String::len).sum();
    bencher.counter(BytesCount::new(bytes)).bench(|| text(&pack, &values));
}

/// The same from the files: 1.5 ms for the published engine.
#[divan::bench]
fn text_from_files(bencher: Bencher<'_, '_>) {
    let (_, values) = sample();
    bencher.with_inputs(|| sample().0).bench_values(|pack| text(&pack, &values));
}

/// What the operator does: from the compiled templates to parsed objects, on a thread of their own.
#[divan::bench]
fn objects_compiled_once(bencher: Bencher<'_, '_>) {
    let (pack, values) = sample();
    bencher.bench(|| with_input(&values, |input| render::render(&pack, input).expect("objects")));
}
