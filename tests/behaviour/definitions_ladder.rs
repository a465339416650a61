//! Every kind of change of a definition, one at a time and with an object alive, under every strategy; and what the API
//! server itself says of it.

use futures::{StreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};
use sherpack_operator::crd::{Example, Kind, Severity, examples};

use crate::support::harness::condition;
use crate::support::packs::config_map;
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

/// Releases at work at once.
const AT_ONCE: usize = 8;

/// One example with names of its own.
struct Rung {
    name: String,
    severity: Severity,
    old: Value,
    new: Value,
}

impl Rung {
    fn new(h: &Harness, number: usize, example: &Example) -> Self {
        let name = format!("k{number}");
        let own = |definition: &Value| -> Value {
            let text =
                definition.to_string().replace("example.com", &format!("{name}.{}.example.com", h.namespace));
            serde_json::from_str(&text).unwrap()
        };
        let (old, new) = (own(&example.old), own(&example.new));
        Self { severity: example.severity, old, new, name }
    }

    fn what(&self) -> String {
        format!("CustomResourceDefinition/{}", self.old["metadata"]["name"].as_str().unwrap())
    }

    fn pack(&self, version: &str, definition: &Value) -> Pack {
        Pack::new(&self.name, version)
            .object(config_map(&format!("{}-settings", self.name), json!({"version": version})))
            .file("crds/it.yaml", definition.to_string())
    }
}

/// What a schema allows, with everything in it.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let number = schema["minimum"].as_f64().unwrap_or(1.0).max(1.0);
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, field)| (name.clone(), sample(field))).collect::<Map<_, _>>())
        }
        Some("array") => json!([sample(&schema["items"])]),
        Some("integer") => json!(number as i64),
        Some("number") => json!(number),
        Some("boolean") => json!(true),
        Some("string") => json!("a".repeat(schema["minLength"].as_u64().unwrap_or(1) as usize)),
        _ => json!({}),
    }
}

/// Somebody makes an object of what the definition defines, as full as the API server takes it.
async fn make(h: &Harness, definition: &Value) -> bool {
    let spec = &definition["spec"];
    let Some(version) =
        spec["versions"].as_array().unwrap().iter().find(|version| version["storage"] == true)
    else {
        return false;
    };
    let kind = spec["names"]["kind"].as_str().unwrap();
    let gvk = GroupVersionKind::gvk(spec["group"].as_str().unwrap(), version["name"].as_str().unwrap(), kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, spec["names"]["plural"].as_str().unwrap());
    let api: Api<DynamicObject> = match spec["scope"].as_str() {
        Some("Cluster") => Api::all_with(h.client.clone(), &resource),
        _ => Api::namespaced_with(h.client.clone(), &h.namespace, &resource),
    };
    let full = sample(&version["schema"]["openAPIV3Schema"]);
    for mut object in [full, json!({"spec": {}}), json!({})] {
        object["apiVersion"] = json!(gvk.api_version());
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "one"});
        let Ok(object) = serde_json::from_value(object) else { continue };
        if api.create(&PostParams::default(), &object).await.is_ok() {
            return true;
        }
    }
    false
}

/// Whether the API server would take this in place of what is there.
async fn taken(h: &Harness, definition: &Value) -> Result<(), String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let api: Api<DynamicObject> = Api::all_with(h.client.clone(), &resource);
    let params = PatchParams { dry_run: true, ..PatchParams::apply("sherpack").force() };
    let name = definition["metadata"]["name"].as_str().unwrap();
    api.patch(name, &params, &Patch::Apply(definition)).await.map(drop).map_err(|error| error.to_string())
}

/// Waits until the release is held for its definition, or shows this version of its settings.
async fn decided(h: &Harness, rung: &Rung, version: &str, strategy: Option<&str>) -> (bool, Value) {
    let settings = format!("ConfigMap/{}-settings", rung.name);
    wait_for(&format!("{} {version} {strategy:?} is held or made", rung.name), async || {
        let release = h.objects.get(&format!("SherpackRelease/{}", rung.name)).await;
        let ready = condition(&release, "Ready");
        let current = ready["observedGeneration"] == release["metadata"]["generation"];
        if current && ready["reason"] == "CrdBreakingChange" {
            return Ok((true, release));
        }
        // Objects are applied before the status tells of it.
        let told = release["status"]["pack"]["version"] == version;
        let made = told && h.objects.get(&settings).await["data"]["version"] == version;
        if current && ready["status"] == "True" && made {
            return Ok((false, release));
        }
        Err(release["status"].to_string())
    })
    .await
}

