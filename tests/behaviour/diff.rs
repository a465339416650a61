//! `diff`: what others changed of a release, and what differs between two of its revisions.

use serde_json::{Value, json};

use crate::support::accounts::rule;
use crate::support::packs::{config_map, deployment, secret, service};
use crate::support::people::Ran;
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

/// As text and as it stands in a Secret.
const CANARIES: [(&str, &str); 3] = [
    ("canary-wanted-71", "Y2FuYXJ5LXdhbnRlZC03MQ=="),
    ("canary-live-7234", "Y2FuYXJ5LWxpdmUtNzIzNA=="),
    ("canary-value-556", "Y2FuYXJ5LXZhbHVlLTU1Ng=="),
];

fn settings(color: &str) -> Value {
    config_map("settings", json!({"color": color, "size": "small", "app.conf": "one\ntwo\nthree\n"}))
}

fn warn(ignore: Value) -> Value {
    json!({"drift": {"mode": "Warn", "ignore": ignore}})
}

fn says_no_secret(ran: &Ran) {
    for (plain, encoded) in CANARIES {
        for text in [&ran.out, &ran.err] {
            assert!(!text.contains(plain) && !text.contains(encoded), "{ran:?}");
        }
    }
}

/// Runs `diff web` as text and as JSON: both say the same, nothing secret, and write nothing.
async fn differs(h: &Harness, arguments: &[&str], code: i32) -> (Ran, Value) {
    let all = [&["diff", "web"], arguments].concat();
    let (text, json) = (h.run(&all), h.run(&[&all[..], &["-o", "json"]].concat()));
    says_no_secret(&text);
    says_no_secret(&json);
    assert_eq!((text.code, json.code), (code, code), "{text:?}");
    let report = json.json();
    assert_eq!(report["differs"], code == 1, "{report}");
    (text, report)
}

