//! What a render is taken apart into, and what a record says of it and of its pack.

use serde_json::json;

use super::*;

fn definition(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": annotations}})
}

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Documents of templates, and definitions below `crds/`, each with its file.
fn rendered(templates: &[(&str, Value)], shipped: &[(&str, Value)]) -> Rendered {
    let below_crds =
        |(file, body): &(&str, Value)| render::Shipped { file: (*file).to_owned(), body: body.clone() };
    Rendered {
        objects: templates.iter().map(|(_, body)| body.clone()).collect(),
        origins: templates.iter().map(|(file, _)| (*file).to_owned()).collect(),
        notes: Some("have fun".to_owned()),
        values: json!({"replicas": 2}),
        definitions: shipped.iter().map(below_crds).collect(),
        wishes: BTreeMap::new(),
        layers: BTreeMap::new(),
        secrets: Secrets::new(),
    }
}

fn object(body: Value) -> Object {
    Object::from_value(body).unwrap()
}

fn names_of(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| object.id.to_string()).collect()
}

#[test]
fn definitions_are_taken_out_of_templates_and_those_below_crds_stand_first() {
    let mut all = rendered(
        &[
            ("templates/a.yaml", config("a")),
            ("templates/crd.yaml", definition("widgets.example.com", json!({}))),
            ("templates/b.yaml", config("b")),
        ],
        &[("crds/gears.yaml", definition("gears.example.com", json!({})))],
    );
    let (documents, candidates) = definitions(&mut all).unwrap();
    assert_eq!(documents, [(config("a"), 0), (config("b"), 0)]);
    let told: Vec<(&str, bool)> =
        candidates.iter().map(|one| (&*one.object.id.name, one.in_manifest)).collect();
    assert_eq!(told, [("gears.example.com", false), ("widgets.example.com", true)]);
    assert!(all.objects.is_empty() && all.origins.is_empty() && all.definitions.is_empty());
}

#[test]
fn what_packs_inside_render_is_in_their_layers() {
    let mut all = rendered(
        &[("charts/db/templates/a.yaml", config("a")), ("templates/b.yaml", config("b"))],
        &[("charts/db/crds/gears.yaml", definition("gears.example.com", json!({})))],
    );
    all.layers = [(String::new(), 1), ("charts/db/".to_owned(), 0)].into();
    let (documents, candidates) = definitions(&mut all).unwrap();
    assert_eq!(documents, [(config("a"), 0), (config("b"), 1)]);
    assert_eq!(candidates[0].object.layer, 0);
}

#[test]
fn only_a_definition_that_is_no_hook_is_a_candidate() {
    let mut older = definition("a.example.com", json!({}));
    older["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    let mut of_another_group = definition("a.example.com", json!({}));
    of_another_group["apiVersion"] = json!("example.com/v1");
    let annotated = |key: &str| definition("a.example.com", json!({(key): "pre-install"}));
    for (body, candidate) in [
        (definition("a.example.com", json!({})), true),
        (definition("a.example.com", Value::Null), true),
        (older, true),
        (of_another_group, false),
        (annotated(names::HOOK), false),
        (annotated(names::HELM_HOOK), false),
        // No hook without a phase.
        (annotated(names::HOOK_WEIGHT), true),
        (config("a"), false),
    ] {
        for mut all in [
            rendered(&[("templates/a.yaml", body.clone())], &[]),
            rendered(&[], &[("crds/a.yaml", body.clone())]),
        ] {
            let (documents, candidates) = definitions(&mut all).unwrap();
            let expected = if candidate { (0, 1) } else { (1, 0) };
            assert_eq!((documents.len(), candidates.len()), expected, "{body}");
        }
    }
}

#[test]
fn each_definition_comes_with_the_wishes_of_its_own_pack() {
    let templates = [
        ("templates/a.yaml", definition("a.example.com", json!({}))),
        ("charts/db/templates/b.yaml", definition("b.example.com", json!({}))),
    ];
    let shipped = [("charts/db/crds/c.yaml", definition("c.example.com", json!({})))];
    let wishes = |keep: bool| pack::DefinitionWishes { keep: Some(keep), ..Default::default() };
    for (known, expected) in [
        (vec![], [None, None, None]),
        (vec![("", true)], [Some(true), Some(true), Some(true)]),
        (vec![("", true), ("charts/db/", false)], [Some(false), Some(true), Some(false)]),
        (vec![("charts/db/", false)], [Some(false), None, Some(false)]),
    ] {
        let mut all = rendered(&templates, &shipped);
        all.wishes = known.iter().map(|(folder, keep)| ((*folder).to_owned(), wishes(*keep))).collect();
        let (_, candidates) = definitions(&mut all).unwrap();
        let kept: Vec<Option<bool>> = candidates.iter().map(|one| one.wishes.keep).collect();
        assert_eq!(kept, expected, "{known:?}");
    }
}

#[test]
fn a_document_that_names_nothing_is_refused_whatever_it_is() {
    let mut nameless = definition("a.example.com", json!({}));
    nameless["metadata"] = json!({});
    let mut generated = config("a");
    generated["metadata"] = json!({"generateName": "a-"});
    for (body, says) in [
        (nameless, "CustomResourceDefinition: field `metadata.name`"),
        (json!({"apiVersion": "v1", "kind": "ConfigMap"}), "ConfigMap: field `metadata.name`"),
        (json!({"kind": "ConfigMap", "metadata": {"name": "a"}}), "ConfigMap/a: field `apiVersion`"),
        // Only a hook may leave its name to the server.
        (generated, "ConfigMap/a-: `metadata.generateName`"),
    ] {
        let laid = lay_out(rendered(&[("templates/a.yaml", body)], &[]), "web");
        let error = laid.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(says), "{error}");
    }
}

