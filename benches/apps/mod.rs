//! 50 templates that print 200 apps, 22 kB in all.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sherpack_operator::pack::render::{self, Capabilities, Input, Lookup, NoCluster, Secrets, Source, Stop};
use sherpack_operator::pack::{self, Files, Limits, Pack};

const TEMPLATES: usize = 50;
const APPS: usize = 200;

pub(super) fn sample() -> (Pack, Value) {
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

pub(super) fn with_input<T>(values: &Value, work: impl FnOnce(&Input<'_>) -> T) -> T {
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
        secrets: Source { kept: &Secrets::new(), random: &[7; 32], made: None },
        lookup: &(Arc::new(NoCluster) as Arc<dyn Lookup>),
        stop: &Stop::default(),
    })
}

pub(super) fn text(pack: &Pack, values: &Value) -> Vec<String> {
    with_input(values, |input| render::texts(pack, input).expect("texts"))
}
