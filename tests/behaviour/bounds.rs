//! How short an interval and how long a timeout may be, and that no server makes the operator ask it more often.

use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use sherpack_operator::api::crd;
use sherpack_operator::source::cache;
use sherpack_operator::source::http::Options;

use crate::support::control_plane;
use crate::support::harness::PERSON;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::config_map;
use crate::support::wait::{eventually, wait_for};
use crate::support::{Harness, Pack};

/// Every field with a bound, a value that is just out of it, and one at its edge.
fn fields() -> Vec<(&'static str, Value, Value)> {
    vec![
        ("spec.interval", json!({"interval": "9.999s"}), json!({"interval": "10s"})),
        ("spec.timeout", json!({"timeout": "24h0.001s"}), json!({"timeout": "24h"})),
        (
            "spec.waves.timeout",
            json!({"waves": {"timeout": "1441m"}}),
            json!({"waves": {"timeout": "1440m"}}),
        ),
        (
            "spec.uninstall.timeout",
            json!({"uninstall": {"timeout": "25h"}}),
            json!({"uninstall": {"timeout": "24h"}}),
        ),
        (
            "spec.crds.waitTimeout",
            json!({"crds": {"waitTimeout": "1000h"}}),
            json!({"crds": {"waitTimeout": "24h"}}),
        ),
    ]
}

/// Tries to apply a release of the ConfigMap `web-pack`.
async fn applied(h: &Harness, name: &str, more: &Value) -> Result<(), String> {
    apply_with(h, name, more, &PatchParams::apply(PERSON).force()).await
}

async fn apply_with(h: &Harness, name: &str, more: &Value, params: &PatchParams) -> Result<(), String> {
    let mut spec = json!({"pack": {"configMap": {"name": "web-pack"}}});
    json_patch::merge(&mut spec, more);
    let body = json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease", "metadata": {"name": name}, "spec": spec,
    });
    let applied = h.objects.api("SherpackRelease").patch(name, params, &Patch::Apply(body)).await;
    applied.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durations_out_of_range_are_refused_with_the_name_of_the_field() {
    let h = Harness::without_operator("bounds-refused").await;
    for (field, out, edge) in fields() {
        let error = applied(&h, "out", &out).await.expect_err(&format!("{out} must be refused"));
        assert!(error.contains(field) && error.contains(" or "), "{out}: {error}");
        applied(&h, "edge", &edge).await.unwrap();
    }
}

/// The definition as it is now, or without what bounds durations, as it was once.
async fn install_crd(h: &Harness, with_bounds: bool) {
    fn forget(schema: &mut JSONSchemaProps) {
        let bounds = |rule: &str| rule.starts_with("duration(self)");
        if schema.x_kubernetes_validations.iter().flatten().any(|rule| bounds(&rule.rule)) {
            schema.x_kubernetes_validations = None;
        }
        schema.properties.iter_mut().flat_map(|all| all.values_mut()).for_each(forget);
    }
    let mut crd = crd();
    if !with_bounds {
        crd.spec.versions.iter_mut().for_each(|version| {
            let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
            schema.into_iter().for_each(forget);
        });
    }
    let api: Api<CustomResourceDefinition> = Api::all(h.client.clone());
    let name = crd.metadata.name.clone().unwrap();
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&crd)).await.unwrap();
    wait_for("the API server follows the definition", async || {
        // A dry run: an object that is there may keep what it holds.
        let dry = PatchParams::apply(PERSON).force().dry_run();
        match (apply_with(h, "probe", &json!({"interval": "1ms"}), &dry).await, with_bounds) {
            (Ok(()), false) | (Err(_), true) => Ok(()),
            (other, _) => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Another pack each time.
fn another_pack(number: usize) -> Vec<u8> {
    Pack::new("web", "1.0.0").object(config_map("changing", json!({"n": number.to_string()}))).archive()
}

fn no_pack(number: usize) -> Vec<u8> {
    format!("<html>{number}</html>").into_bytes()
}

/// Objects of before the rules, on a control plane of their own: the other tests share one definition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_old_object_holds_counts_as_the_bound_and_no_server_is_asked_more_often() {
    let own = control_plane::own().await;
    let mut h = Harness::on(own.plane, "bounds-old").await;
    h.settings.sources =
        Options { allow: vec!["127.0.0.1".parse().unwrap()], cache_bytes: 64 << 20, ..Options::default() };
    install_crd(&h, false).await;
    h.start();
    h.operator_ready().await;
    let server = HttpServer::start().await;
    let began = Instant::now();
    let hostile = [
        ("/changing", Route::Changing(another_pack)),
        ("/other-digest", Route::Changing(another_pack)),
        ("/garbage", Route::Changing(no_pack)),
        ("/away", Route::Status(503)),
        ("/broken", Route::Truncated(another_pack(0))),
    ];
    for (path, route) in hostile.clone() {
        server.serve(path, route);
        let mut http = json!({"url": server.url(path)});
        if path == "/other-digest" {
            http["digest"] = json!(cache::digest(b"nothing"));
        }
        let name = &path[1..];
        h.release(name, json!({"pack": {"http": http}, "interval": "0.000001ms", "releaseName": name})).await;
    }
    let pack =
        Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "{{ values.color }}"})));
    h.pack("web-pack", &pack).await;
    let old = json!({"interval": "1ms", "timeout": "1000h", "waves": {"timeout": "1000h"}, "values": {"color": "blue"}});
    applied(&h, "old", &old).await.unwrap();
    h.ready("old").await;
    let told = ["spec.interval is `1ms`", "spec.timeout is `1000h`", "spec.waves.timeout is `1000h`"];
    eventually("Events tell each of them", async || {
        let events = h.events("old", "DurationOutOfRange").await;
        told.iter().all(|told| events.iter().any(|event| event.starts_with(told)))
    })
    .await;
    h.ready("changing").await;

    // The pass that is asked for is one of another release.
    h.rests("old").await;
    h.rests("old").await;
    for (path, _) in &hostile {
        let (asked, seconds) = (server.asked(path).len(), began.elapsed().as_secs());
        let most = usize::try_from(1 + seconds / 10).unwrap();
        assert!((1..=most).contains(&asked), "{path} was asked {asked} times in {seconds} s");
    }
    assert_eq!(h.events("old", "DurationOutOfRange").await.len(), told.len(), "each is told once");

    // The rules come: the object can still be edited, but not from one bad value to another.
    install_crd(&h, true).await;
    applied(&h, "new", &json!({"interval": "1ms"})).await.expect_err("a new object");
    let mut edited = old.clone();
    edited["values"]["color"] = json!("green");
    applied(&h, "old", &edited).await.unwrap();
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.ready("old").await;
    edited["interval"] = json!("2ms");
    let error = applied(&h, "old", &edited).await.unwrap_err();
    assert!(error.contains("spec.interval") && error.contains("must be 10s or more"), "{error}");
    h.uninstall("old").await;
}
