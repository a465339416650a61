//! What came from a Secret, in whatever way and form, stands in no condition, Event, log line or status.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::{PERSON, condition};
use crate::support::operator::Probe;
use crate::support::packs::{deployment, secret, with_pod_annotation};
use crate::support::process::Process;
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

const VALUE: &str = r#"pa"ss\word1 x"#;
const OTHER: &str = r#"lo"oked\up2 y"#;
const PACKED: &str = "packed, and a Secret";
const HIDDEN: &str = "(from a Secret)";
const LOOKED_UP: &str = "{{ lookup('v1', 'Secret', '', 'sec').data.other | b64decode | tojson }}";

/// A ConfigMap of the later wave with this label, which the API server refuses and quotes.
fn labelled(label: &str) -> Pack {
    let template = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ release.name }}}}\n  labels:\n    a: {label}\n  \
         annotations:\n    sherpack.io/sync-wave: \"1\"\n"
    );
    Pack::new("labelled", "1.0.0").template("map.yaml", &template)
}

fn packs() -> Vec<(&'static str, Pack)> {
    let packed = format!("\"{PACKED}\"");
    vec![
        ("plain", labelled("{{ values.a | tojson }}")),
        ("twice", labelled("{{ (values.a | tojson) | tojson }}")),
        ("encoded", labelled("{{ values.a | b64encode | tojson }}")),
        ("within", labelled("{{ ('user:' ~ values.a ~ '@host') | b64encode | tojson }}")),
        ("looked-up", labelled(LOOKED_UP)),
        ("looked-up-raw", labelled("{{ lookup('v1', 'Secret', '', 'sec').data.other | tojson }}")),
        ("generated", labelled("{{ generate_secret('g', 80) }}")),
        ("of-a-secret", labelled(&packed).object(secret("made", json!({"p": PACKED})))),
        ("render", Pack::new("bad", "1.0.0").template("bad.yaml", "{% include generate_secret('h', 40) %}")),
        (
            "render-looked-up",
            Pack::new("bad", "1.0.0").template(
                "bad.yaml",
                &format!("{{% include {} %}}", &LOOKED_UP[3..].replace(" | tojson }}", "")),
            ),
        ),
    ]
}

fn spec() -> Value {
    let from = json!([{"kind": "Secret", "name": "sec", "key": "a", "targetPath": "a"}]);
    json!({"valuesFrom": from, "install": {"retries": 0}})
}

async fn secrets(h: &Harness) {
    h.objects.create(PERSON, secret("sec", json!({"a": VALUE, "other": OTHER}))).await;
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// Parts of the values, as they would be told by any form of them.
fn tells(text: &str) -> Option<&'static str> {
    let parts = [
        "word1",
        "ed\\up2",
        "up2 y",
        "and a Secret",
        "cGEic3Nc",
        "c3Ncd29yZ",
        "BhInNzXHdv",
        "bG8ib29rZWRcd",
        "cGFja2Vk",
        "pa%22",
    ];
    parts.into_iter().find(|part| text.contains(part))
}

