//! What templates may ask for, against a cluster: secrets that last, objects that are looked up, and mistakes that harm nobody.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, secret};
use crate::support::wait::eventually;
use crate::support::{Effect, Fault, Harness, Pack};

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

fn password(secret: &Value) -> String {
    secret["data"]["password"].as_str().unwrap_or_default().to_owned()
}

fn with_password(version: &str, length: u32) -> Pack {
    let text = format!("{{{{ generate_secret('db', {length}) }}}}");
    Pack::new("web", version)
        .object(secret("db", json!({"password": text, "version": version})))
        .object(config_map("made", json!({"at": "{{ now() }}", "id": "{{ uuidv4() }}"})))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_secret_stays_over_upgrades_failures_and_restarts_and_is_shown_nowhere() {
    let h = Harness::new("generated-secret").await;
    h.deploy("web", &with_password("1.0.0", 24), json!({})).await;
    let first = password(&h.objects.get("Secret/db").await);
    let made = h.objects.get("ConfigMap/made").await;
    assert_eq!(first.len(), 32, "24 letters in base64");

    h.stop().await;
    h.start();
    h.deploy("web", &with_password("1.1.0", 40), json!({})).await;
    let second = h.objects.get("Secret/db").await;
    assert_eq!(password(&second), first, "the length of a later version does not count");
    assert_ne!(h.objects.get("ConfigMap/made").await["data"]["id"], made["data"]["id"], "another revision");

    // A revision that fails keeps it for the next one, also when the first try of a new secret is in it.
    let token = "{{ generate_secret('token', 10, 'hex') }}";
    let next = |version| with_password(version, 24).object(config_map("token", json!({"token": token})));
    h.wire.fault(Fault::on_writes(Effect::Answer(403), "configmaps/made"));
    h.pack("web-pack", &next("1.2.0")).await;
    h.condition("web", "Ready", "False", Some("Forbidden")).await;
    let failed = h.objects.find("ConfigMap/token").await.map(|map| map["data"]["token"].clone());
    h.wire.heal();
    h.deploy("web", &next("1.2.1"), json!({})).await;
    assert_eq!(password(&h.objects.get("Secret/db").await), first);
    let token = h.objects.get("ConfigMap/token").await["data"]["token"].clone();
    assert_eq!(token.as_str().map(str::len), Some(10));
    assert_eq!(failed.unwrap_or_else(|| token.clone()), token);

    // What drifts is put back to the same value.
    h.objects.edit("Secret/db", "kubectl-edit", json!({"data": {"password": "eA=="}})).await;
    h.shows("Secret/db", "/data/password", first.as_str()).await;
    let shown = h.objects.get("SherpackRelease/web").await.to_string();
    let clear = String::from_utf8(base64_decoded(&first)).unwrap();
    assert!(!shown.contains(&clear) && !shown.contains(&first));
}

fn base64_decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn looking(template: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("seen", json!({"seen": template})))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookup_sees_objects_of_the_own_namespace_and_is_refused_the_rest() {
    let h = Harness::new("lookup").await;
    h.objects.create("test-person", config_map("there", json!({"color": "green"}))).await;
    for name in ["listed-a", "listed-b"] {
        h.objects.create("test-person", secret(name, json!({"x": "y"}))).await;
    }
    let template = "{{ lookup('v1', 'ConfigMap', '', 'there').data.color }} {{ lookup('v1', 'ConfigMap', release.namespace, 'no') }} \
        {{ lookup('v1', 'Secret', '', '')['items'] | map(attribute='metadata.name') | select('startingwith', 'listed') | join(' ') }}";
    h.deploy("web", &looking(template), json!({})).await;
    h.shows("ConfigMap/seen", "/data/seen", "green {} listed-a listed-b").await;

    for (template, reason, part) in [
        (
            "{{ lookup('v1', 'ConfigMap', 'kube-system', 'x') }}",
            "LookupForbidden",
            "--allow-lookup=kube-system",
        ),
        ("{{ lookup('v1', 'Node', '', '') }}", "LookupForbidden", "--allow-lookup='*'"),
        ("{{ lookup('example.com/v1', 'Nope', '', 'x') }}", "UnknownKind", "example.com/v1 Nope"),
        (
            "{{ lookup('v1', 'Secret', '', 'sherpack-operator-record-key') }}",
            "LookupForbidden",
            "the operator's alone",
        ),
    ] {
        h.pack("web-pack", &looking(template)).await;
        let told = h
            .sees("SherpackRelease/web", |release| {
                condition(release, "Ready")["reason"] == reason && message(release).contains(part)
            })
            .await;
        assert!(message(&told).starts_with("templates/001.yaml:4: lookup of "), "{told}");
        assert_eq!(h.objects.get("ConfigMap/seen").await["data"]["seen"], "green {} listed-a listed-b");
    }
    // The API server refuses, and does so no longer.
    h.wire.fault(Fault::new(Effect::Answer(403), |request| {
        request.verb == "get" && request.is_about("configmaps/there")
    }));
    h.pack("web-pack", &looking("now {{ lookup('v1', 'ConfigMap', '', 'there').data.color }}")).await;
    let told = h.sees("SherpackRelease/web", |release| message(release).contains("(403 ")).await;
    assert_eq!(condition(&told, "Ready")["reason"], "LookupForbidden", "{told}");
    h.wire.heal();
    h.annotate("web", "sherpack.io/reconcile-at", "now").await;
    h.shows("ConfigMap/seen", "/data/seen", "now green").await;
    h.ready("web").await;
}

/// A template that cannot be rendered, the reason that it ends in, and a part of the message.
const HOSTILE: [(&str, &str, &str, &str); 6] = [
    ("error", "{{ values.image.tag }}", "RenderFailed", "`values.image` is not set"),
    ("fail", "{{ fail('set values.x') }}", "RenderFailed", "set values.x"),
    (
        "loop",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "RenderLimit",
        "an endless loop?",
    ),
    ("recursion", "{{ tpl(values.me) }}", "RenderLimit", "levels deep"),
    ("repeat", "{{ 'a' | repeat(1073741824) }}", "RenderLimit", "larger than 16 MiB"),
    ("syntax", "{% if %}", "RenderFailed", "syntax error"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_template_is_named_and_what_is_deployed_stays_locked_until_it_is_mended() {
    let h = Harness::new("hostile-template").await;
    let good = |version: &str| {
        Pack::new("web", version)
            .values("me: \"{{ tpl(values.me) }}\"\n")
            .object(config_map("first", json!({"version": version})))
    };
    for (index, (name, template, reason, part)) in HOSTILE.iter().enumerate() {
        let version = format!("1.{index}.0");
        h.deploy("web", &good(&version), json!({})).await;
        h.pack("web-pack", &good("9.9.9").template("hostile.yaml", template)).await;
        let told = h
            .sees("SherpackRelease/web", |release| {
                condition(release, "Ready")["reason"] == *reason && message(release).contains(part)
            })
            .await;
        let said = message(&told);
        assert!(said.contains("templates/hostile.yaml:1: ") && said.len() <= 1024, "{name}: {said}");
        eventually("an Event tells it", async || {
            h.events("web", reason).await.iter().any(|note| note.contains(part))
        })
        .await;
        h.objects.edit("ConfigMap/first", "kubectl-edit", json!({"data": {"version": "drifted"}})).await;
        h.shows("ConfigMap/first", "/data/version", version.as_str()).await;
        assert_eq!(condition(&told, "Released")["status"], "True", "{name}: {told}");
    }
    // Another release is not held up by it.
    h.deploy("other", &Pack::new("other", "1.0.0").object(config_map("other", json!({"a": "b"}))), json!({}))
        .await;
    h.deploy("web", &good("2.0.0"), json!({})).await;
    h.shows("ConfigMap/first", "/data/version", "2.0.0").await;
}
