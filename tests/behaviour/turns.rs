//! One namespace that keeps the operator busy holds up no other: turns at rendering, and a reserve for what has drifted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sherpack_operator::release::State;

use super::guard_tools;
use crate::support::harness::{PERSON, condition};
use crate::support::objects::Objects;
use crate::support::packs::config_map;
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::{Effect, Fault, Request};
use crate::support::{Harness, Pack};

/// Each step takes the CPU for long, and the limit comes late.
const BOMB: &str =
    "{% set l = range(20000)|list %}{% for i in range(900) %}{% set x = l|sort|unique|length %}{% endfor %}";

fn colors(name: &str) -> Pack {
    let objects = (0..4).map(|index| config_map(&format!("{name}-{index}"), json!({"color": "blue"})));
    Pack::new(name, "1.0.0").objects(objects)
}

/// Its render ends when the API server answers.
fn looking(name: &str) -> Pack {
    let seen = json!({"color": "{{ lookup('v1', 'ConfigMap', '', 'there').data.color }}"});
    Pack::new(name, "1.0.0").object(config_map(name, seen))
}

fn is_lookup(request: &Request) -> bool {
    request.verb == "get" && request.is_about("configmaps/there")
}

/// The releases with this prefix that stand in the queue, as their status tells.
async fn waiting(h: &Harness, prefix: &str) -> Vec<String> {
    let all = h.objects.list("SherpackRelease", "").await;
    let waits = |release: &&Value| {
        let ready = condition(release, "Ready");
        ready["reason"] == "Progressing"
            && ready["message"].as_str().is_some_and(|text| text.contains("turn"))
    };
    let names =
        all.iter().filter(waits).map(|release| release["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_waits_for_its_turn_holds_no_worker_and_goes_when_it_is_deleted() {
    let mut h = Harness::without_operator("turns").await;
    h.settings.concurrency = 2;
    h.start();
    h.objects.create(PERSON, config_map("there", json!({"color": "green"}))).await;
    h.deploy("web", &colors("web"), json!({})).await;
    h.wire.fault(Fault::new(Effect::Hold, is_lookup));
    for number in 0..5 {
        h.apply(&format!("slow-{number}"), &looking(&format!("slow-{number}")), json!({})).await;
    }
    let names = wait_for("all but the one that is rendered wait", async || {
        let names = waiting(&h, "slow").await;
        if names.len() == 4 { Ok(names) } else { Err(format!("{names:?} wait")) }
    })
    .await;

    // All of this needs a worker.
    h.objects.edit("ConfigMap/web-0", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web-0", "/data/color", "blue").await;
    h.pass("web").await;
    let goes = &names[0];
    h.uninstall(goes).await;
    h.uninstall("web").await;
    assert!(!waiting(&h, "slow").await.is_empty(), "the turn of all has come");
    let failures = h.metric("sherpack_reconcile_errors_total", &["Progressing"]).await;
    assert!(failures.abs() < 0.5, "to wait is no failure: {failures}");

    h.wire.heal();
    h.wire.release();
    for number in 0..5 {
        let name = format!("slow-{number}");
        if name != *goes {
            h.ready(&name).await;
            h.shows(&format!("ConfigMap/{name}"), "/data/color", "green").await;
        }
    }
    assert!(h.objects.find(&format!("ConfigMap/{goes}")).await.is_none(), "it was deleted before its turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_under_way_goes_on_while_what_is_wanted_next_waits_for_its_turn() {
    let mut h = Harness::without_operator("turns-next").await;
    h.settings.concurrency = 2;
    h.start();
    h.objects.create(PERSON, config_map("there", json!({"color": "green"}))).await;
    let waved = |second: &str| {
        let mut last = config_map("last", json!({"color": second}));
        last["metadata"]["annotations"] = json!({"sherpack.io/sync-wave": "1"});
        Pack::new("web", second).object(config_map("first", json!({"color": second}))).object(last)
    };
    h.wire.fault(Fault::on_writes(Effect::Answer(500), "configmaps/last"));
    h.apply("web", &waved("1.0.0"), json!({"upgrade": {"retries": 0}})).await;
    eventually("the first wave is there", async || h.objects.find("ConfigMap/first").await.is_some()).await;
    h.wire.fault(Fault::new(Effect::Hold, is_lookup));
    h.apply("slow", &looking("slow"), json!({})).await;
    eventually("the turn is taken", async || h.wire.since(0).iter().any(is_lookup)).await;
    h.apply("web", &waved("2.0.0"), json!({"upgrade": {"retries": 0}})).await;
    h.pass("web").await;
    assert_eq!(h.objects.get("ConfigMap/first").await["data"]["color"], "1.0.0");
    h.wire.heal();
    h.wire.release();
    h.ready("web").await;
    h.shows("ConfigMap/last", "/data/color", "2.0.0").await;
    h.ready("slow").await;
    assert!(h.events("web", "Progressing").await.is_empty());
}

/// Two namespaces, and one operator for what carries the label of this test in either.
async fn two(name: &str, concurrency: usize) -> (Harness, Harness) {
    let evil = Harness::without_operator(&format!("{name}-evil")).await;
    let mut h = Harness::new(name).await;
    // It has a key by then: beside the records of other tests none would be made.
    h.operator_ready().await;
    h.settings.watch_namespace = None;
    h.settings.watch_labels =
        Some(sherpack_operator::api::selector::parse(&format!("trial={name}")).unwrap());
    h.settings.concurrency = concurrency;
    h.start();
    (h, evil)
}

/// A release with the label that [`two`] asks for.
async fn create(objects: &Objects, trial: &str, name: &str, spec: Value) {
    let body = json!({"metadata": {"labels": {"trial": trial}}, "spec": spec});
    objects.server_side_apply(&format!("SherpackRelease/{name}"), PERSON, body).await;
}

async fn install(h: &Harness, trial: &str, name: &str, pack: &Pack) {
    h.pack(&format!("{name}-pack"), pack).await;
    create(&h.objects, trial, name, json!({"pack": {"configMap": {"name": format!("{name}-pack")}}})).await;
}

/// How many bombs the operator told of before it wrote this object.
fn bombs_before(h: &Harness, mark: usize, object: &str) -> usize {
    let writes = h.wire.writes_since(mark);
    let written = writes.iter().position(|request| request.is_about(object));
    let before = &writes[..written.expect("the operator wrote it")];
    let tells = |request: &&Request| {
        request.is_about("sherpackreleases") && request.body.to_string().contains("RenderLimit")
    };
    before.iter().filter(tells).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_renders_without_end_delays_no_other() {
    const CROWD: usize = 8;
    let trial = "turns-bombs";
    let (h, evil) = two(trial, 2).await;
    install(&h, trial, "old", &colors("old")).await;
    h.ready("old").await;
    evil.pack("bomb", &Pack::new("bomb", "1.0.0").template("bomb.yaml", BOMB)).await;
    for number in 0..CROWD {
        let spec = json!({"pack": {"configMap": {"name": "bomb"}}});
        create(&evil.objects, trial, &format!("bomb-{number}"), spec).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let (objects, ended) = (evil.objects.clone(), Arc::clone(&over));
    let patches = tokio::spawn(async move {
        let mut round = 0;
        while !ended.load(Ordering::SeqCst) {
            round += 1;
            for number in 0..CROWD {
                let spec = json!({"spec": {"values": {"n": round}}});
                objects.edit(&format!("SherpackRelease/bomb-{number}"), PERSON, spec).await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    eventually("the bombs go off", async || {
        h.metric("sherpack_reconcile_errors_total", &["RenderLimit"]).await > 0.0
    })
    .await;
    for index in 0..4 {
        let object = format!("ConfigMap/old-{index}");
        let mark = h.wire.mark();
        h.objects.edit(&object, "kubectl-edit", json!({"data": {"color": "red"}})).await;
        h.shows(&object, "/data/color", "blue").await;
        let bombs = bombs_before(&h, mark, &format!("configmaps/old-{index}"));
        assert!(bombs < CROWD / 2, "{bombs} bombs went off before {object} was put back");
    }
    let mark = h.wire.mark();
    install(&h, trial, "new", &colors("new")).await;
    h.ready("new").await;
    let bombs = bombs_before(&h, mark, "configmaps/new-0");
    assert!(bombs_before(&h, 0, "configmaps/new-0") > 0, "no bomb was told of");
    assert!(bombs < CROWD, "the whole crowd had a turn before the one release of another namespace");
    let mut behind = 0;
    for number in 0..CROWD {
        let release = evil.objects.get(&format!("SherpackRelease/bomb-{number}")).await;
        behind += usize::from(release["status"]["observedGeneration"] != release["metadata"]["generation"]);
    }
    assert!(behind > 0, "the crowd did not keep the operator busy");
    over.store(true, Ordering::SeqCst);
    patches.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_put_back_while_every_worker_is_busy() {
    const CROWD: usize = 6;
    let trial = "turns-busy";
    let (h, evil) = two(trial, 1).await;
    let of = |number: usize| format!("evil-{number}");
    for number in 0..CROWD {
        let pack = Pack::new("evil", "1.0.0").object(config_map(&of(number), json!({"color": "blue"})));
        install(&evil, trial, &of(number), &pack).await;
    }
    for name in ["web", "rests"] {
        install(&h, trial, name, &colors(name)).await;
        h.ready(name).await;
    }
    let locked = [config_map("settings", json!({"color": "blue"}))];
    guard_tools::apply(&h, &locked).await;
    guard_tools::sherpack_installs(&h, 1, State::Deployed, &locked).await;
    create(&h.objects, trial, "guard", json!({"lock": {"sherpackRelease": {"name": "shop"}}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    h.edit_spec("rests", json!({"suspend": true})).await;
    h.condition("rests", "Ready", "False", Some("Suspended")).await;
    for number in 0..CROWD {
        evil.ready(&of(number)).await;
    }

    // No write in the one namespace comes to an end: that is what all workers wait for.
    let namespace = evil.namespace.clone();
    let in_evil = move |request: &Request| request.path.contains(&format!("/{namespace}/"));
    let theirs = in_evil.clone();
    let mark = h.wire.mark();
    h.wire.fault(Fault::new(Effect::Hold, move |request| request.is_write() && theirs(request)));
    let red = json!({"data": {"color": "red"}});
    for number in 0..CROWD {
        evil.objects.edit(&format!("ConfigMap/{}", of(number)), "kubectl-edit", red.clone()).await;
    }
    let held = || h.wire.writes_since(mark).into_iter().filter(&in_evil).collect::<Vec<_>>();
    // The worker, and what of the reserve is theirs.
    eventually("they have all that they can have", async || held().len() == 3).await;
    h.objects.edit("ConfigMap/rests-0", "kubectl-edit", red.clone()).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", red.clone()).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    for index in 0..3 {
        let object = format!("ConfigMap/web-{index}");
        h.objects.edit(&object, "kubectl-edit", red.clone()).await;
        h.shows(&object, "/data/color", "blue").await;
    }
    h.objects.delete("ConfigMap/web-3").await;
    h.sees("ConfigMap/web-3", |object| object["data"]["color"] == "blue").await;
    assert_eq!(held().len(), 3, "a worker was free meanwhile: {:?}", held());
    assert!(held().iter().all(|request| request.code == 0));
    assert_eq!(h.objects.get("ConfigMap/rests-0").await["data"]["color"], "red", "it is suspended");

    // What was done is told when a worker has come to it.
    h.wire.heal();
    h.wire.release();
    h.condition("web", "Drifted", "False", Some("DriftReverted")).await;
    let told = h.objects.get("SherpackRelease/web").await["status"]["drift"]["objects"].to_string();
    assert!(told.contains("web-3") && told.contains("Recreated"), "{told}");
    for number in 0..CROWD {
        evil.shows(&format!("ConfigMap/{}", of(number)), "/data/color", "blue").await;
    }
}
