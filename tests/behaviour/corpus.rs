//! What the fuzzer found worth keeping, tried again with every test run. See `fuzz/README.md`.

#[path = "../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, dead_code)]
mod targets;

use std::path::Path;

#[test]
fn the_kept_inputs_of_the_fuzzer_harm_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let mut inputs = 0;
        for entry in std::fs::read_dir(corpus.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            if std::panic::catch_unwind(|| target(&bytes)).is_err() {
                panic!("{} breaks what must hold", path.display());
            }
            inputs += 1;
        }
        assert!(inputs >= 5, "{name} has {inputs} inputs: the corpus is lost");
    }
}