fn of<'r>(report: &'r Value, object: &str) -> &'r Value {
    let mut objects = report["objects"].as_array().unwrap().iter();
    objects.find(|line| line["object"] == object).unwrap_or_else(|| panic!("no {object} in {report}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_add_or_may_set_is_no_drift() {
    let h = Harness::new("diff-none").await;
    let pack = Pack::new("web", "1.0.0").objects([
        settings("blue"),
        secret("login", json!({"password": CANARIES[0].0})),
        deployment("web", 1),
        service("web"),
    ]);
    let rules = json!([{"target": {"kind": "ConfigMap"}, "paths": ["/data/size"]}]);
    h.deploy("web", &pack, warn(rules)).await;
    let (text, report) = differs(&h, &[], 0).await;
    assert_eq!((text.out.as_str(), text.err.as_str()), ("", ""));
    assert_eq!((&report["from"], &report["objects"]), (&json!(1), &json!([])));

    let foreign = json!({"metadata": {"labels": {"team": "a"}}, "data": {"more": "theirs", "size": "big"}});
    h.objects.edit("ConfigMap/settings", "kubectl-edit", foreign).await;
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "x:1"}]}}}});
    h.objects.strategic("Deployment/web", "injector", sidecar).await;
    let autoscaler = json!({"spec": {"replicas": 3}});
    h.objects.edit_subresource("Deployment/web", "scale", "keda-operator", autoscaler).await;
    let before = h.objects.get("ConfigMap/settings").await;
    let (text, _) = differs(&h, &[], 0).await;
    assert_eq!((text.out.as_str(), text.err.as_str()), ("", ""));
    assert_eq!(h.objects.get("ConfigMap/settings").await, before);

    // Who has added it matters only where the spec says so.
    let strict = json!({"drift": {"mode": "Warn", "ignore": null, "strict": {"managers": ["kubectl-edit"]}}});
    h.edit_spec("web", strict).await;
    let (text, report) = differs(&h, &[], 1).await;
    let more = of(&report, "ConfigMap diff-none/settings")["changes"].as_array().unwrap();
    let more = more.iter().find(|change| change["path"] == "/data/more");
    let added = json!({"path": "/data/more", "new": "theirs", "manager": "kubectl-edit"});
    assert_eq!(more, Some(&added), "{report}");
    assert!(text.out.contains("  + /data/more:\n"), "{}", text.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_told_by_object_field_and_manager() {
    let h = Harness::new("diff-drift").await;
    let pack = Pack::new("web", "1.0.0").objects([
        settings("blue"),
        config_map("deleted", json!({"a": "b"})),
        secret("login", json!({"password": CANARIES[0].0, "user": "u", "more": "m"})),
        deployment("web", 1),
    ]);
    h.deploy("web", &pack, json!({"drift": {"mode": "Warn"}})).await;
    let edit = json!({"data": {"color": "red", "size": null, "app.conf": "one\n2\nthree\n"}});
    h.objects.edit("ConfigMap/settings", "kubectl-edit", edit).await;
    h.objects.delete("ConfigMap/deleted").await;
    let login = json!({"data": {"password": CANARIES[1].1, "user": null}});
    h.objects.edit("Secret/login", "kubectl-edit", login).await;
    let image = json!({"containers": [{"name": "app", "image": "example.com/other:2"}]});
    let image = json!({"spec": {"template": {"spec": image}}});
    h.objects.strategic("Deployment/web", "kubectl-set", image).await;
    let all = ["ConfigMap/settings", "Secret/login", "Deployment/web"];
    let mut before = Vec::new();
    for what in all {
        before.push(h.objects.get(what).await["data"].clone());
    }

    let (text, report) = differs(&h, &[], 1).await;
    assert_eq!(report["objects"].as_array().unwrap().len(), 4, "{report}");
    let red = json!({"path": "/data/color", "old": "blue", "new": "red", "manager": "kubectl-edit"});
    let map = of(&report, "ConfigMap diff-drift/settings");
    assert!(map["changes"].as_array().unwrap().contains(&red), "{map}");
    // Nobody has what is gone.
    assert!(
        map["changes"].as_array().unwrap().contains(&json!({"path": "/data/size", "old": "small"})),
        "{map}"
    );
    let gone = json!({"object": "ConfigMap diff-drift/deleted", "what": "gone"});
    assert_eq!(of(&report, "ConfigMap diff-drift/deleted"), &gone);
    let hidden = json!([
        {"path": "/data/password", "old": "<redacted>", "new": "<redacted, changed>", "manager": "kubectl-edit"},
        {"path": "/data/user", "old": "<redacted>"},
    ]);
    assert_eq!(of(&report, "Secret diff-drift/login")["changes"], hidden);
    let image = json!([{
        "path": "/spec/template/spec/containers[name=app]/image", "old": "example.com/app:1.0.0",
        "new": "example.com/other:2", "manager": "kubectl-set",
    }]);
    assert_eq!(of(&report, "Deployment diff-drift/web")["changes"], image);
    for part in [
        "DRIFT: ConfigMap diff-drift/settings was changed in the cluster by kubectl-edit\n",
        "  ~ /data/color:\n      - \"blue\"\n      + \"red\"\n",
        "  ~ /data/app.conf:\n        one\n      - two\n      + 2\n        three\n",
        "  - /data/size:\n",
        "DRIFT: ConfigMap diff-drift/deleted is gone: it would be created again\n",
        "  ~ /data/password:\n      - \"<redacted>\"\n      + \"<redacted, changed>\"\n",
    ] {
        assert!(text.out.contains(part), "{part} in {}", text.out);
    }
    assert!(!text.out.contains('\u{1b}'), "no colours in a pipe");
    assert!(h.objects.find("ConfigMap/deleted").await.is_none(), "nothing is created");
    for (what, before) in all.iter().zip(before) {
        assert_eq!(h.objects.get(what).await["data"], before);
    }

    assert_eq!(h.run(&["diff", "nobody"]).code, 2);
    assert_eq!(h.run(&["diff", "web", "--from", "0"]).code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_revisions_are_compared_object_by_object() {
    let h = Harness::new("diff-revisions").await;
    let values = secret("private", json!({"values.yaml": format!("token: {}\n", CANARIES[2].0)}));
    h.objects.create("test", values).await;
    let from = json!({"valuesFrom": [{"kind": "Secret", "name": "private"}]});
    let pack = |version: &str, color: &str, password: &str, other: &str| {
        let url = config_map("url", json!({"url": format!("{color}://{{{{ values.token }}}}@host")}));
        Pack::new("web", version).objects([
            settings(color),
            url,
            secret("login", json!({"password": password})),
            config_map(other, json!({})),
        ])
    };
    h.deploy("web", &pack("1.0.0", "blue", CANARIES[0].0, "old"), from.clone()).await;
    h.deploy("web", &pack("2.0.0", "blue", CANARIES[0].0, "old"), from.clone()).await;
    h.deploy("web", &pack("3.0.0", "red", CANARIES[1].0, "new"), from.clone()).await;

    let (text, report) = differs(&h, &["--from", "1", "--to", "3"], 1).await;
    assert_eq!((&report["from"], &report["to"]), (&json!(1), &json!(3)));
    let change = json!([{"path": "/data/color", "old": "blue", "new": "red"}]);
    assert_eq!(of(&report, "ConfigMap diff-revisions/settings")["changes"], change);
    let change = json!([{"path": "/data/password", "old": "<redacted>", "new": "<redacted, changed>"}]);
    assert_eq!(of(&report, "Secret diff-revisions/login")["changes"], change);
    let change =
        json!([{"path": "/data/url", "old": "blue://<redacted>@host", "new": "red://<redacted>@host"}]);
    assert_eq!(of(&report, "ConfigMap diff-revisions/url")["changes"], change);
    let heads: Vec<&str> =
        text.out.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    let expected = [
        "+ ConfigMap diff-revisions/new",
        "- ConfigMap diff-revisions/old",
        "~ ConfigMap diff-revisions/settings",
        "~ ConfigMap diff-revisions/url",
        "~ Secret diff-revisions/login",
    ];
    assert_eq!(heads, expected);

    let (text, report) = differs(&h, &["--from", "1", "--to", "2"], 0).await;
    assert_eq!((text.out.as_str(), &report["objects"]), ("", &json!([])));
    // One end is enough.
    assert_eq!(differs(&h, &["--from", "2"], 1).await.1["to"], 3);
    assert_eq!(differs(&h, &["--to", "3"], 1).await.1["from"], 2);
    for (arguments, part) in [(["--from", "9"], "no revision 9"), (["--to", "1"], "no revision before 1")] {
        let ran = h.run(&[&["diff", "web"], &arguments[..]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(part), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_read_gets_the_fields_that_the_manifest_states() {
    let h = Harness::new("diff-reader").await;
    let pack = Pack::new("web", "1.0.0").objects([settings("blue"), deployment("web", 1)]);
    h.deploy("web", &pack, json!({"drift": {"mode": "Warn"}})).await;
    h.account("reader").await;
    let read = ["get", "list"];
    let rules = [
        rule(&["sherpack.io"], &["sherpackreleases"], &read),
        rule(&["", "apps"], &["secrets", "configmaps", "deployments"], &read),
    ];
    h.grant("reader", &rules).await;
    eventually("the rights are known", async || h.may("reader", "list", "secrets").await).await;
    let text = std::fs::read_to_string(&h.settings.kubeconfig).unwrap();
    let mut config = sherpack_operator::manifest::yaml::parse_value(&text, "kubeconfig").unwrap();
    config["users"][0]["user"]["as"] = json!(h.user("reader").unwrap());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("diff-reader.yaml");
    std::fs::write(&file, config.to_string()).unwrap();

    let ran = h.begin_as(&file, &["diff", "web"]).ended().await;
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert!(ran.err.contains("a dry run was refused (Forbidden)"), "{ran:?}");
    assert!(ran.err.contains("cannot patch resource \"configmaps\""), "{ran:?}");
    let edit = json!({"data": {"color": "red", "more": "theirs"}});
    h.objects.edit("ConfigMap/settings", "kubectl-edit", edit).await;
    let ran = h.begin_as(&file, &["diff", "web", "-o", "json"]).ended().await;
    let change = json!([{"path": "/data/color", "old": "blue", "new": "red", "manager": "kubectl-edit"}]);
    assert_eq!((ran.code, &ran.json()["objects"][0]["changes"]), (1, &change), "{ran:?}");

    h.grant("reader", &rules[..1]).await;
    eventually("the right is gone", async || !h.may("reader", "list", "secrets").await).await;
    let ran = h.begin_as(&file, &["diff", "web"]).ended().await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("secrets"), "{ran:?}");
}