#[test]
fn documents_are_laid_out_normalised_and_the_rest_of_the_render_is_kept() {
    let mut a = config("a");
    a["status"] = json!({"phase": "Done"});
    a["data"] = json!({"key": "value", "none": null});
    a["metadata"]["resourceVersion"] = json!("7");
    let crd = definition("widgets.example.com", json!({}));
    let templates = [("templates/a.yaml", a), ("templates/b.yaml", config("b"))];
    let laid = lay_out(rendered(&templates, &[("crds/a.yaml", crd)]), "web").unwrap();
    assert_eq!(names_of(&laid.documents), ["ConfigMap a", "ConfigMap b"]);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"key": "value"}});
    assert_eq!(laid.documents[0].body, body);
    assert_eq!(laid.candidates.len(), 1);
    assert_eq!(laid.rendered.notes.as_deref(), Some("have fun"));
    assert_eq!(laid.rendered.values, json!({"replicas": 2}));
}

#[test]
fn a_hook_without_a_name_gets_one_that_each_revision_of_the_release_gives_again() {
    let hook = |key: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"generateName": "migrate-", "annotations": {(key): "pre-upgrade"}}})
    };
    let named = |release: &str, key: &str| {
        let templates = [("templates/a.yaml", hook(key)), ("templates/b.yaml", hook(key))];
        let laid = lay_out(rendered(&templates, &[]), release).unwrap();
        laid.documents.into_iter().map(|document| document.id.name).collect::<Vec<_>>()
    };
    let given = named("web", names::HOOK);
    assert!(given.iter().all(|name| name.starts_with("migrate-") && name.len() == 16), "{given:?}");
    assert_ne!(given[0], given[1]);
    assert_eq!(named("web", names::HOOK), given);
    assert_eq!(named("web", names::HELM_HOOK), given);
    assert_ne!(named("shop", names::HOOK), given);
}

#[test]
fn a_manifest_leaves_out_only_the_definitions_whose_text_the_record_has_elsewhere() {
    let shipped = |name: &str, body: Option<Value>| -> Shipped {
        serde_json::from_value(json!({"name": name, "policy": "managed", "body": body})).unwrap()
    };
    let [widgets, gears, cogs] = ["widgets.example.com", "gears.example.com", "cogs.example.com"];
    let objects = [
        object(definition(widgets, json!({}))),
        object(definition(gears, json!({}))),
        object(definition(cogs, json!({}))),
        object(config(widgets)),
    ];
    let all = names_of(&objects);
    for (shipped, left_out) in [
        (vec![], None),
        (vec![shipped(widgets, None), shipped(gears, None)], None),
        (vec![shipped(widgets, Some(json!({}))), shipped(gears, None)], Some(0)),
        (vec![shipped(widgets, None), shipped(gears, Some(json!({})))], Some(1)),
        (vec![shipped("other.example.com", Some(json!({})))], None),
    ] {
        let kept: Vec<String> = in_manifest(&objects, &shipped).map(|object| object.id.to_string()).collect();
        let mut expected = all.clone();
        left_out.map(|index: usize| expected.remove(index));
        assert_eq!(kept, expected, "{shipped:?}");
    }
}

#[test]
fn a_record_says_all_of_its_pack_that_the_pack_says_of_itself() {
    let text = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";
    let files = [("Pack.yaml".to_owned(), text.as_bytes().to_vec())];
    let mut pack = pack::from_files(files.into(), &pack::Limits::default()).unwrap();
    let bare = json!({"name": "web", "version": "1.0.0", "description": null, "appVersion": null,
        "kubeVersion": null, "home": null, "icon": null, "sources": [], "keywords": [], "maintainers": [],
        "annotations": {}});
    let full = json!({"name": "shop", "version": "2.1.0-rc.1+build.5", "description": "A shop",
        "appVersion": "6.7.0", "kubeVersion": ">=1.28.0", "home": "https://shop.example.com",
        "icon": "https://shop.example.com/icon.png", "sources": ["https://git.example.com/shop"],
        "keywords": ["shop", "web"],
        "maintainers": [
            {"name": "Ada", "email": "ada@example.com", "url": null},
            {"name": "Bob", "email": null, "url": "https://bob.example.com"},
        ],
        "annotations": {"team": "web"}});
    for metadata in [bare, full] {
        pack.metadata = serde_json::from_value(metadata.clone()).unwrap();
        assert_eq!(serde_json::to_value(identity(&pack)).unwrap(), metadata);
    }
}

#[test]
fn a_pending_record_says_which_operation_runs_and_what_it_follows_on() {
    let started_at: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let timeout = 300;
    for (action, revision, state) in [
        (Action::Install, 1, State::PendingInstall { started_at, timeout }),
        // An install that follows on a failed one.
        (Action::Install, 4, State::PendingInstall { started_at, timeout }),
        (Action::Upgrade, 4, State::PendingUpgrade { started_at, timeout, previous_version: 3 }),
        (Action::Upgrade, 0, State::PendingUpgrade { started_at, timeout, previous_version: 0 }),
        (Action::Rollback, 4, State::PendingRollback { started_at, timeout, target_version: 3 }),
        (Action::Uninstall, 4, State::PendingUninstall { started_at, timeout }),
    ] {
        assert_eq!(pending(action, started_at, timeout, revision), state);
    }
}
