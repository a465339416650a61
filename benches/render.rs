//! Speed and memory of rendering: `make bench`. `max alloc` is the most memory that one render holds at a time.
//!
//! The pack: 50 templates that print 200 apps, 22 kB in all.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher};
use jiff::Timestamp;
use serde_json::{Value, json};
use sherpack_operator::pack::{self, Files, Limits, Pack};
use sherpack_operator::render::{self, Capabilities, Input, Lookup, NoCluster, Secrets, Source, Stop};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const TEMPLATES: usize = 50;
const APPS: usize = 200;

fn main() {
    divan::main();
}

fn sample() -> (Pack, Value) {
    let mut files = Files::from([(
        "Pack.yaml".to_owned(),
        b"apiVersion: sherpack/v1\nmetadata: {name: apps, version: 1.0.0}\n".to_vec(),
    )]);
    let each = APPS / TEMPLATES;
    for index in 0..TEMPLATES {
        let (from, to) = (index * each, (index + 1) * each);
        let text = format!(
            "{{% for app in values.apps[{from}:{to}] -%}}\n---\n{{% if app.enabled %}}apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ release.name }}}}-{{{{ app.name }}}}\ndata:\n  image: {{{{ app.image.repository ~ \":\" ~ app.image.tag | default(\"latest\") | quote }}}}\n{{% endif %}}{{% endfor %}}\n"
        );
        files.insert(format!("templates/{index:02}.yaml"), text.into_bytes());
    }
    let apps: Vec<Value> = (0..APPS)
        .map(|index| {
            json!({"name": format!("app-{index}"), "enabled": true, "replicas": 2,
                   "image": {"repository": format!("registry.example.com/app-{index}"), "tag": "1.2.3"}})
        })
        .collect();
    let pack = pack::from_files(files, &Limits::default()).expect("a pack");
    (pack, json!({"apps": apps}))
}

fn with_input<T>(values: &Value, work: impl FnOnce(&Input<'_>) -> T) -> T {
    let capabilities = Capabilities { kube_version: "v1.33.0".to_owned(), api_versions: Vec::new() };
    work(&Input {
        release_name: "web",
        namespace: "apps",
        revision: 1,
        is_upgrade: false,
        values,
        capabilities: &capabilities,
        now: Timestamp::UNIX_EPOCH,
        seed: "",
        secrets: Source { kept: &Secrets::new(), random: &[7; 32] },
        lookup: &(Arc::new(NoCluster) as Arc<dyn Lookup>),
        stop: &Stop::default(),
    })
}

/// The templates to text, compiled before: 0.40 ms is what the published engine takes for this.
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

fn text(pack: &Pack, values: &Value) -> Vec<String> {
    with_input(values, |input| render::texts(pack, input).expect("texts"))
}
