//! Values that do not fit the schema of a pack, and schemas that cannot be used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

const SCHEMA: &str =
    "type: object\nproperties: {color: {type: string, enum: [blue, green]}, mode: {default: fast}}\n";

fn pack(schema: &str) -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "{{ values.color }}", "mode": "{{ values.mode }}"})))
        .object(deployment("web", 0))
        .values("color: blue\n")
        .file("values.schema.yaml", schema)
}

/// A release of a pack that the tool which writes archives refuses.
async fn apply_refused(h: &Harness, name: &str, pack: &Pack) {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, content) in &pack.files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &content[..]).unwrap();
    }
    let archive = STANDARD.encode(builder.into_inner().unwrap().finish().unwrap());
    let stored = format!("{name}-pack");
    let body = json!({"binaryData": {"pack.tgz": archive}});
    h.objects.server_side_apply(&format!("ConfigMap/{stored}"), "test-person", body).await;
    h.release(name, json!({"pack": {"configMap": {"name": stored}}})).await;
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_do_not_fit_are_refused_the_release_stays_locked_and_recovers() {
    let h = Harness::new("schema-values").await;
    h.deploy("web", &pack(SCHEMA), json!({})).await;
    h.shows("ConfigMap/settings", "/data/mode", "fast").await;

    h.edit_spec("web", json!({"values": {"color": ["s3cret"]}})).await;
    let held = h.condition("web", "Ready", "False", Some("ValuesInvalid")).await;
    let said = message(&held);
    assert!(said.contains("`color` must be a string") && said.contains("values.schema.yaml"), "{said}");
    assert!(!held["status"].to_string().contains("s3cret"), "the value is not shown: {held}");
    assert_eq!(condition(&held, "Stalled")["status"], "True");
    assert_eq!(condition(&held, "Released")["status"], "True", "{held}");
    eventually("an Event tells of it", async || !h.events("web", "ValuesInvalid").await.is_empty()).await;
    h.shows_states("web", &["1 deployed"]).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;

    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_refers_to_elsewhere_is_refused_and_nothing_is_fetched() {
    let h = Harness::new("schema-references").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let packs = [
        ("http", "SchemaReferenceRefused", format!("type: object\n$ref: {http}\n")),
        (
            "file",
            "SchemaReferenceRefused",
            "type: object\nproperties: {a: {$ref: 'file:///etc/passwd'}}\n".to_owned(),
        ),
        ("broken", "SchemaInvalid", "type: object\nproperties: {a: {type: nothing}}\n".to_owned()),
    ];
    for (name, reason, schema) in &packs {
        apply_refused(&h, name, &pack(schema)).await;
        let held = h.condition(name, "Ready", "False", Some(reason)).await;
        assert!(message(&held).contains("values.schema.yaml"), "{held}");
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{held}");
        eventually("an Event tells of it", async || !h.events(name, reason).await.is_empty()).await;
        assert_eq!(h.records(name).await.len(), 0, "{name}");
    }
    let nobody = tokio::time::timeout(std::time::Duration::from_millis(200), listener.accept()).await;
    assert!(nobody.is_err(), "somebody asked for the schema");
    h.pack("http-pack", &pack(SCHEMA)).await;
    h.ready("http").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_takes_forever_hurts_only_its_own_release() {
    let h = Harness::new("schema-hostile").await;
    let mut schema = String::from("type: object\n$ref: '#/definitions/d0'\ndefinitions:\n");
    for index in 0..60 {
        let next = format!("{{$ref: '#/definitions/d{}'}}", index + 1);
        schema.push_str(&format!("  d{index}: {{allOf: [{next}, {next}]}}\n"));
    }
    schema.push_str("  d60: true\n");
    h.apply("hostile", &pack(&schema), json!({})).await;
    let held = h.condition("hostile", "Ready", "False", Some("RenderLimit")).await;
    assert!(message(&held).contains("too much work"), "{held}");
    h.deploy("web", &pack(SCHEMA), json!({})).await;
}