fn told_by(requests: &[Request]) -> Vec<String> {
    let about = |request: &&Request| request.is_about("sherpackreleases") || request.is_about("events");
    let told = requests.iter().filter(about).filter(|request| request.is_write());
    told.map(|request| request.body.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_form_of_a_secret_value_is_told_wherever_it_came_from() {
    let h = Harness::new("secret-words").await;
    secrets(&h).await;
    for (name, pack) in packs() {
        h.apply(name, &pack, spec()).await;
    }
    for (name, _) in packs() {
        let told = h
            .sees(&format!("SherpackRelease/{name}"), |release| {
                condition(release, "Ready")["status"] == "False" && message(release).contains(HIDDEN)
            })
            .await;
        assert_eq!(tells(&told.to_string()), None, "{name}: {told}");
        // What it says besides is there.
        let says = if name.starts_with("render") { "bad.yaml" } else { "metadata.labels" };
        assert!(message(&told).contains(says), "{name}: {}", message(&told));
    }
    let requests = h.wire.since(0);
    let generated = requests.iter().find_map(|request| {
        let map = request.is_about("configmaps/generated");
        request.body.pointer("/metadata/labels/a").filter(|_| map)?.as_str()
    });
    let generated = generated.expect("it was sent").to_owned();
    assert_eq!(generated.len(), 80);
    for text in told_by(&requests) {
        assert_eq!(tells(&text), None, "{text}");
        assert!(!text.contains(&generated), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_tell_no_form_of_a_secret_value() {
    let h = Harness::without_operator("secret-logs").await;
    secrets(&h).await;
    let process = Process::start(&h, "trace").await;
    Probe(process.address).ready().await;
    for (name, pack) in packs() {
        h.apply(name, &pack, spec()).await;
    }
    for (name, _) in packs() {
        h.sees(&format!("SherpackRelease/{name}"), |release| message(release).contains(HIDDEN)).await;
    }
    eventually("an Event tells of it", async || {
        let events = h.objects.list("Event", "").await;
        events.iter().any(|event| event.to_string().contains(HIDDEN))
    })
    .await;
    for event in h.objects.list("Event", "").await {
        assert_eq!(tells(&event.to_string()), None, "{event}");
    }
    let (code, lines) = process.stop().await;
    assert_eq!(code, Some(0));
    assert!(lines.len() > packs().len());
    for line in lines {
        let line = line.to_string();
        assert_eq!(tells(&line).or_else(|| tells(&line.replace("\\\\", "\\"))), None, "{line}");
    }
}

/// A wave later the values of this render are still known; to the next process they are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_pass_knows_what_was_rendered_and_the_next_process_shows_no_words_about_bodies() {
    for restarts in [false, true] {
        let h = Harness::new(if restarts { "secret-waves-restart" } else { "secret-waves" }).await;
        secrets(&h).await;
        let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
        h.apply("web", &labelled(LOOKED_UP).object(slow), spec()).await;
        h.sees("Deployment/slow", |_| true).await;
        h.condition("web", "Reconciling", "True", None).await;
        if restarts {
            h.start();
            h.operator_ready().await;
        }
        h.heal("Deployment/slow").await;
        let about = if restarts { "refused (422 Invalid) about metadata.labels" } else { HIDDEN };
        let told = h.sees("SherpackRelease/web", |release| message(release).contains(about)).await;
        assert_eq!(tells(&told.to_string()), None, "{told}");
        let shown = !message(&told).contains("is not shown");
        assert_eq!(shown, !restarts, "{}", message(&told));
        for text in told_by(&h.wire.since(0)) {
            assert_eq!(tells(&text), None, "{text}");
        }
    }
}

/// A lock reads no values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_server_says_of_a_body_of_a_lock_is_not_shown() {
    let h = Harness::new("secret-lock").await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"a": VALUE}}});
    let release = json!({
        "name": "web", "namespace": h.namespace, "version": 1, "info": {"status": "deployed"},
        "chart": {"metadata": {"name": "web", "version": "1.0.0"}}, "config": {}, "manifest": map.to_string(),
    });
    let record = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.web.v1",
            "labels": {"owner": "helm", "name": "web", "status": "deployed", "version": "1"}},
        "stringData": {"release": STANDARD.encode(release.to_string())},
    });
    h.objects.create(PERSON, record).await;
    h.release("web", json!({"lock": {"helmRelease": {"name": "web"}}})).await;
    let told = h.condition("web", "Ready", "False", Some("ObjectInvalid")).await;
    assert!(
        message(&told).contains("refused (422 Invalid) about metadata.labels")
            && message(&told).contains("is not shown"),
        "{}",
        message(&told)
    );
    for text in told_by(&h.wire.since(0)) {
        assert_eq!(tells(&text), None, "{text}");
    }
}
