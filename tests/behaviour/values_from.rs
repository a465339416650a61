//! Values from ConfigMaps and Secrets: how they are laid on each other, what a change of them does, and what happens
//! when they are missing or wrong.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::{PERSON, condition};
use crate::support::packs::config_map;
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

/// Shows its values in the ConfigMap `shown`.
fn pack() -> Pack {
    let shown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown}\ndata:\n  \
                 color: '{{ values.color }}'\n  all: |\n    {{ values | tojson }}\n";
    Pack::new("web", "1.0.0")
        .template("shown.yaml", shown)
        .values("color: grey\nimage: {tag: '1', pull: Always}\nextra: {gone: true, kept: true}\n")
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// Sets one key of a ConfigMap or Secret, such as `Secret/db`, by a person and with no label on it.
async fn put(h: &Harness, what: &str, key: &str, text: &str) {
    let body = if what.starts_with("Secret/") {
        json!({"data": {key: STANDARD.encode(text)}})
    } else {
        json!({"data": {key: text}})
    };
    if h.objects.find(what).await.is_some() {
        h.objects.edit(what, PERSON, body).await;
    } else {
        h.objects.server_side_apply(what, PERSON, body).await;
    }
}

fn from(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name})
}

/// The values as the template saw them, once `expected` holds of them.
async fn shown(h: &Harness, expected: impl Fn(&Value) -> bool) -> Value {
    wait_for("the values are as expected", async || {
        let Some(map) = h.objects.find("ConfigMap/shown").await else { return Err("nothing".to_owned()) };
        let all = map["data"]["all"].as_str().unwrap();
        let values: Value = serde_json::from_str(all).unwrap();
        if expected(&values) { Ok(values) } else { Err(all.to_owned()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_entries_win_then_the_spec_and_null_removes() {
    let h = Harness::new("values-order").await;
    put(&h, "ConfigMap/base", "values.yaml", "color: red\nimage: {tag: '2'}\nlist: [1, 2]\n").await;
    put(&h, "Secret/over", "prod.yaml", "color: blue\nextra: {gone: null}\nlist: [3]\nmode: 0644\n").await;
    put(&h, "Secret/over", "password", "hunter2").await;
    put(&h, "ConfigMap/flags", "debug", "true").await;
    put(&h, "ConfigMap/flags", "build", "'0815'").await;
    let at = |kind: &str, name: &str, key: &str, path: &str| json!({"kind": kind, "name": name, "key": key, "targetPath": path});
    let sources = json!([
        from("ConfigMap", "base"),
        {"kind": "Secret", "name": "over", "key": "prod.yaml"},
        at("Secret", "over", "password", r"db.accounts[0].pass\.word"),
        at("ConfigMap", "flags", "debug", "debug"),
        at("ConfigMap", "flags", "build", "build"),
    ]);
    let more = json!({"valuesFrom": sources, "values": {"color": "green", "image": {"pull": null}}});
    h.deploy("web", &pack(), more).await;
    assert_eq!(
        shown(&h, |_| true).await,
        json!({
            "color": "green", "image": {"tag": "2"}, "extra": {"kept": true}, "list": [3], "mode": 420,
            "db": {"accounts": [{"pass.word": "hunter2"}]}, "debug": true, "build": "0815",
        })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_referenced_object_is_rolled_out_at_once_and_no_other_is() {
    let h = Harness::new("values-change").await;
    put(&h, "ConfigMap/common", "values.yaml", "color: red\n").await;
    put(&h, "Secret/private", "values.yaml", "token: one\n").await;
    let more = json!({"valuesFrom": [from("ConfigMap", "common"), from("Secret", "private")]});
    h.deploy("web", &pack(), more).await;
    let shared =
        Pack::new("other", "1.0.0").object(config_map("other", json!({"color": "{{ values.color }}"})));
    h.deploy("other", &shared, json!({"valuesFrom": [from("ConfigMap", "common")]})).await;

    // Best of three: the machine may be busy for a moment, but not each time.
    let mut fastest = Duration::MAX;
    for (what, text, key, value) in [
        ("ConfigMap/common", "color: blue\n", "color", "blue"),
        ("Secret/private", "token: two\n", "token", "two"),
        ("ConfigMap/common", "color: white\n", "color", "white"),
    ] {
        let mark = h.wire.mark();
        put(&h, what, "values.yaml", text).await;
        let changed = Instant::now();
        wait_for("the change is rolled out", async || {
            let writes = h.wire.writes_to("configmaps/shown", mark);
            if writes.is_empty() { Err("no write".to_owned()) } else { Ok(()) }
        })
        .await;
        fastest = fastest.min(changed.elapsed());
        shown(&h, |values| values[key] == value).await;
    }
    assert!(fastest < Duration::from_millis(500), "{fastest:?} from the change to the apply");
    h.shows("ConfigMap/other", "/data/color", "white").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 superseded", "3 superseded", "4 deployed"]).await;
    h.shows_states("other", &["1 superseded", "2 superseded", "3 deployed"]).await;

    // Objects that nobody refers to, another key, and one of the same name elsewhere: no revision, not even a read.
    let mark = h.wire.mark();
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "values-change-other"}});
    h.objects.create("test", elsewhere).await;
    let other = h.objects.elsewhere("values-change-other");
    other.create("test", config_map("common", json!({"values.yaml": "color: black"}))).await;
    put(&h, "ConfigMap/stranger", "values.yaml", "color: black\n").await;
    put(&h, "Secret/stranger", "values.yaml", "color: black\n").await;
    // One watch tells of all in order: when this has been seen, so have those.
    put(&h, "ConfigMap/common", "unused", "x").await;
    let read = |request: &Request| request.verb == "get" && request.is_about("configmaps/common");
    wait_for("the watch is that far", async || {
        if h.wire.since(mark).iter().any(read) { Ok(()) } else { Err(String::new()) }
    })
    .await;
    h.pass("web").await;
    let strange = |request: &&Request| {
        request.is_about("stranger") || request.path.contains("/namespaces/values-change-other/")
    };
    let lines: Vec<String> = h.wire.since(mark).iter().filter(strange).map(Request::line).collect();
    assert!(lines.is_empty(), "{lines:?}");
    h.shows_states("web", &["1 superseded", "2 superseded", "3 superseded", "4 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_read_again_while_nothing_changes() {
    let h = Harness::new("values-idle").await;
    put(&h, "ConfigMap/common", "values.yaml", "color: red\n").await;
    put(&h, "Secret/private", "values.yaml", "token: one\n").await;
    let maybe = json!({"kind": "Secret", "name": "never", "optional": true});
    let more = json!({"valuesFrom": [from("ConfigMap", "common"), from("Secret", "private"), maybe]});
    h.deploy("web", &pack(), more).await;
    let mark = h.wire.mark();
    // Drift starts a pass of its own.
    h.objects.edit("ConfigMap/shown", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
    h.shows("ConfigMap/shown", "/data/color", "red").await;
    let reads = h.wire.since(mark);
    let reads = reads.iter().filter(|request| {
        request.verb == "get"
            && ["common", "private", "never"].iter().any(|name| request.path.ends_with(name))
    });
    assert_eq!(reads.map(Request::line).collect::<Vec<_>>(), Vec::<String>::new());
    // Asked for, all of them are.
    h.pass("web").await;
    for name in ["configmaps/common", "secrets/private", "secrets/never"] {
        let seen = h.wire.since(mark).iter().any(|request| request.verb == "get" && request.is_about(name));
        assert!(seen, "{name} was not read");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_optional_may_come_and_go() {
    let h = Harness::new("values-optional").await;
    let maybe = json!({"kind": "ConfigMap", "name": "maybe", "optional": true});
    let secret =
        json!({"kind": "Secret", "name": "maybe", "key": "token", "targetPath": "token", "optional": true});
    h.deploy("web", &pack(), json!({"valuesFrom": [maybe, secret]})).await;
    shown(&h, |values| values["color"] == "grey").await;
    put(&h, "ConfigMap/maybe", "values.yaml", "color: red\n").await;
    shown(&h, |values| values["color"] == "red").await;
    // The object is there and the key is not.
    put(&h, "Secret/maybe", "else", "x").await;
    put(&h, "Secret/maybe", "token", "abc").await;
    shown(&h, |values| values["token"] == "abc").await;
    h.objects.delete("ConfigMap/maybe").await;
    h.objects.delete("Secret/maybe").await;
    shown(&h, |values| values["color"] == "grey" && values["token"].is_null()).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_object_or_key_is_named_and_the_release_goes_on_when_it_comes() {
    let h = Harness::new("values-missing").await;
    let more = json!({"valuesFrom": [from("ConfigMap", "base"), {"kind": "Secret", "name": "db", "key": "conf", "optional": false}]});
    h.apply("web", &pack(), more).await;
    let held = h.condition("web", "Ready", "False", Some("ValuesNotFound")).await;
    for part in ["spec.valuesFrom[0]", "ConfigMap values-missing/base", "optional"] {
        assert!(message(&held).contains(part), "{part}: {held}");
    }
    assert_eq!(h.records("web").await.len(), 0, "no revision is made of values that are not there");
    wait_for("an Event", async || {
        if h.events("web", "ValuesNotFound").await.is_empty() { Err(String::new()) } else { Ok(()) }
    })
    .await;
    put(&h, "ConfigMap/base", "values.yaml", "color: red\n").await;
    put(&h, "Secret/db", "other", "x: 1").await;
    let held = h
        .sees("SherpackRelease/web", |release| {
            message(release).contains("the key `conf` of Secret values-missing/db")
        })
        .await;
    assert!(message(&held).contains("spec.valuesFrom[1]"), "{held}");
    assert_eq!(condition(&held, "Ready")["reason"], "ValuesNotFound");
    put(&h, "Secret/db", "conf", "user: me\n").await;
    h.ready("web").await;
    shown(&h, |values| values["color"] == "red" && values["user"] == "me").await;

    // Later too, and what is deployed stays and stays locked.
    h.objects.delete("ConfigMap/base").await;
    let held = h.condition("web", "Ready", "False", Some("ValuesNotFound")).await;
    assert_eq!(condition(&held, "Released")["status"], "True");
    h.objects.edit("ConfigMap/shown", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
    h.shows("ConfigMap/shown", "/data/color", "red").await;
    put(&h, "ConfigMap/base", "values.yaml", "color: red\n").await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_is_no_values_is_told_by_object_key_and_line_and_nothing_changes() {
    let h = Harness::new("values-bad").await;
    put(&h, "ConfigMap/base", "values.yaml", "color: red\n").await;
    put(&h, "Secret/private", "values.yaml", "token: one\n").await;
    put(&h, "ConfigMap/flag", "flag", "on").await;
    let flag = json!({"kind": "ConfigMap", "name": "flag", "key": "flag", "targetPath": "image.tag.deep"});
    let good = json!([from("ConfigMap", "base"), from("Secret", "private")]);
    h.deploy("web", &pack(), json!({"valuesFrom": good, "values": {"a": 1}})).await;

    // Nine levels of ten aliases each.
    let bomb = (1..10).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("{text}a{level}: &a{level} [{aliases}]\n")
    });
    let (base, private) =
        ("ConfigMap values-bad/base, values.yaml", "Secret values-bad/private, values.yaml");
    for (what, text, reason, parts) in [
        ("ConfigMap/base", "color: red\nb: [1\n", "ValuesInvalid", ["spec.valuesFrom[0]", base]),
        ("ConfigMap/base", "color: red\ncolor: blue\n", "ValuesInvalid", [":2: ", base]),
        ("ConfigMap/base", bomb.as_str(), "ValuesInvalid", ["spec.valuesFrom[0]", base]),
        ("ConfigMap/base", "- color: red\n", "ValuesNotAnObject", ["a list", base]),
        ("Secret/private", "a: 1\nhunter2: 1\nhunter2: 2\n", "ValuesInvalid", [":3: ", private]),
        ("Secret/private", "hunter2", "ValuesNotAnObject", ["spec.valuesFrom[1]", private]),
    ] {
        put(&h, what, "values.yaml", text).await;
        let held = h.condition("web", "Ready", "False", Some(reason)).await;
        let said = message(&held);
        assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{text}");
        assert_eq!(condition(&held, "Released")["status"], "True", "{text}");
        assert!(!held.to_string().contains("hunter2"), "{held}");
        h.objects.edit("ConfigMap/shown", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
        h.shows("ConfigMap/shown", "/data/color", "red").await;
        let mended = if what.starts_with("Secret") { "token: one\n" } else { "color: red\n" };
        put(&h, what, "values.yaml", mended).await;
        h.ready("web").await;
    }

    // A path through a value of the user that has no such part.
    let spec = json!({"valuesFrom": [from("ConfigMap", "base"), from("Secret", "private"), flag]});
    put(&h, "ConfigMap/base", "values.yaml", "color: red\nimage: {tag: [1]}\n").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.edit_spec("web", spec).await;
    let held = h.condition("web", "Ready", "False", Some("ValuesNotAnObject")).await;
    for part in ["spec.valuesFrom[2]", "ConfigMap/values-bad/flag#flag", "`deep`", "a list"] {
        assert!(message(&held).contains(part), "{part}: {held}");
    }
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    let told = wait_for("an Event tells it", async || {
        let told = h.wire.writes_to("events", 0);
        let tells = told.iter().any(|event| event.body.to_string().contains("ValuesNotAnObject"));
        if tells { Ok(told) } else { Err(format!("{told:?}")) }
    })
    .await;
    assert!(told.iter().all(|event| !event.body.to_string().contains("hunter2")), "a Secret in an Event");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_be_read_is_told_and_tried_again() {
    let h = Harness::without_operator("values-refused").await;
    put(&h, "Secret/private", "values.yaml", "color: red\n").await;
    h.wire.fault(Fault::new(Effect::Answer(403), |request| {
        request.verb == "get" && request.is_about("secrets/private")
    }));
    h.start();
    h.apply("web", &pack(), json!({"valuesFrom": [from("Secret", "private")]})).await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&held).contains("Secret values-refused/private"), "{held}");
    h.wire.heal();
    h.ready("web").await;
    shown(&h, |values| values["color"] == "red").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_change_while_they_are_read_are_read_again() {
    let h = Harness::new("values-race").await;
    put(&h, "Secret/private", "values.yaml", "color: red\n").await;
    put(&h, "Secret/second", "values.yaml", "color: red\n").await;
    h.deploy("web", &pack(), json!({"valuesFrom": [from("Secret", "private")]})).await;
    let other =
        Pack::new("other", "1.0.0").object(config_map("other", json!({"color": "{{ values.color }}"})));
    h.deploy("other", &other, json!({"valuesFrom": [from("Secret", "second")]})).await;
    let mark = h.wire.mark();
    let read = |request: &Request| request.verb == "get" && request.is_about("secrets/private");
    h.wire.fault(Fault::new(Effect::HoldAnswer, read).once());
    put(&h, "Secret/private", "values.yaml", "color: blue\n").await;
    wait_for("the API server has answered", async || {
        if h.wire.since(mark).iter().any(|request| read(request) && request.code == 200) {
            Ok(())
        } else {
            Err(String::new())
        }
    })
    .await;
    put(&h, "Secret/private", "values.yaml", "color: white\n").await;
    // One watch tells of both, in order.
    put(&h, "Secret/second", "values.yaml", "color: white\n").await;
    h.shows("ConfigMap/other", "/data/color", "white").await;
    h.wire.release();
    shown(&h, |values| values["color"] == "white").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_from_a_secret_shows_in_status_events_or_conditions() {
    let h = Harness::new("values-hidden").await;
    put(&h, "Secret/private", "values.yaml", "password: hunter2\nlist: [hunter2]\n").await;
    put(&h, "Secret/private", "token", "hunter2").await;
    let token = json!({"kind": "Secret", "name": "private", "key": "token", "targetPath": "token"});
    let more = json!({"valuesFrom": [from("Secret", "private"), token]});
    let quiet = Pack::new("web", "1.0.0")
        .object(config_map("quiet", json!({"length": "{{ values.password | length }}"})));
    h.deploy("web", &quiet, more).await;
    put(&h, "Secret/private", "values.yaml", "password: hunter2\nother: hunter2\n").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    // The engine quotes what it stumbles over, and so does the API server.
    let port = json!([{"name": "http", "port": 80, "targetPort": "{{ values.password }} no port"}]);
    let mut service = crate::support::packs::service("web");
    service["spec"]["ports"] = port;
    for (pack, reason) in [
        (quiet.clone().template("bad.yaml", "{% include values.password %}"), "RenderFailed"),
        (quiet.clone().object(service), "ObjectInvalid"),
    ] {
        h.pack("web-pack", &pack).await;
        let told = h.condition("web", "Ready", "False", Some(reason)).await;
        assert!(message(&told).contains("(from a Secret)"), "{told}");
    }
    // The objects that are made of it hold it, of course.
    let shows = |request: &&Request| {
        (request.is_about("sherpackreleases") || request.is_about("events"))
            && request.body.to_string().contains("hunter2")
    };
    let lines: Vec<String> = h.wire.since(0).iter().filter(shows).map(Request::line).collect();
    assert!(lines.is_empty(), "{lines:?}");
}

/// A restart with the same values makes no revision: all that was read is read again and is what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_made_while_nobody_looked_is_rolled_out_after_a_restart() {
    let h = Harness::new("values-restart").await;
    put(&h, "Secret/private", "values.yaml", "color: red\n").await;
    h.deploy("web", &pack(), json!({"valuesFrom": [from("Secret", "private")]})).await;
    h.start();
    h.pass("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    h.kill();
    put(&h, "Secret/private", "values.yaml", "color: blue\n").await;
    h.start();
    shown(&h, |values| values["color"] == "blue").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}