/// Climbs one rung; what is not as it should be.
async fn climb(h: &Harness, rung: &Rung) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    h.deploy(&rung.name, &rung.pack("1.0.0", &rung.old), json!({})).await;
    make(h, &rung.old).await;
    let server = taken(h, &rung.new).await;
    check(
        server.is_err() == (rung.severity == Severity::Blocked),
        format!("{}, and the API server says {server:?}", rung.severity),
    );
    let before = h.objects.get(&rung.what()).await["spec"].clone();
    // Skip: the rest goes on without it. Packs come by another watch than specs do, and may be faster.
    h.edit_spec(&rung.name, json!({"crds": {"upgrade": "Skip"}})).await;
    h.ready(&rung.name).await;
    h.pack(&format!("{}-pack", rung.name), &rung.pack("2.0.0", &rung.new)).await;
    let (held, release) = decided(h, rung, "2.0.0", Some("Skip")).await;
    let verdict = release["status"]["crds"][0]["verdict"].clone();
    check(!held && verdict == "Skipped", format!("skipped: {verdict}"));
    check(
        h.objects.get(&rung.what()).await["spec"] == before,
        "skipped, and changed all the same".to_owned(),
    );
    // Safe: what endangers nothing.
    h.pack(&format!("{}-pack", rung.name), &rung.pack("3.0.0", &rung.new)).await;
    h.edit_spec(&rung.name, json!({"crds": null})).await;
    let (held, release) = decided(h, rung, "3.0.0", None).await;
    let crd = &release["status"]["crds"][0];
    let lowered = crd["changes"].to_string().contains("(concerns none of")
        || crd["changes"].to_string().contains("no objects");
    let expected = match rung.severity {
        Severity::Blocked => held && crd["verdict"] == "Blocked",
        Severity::Dangerous => {
            (held && crd["verdict"] == "Dangerous") || (!held && crd["verdict"] == "Warning" && lowered)
        }
        severity => !held && (crd["verdict"] == severity.name() || crd["verdict"].is_null()),
    };
    check(expected, format!("safe: {} came out as held: {held}, {crd}", rung.severity));
    if !held {
        return wrong;
    }
    check(h.objects.get(&rung.what()).await["spec"] == before, "held, and changed all the same".to_owned());
    // Force: everything that the API server takes.
    h.edit_spec(&rung.name, json!({"crds": {"upgrade": "Force"}})).await;
    let (held, release) = decided(h, rung, "3.0.0", Some("Force")).await;
    let verdict = release["status"]["crds"][0]["verdict"].clone();
    let expected = match rung.severity {
        Severity::Blocked => held,
        _ => !held && verdict == "Dangerous (forced)",
    };
    check(expected, format!("forced: {} came out as held: {held}, {verdict}", rung.severity));
    wrong
}

async fn remove(h: &Harness, rung: &Rung) {
    h.uninstall(&rung.name).await;
    h.objects.delete(&rung.what()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_change_is_made_or_held_as_its_severity_says_and_the_server_refuses_what_is_blocked() {
    let h = Harness::new("definitions-ladder").await;
    let all: Vec<(Example, Rung)> = examples()
        .into_iter()
        // What no rule speaks of, this API server does not know either.
        .filter(|example| example.creatable && example.kind != Kind::Unhandled)
        .enumerate()
        .map(|(number, example)| {
            let rung = Rung::new(&h, number, &example);
            (example, rung)
        })
        .collect();
    let climbed = stream::iter(&all).map(async |(example, rung)| {
        let wrong = climb(&h, rung).await;
        remove(&h, rung).await;
        wrong.into_iter().map(|what| format!("{} {}: {what}", rung.name, example.kind)).collect::<Vec<_>>()
    });
    let wrong: Vec<String> = climbed.buffer_unordered(AT_ONCE).concat().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
