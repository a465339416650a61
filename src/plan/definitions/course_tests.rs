//! Every answer to the question what becomes of a definition, as a table.

use serde_json::json;

use super::*;
use crate::crd::Severity;

/// A definition whose one version has these properties.
fn body(properties: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "annotations": annotations},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}}]
        }
    })
}

fn small() -> Value {
    body(json!({"size": {"type": "integer"}}), json!({}))
}

fn wide() -> Value {
    body(json!({"size": {"type": "integer"}, "colour": {"type": "string"}}), json!({}))
}

fn live(body: Value, author: Author) -> Live {
    Live { body, author, leaving: false }
}

fn asked(
    new: &Value,
    policy: Policy,
    live: Option<&Live>,
    wishes: &DefinitionWishes,
    rules: &Rules,
) -> Course {
    course(Definition::from_value(new).unwrap(), policy, live, wishes, rules).unwrap()
}

/// The answer in a word.
fn word(course: &Course) -> String {
    match course {
        Course::Leave(why) => format!("{why:?}"),
        Course::Refuse(why) => format!("{why:?}"),
        Course::Create(analysis) => format!("Create {}", analysis.changes.len()),
        Course::Unchanged => "Unchanged".to_owned(),
        Course::Change(change) => format!("Change {}", change.analysis.verdict()),
    }
}

fn wishes() -> DefinitionWishes {
    DefinitionWishes::default()
}

#[test]
fn one_that_does_not_exist_is_made_unless_the_release_or_else_the_pack_says_no() {
    for (release, pack, wanted) in [
        (None, None, "Create 0"),
        (None, Some(true), "Create 0"),
        (None, Some(false), "NotInstalled"),
        (Some(true), Some(false), "Create 0"),
        (Some(false), Some(true), "NotInstalled"),
        (Some(false), None, "NotInstalled"),
    ] {
        let rules = Rules { install: release, ..Rules::default() };
        let wishes = DefinitionWishes { install: pack, ..wishes() };
        let found = asked(&small(), Policy::Managed, None, &wishes, &rules);
        assert_eq!(word(&found), wanted, "{release:?} {pack:?}");
    }
}

#[test]
fn one_that_exists_is_compared_whatever_is_said_about_making_it() {
    let rules = Rules { install: Some(false), ..Rules::default() };
    for (old, new, wanted) in [
        (small(), small(), "Unchanged"),
        (small(), wide(), "Change Safe"),
        (wide(), small(), "Change Dangerous"),
    ] {
        let found = asked(&new, Policy::Managed, Some(&live(old, Author::Us)), &wishes(), &rules);
        assert_eq!(word(&found), wanted);
    }
}

#[test]
fn who_wrote_it_decides_before_what_it_says() {
    let helm = || Author::Unknown(Some("helm".to_owned()));
    let other = || Author::Release("apps/b".to_owned());
    for (policy, author, adopt, wanted) in [
        (Policy::External, Author::Us, true, "External"),
        (Policy::Managed, Author::Us, false, "Change Safe"),
        (Policy::Managed, Author::Departed, false, "Change Safe"),
        (Policy::Managed, other(), true, r#"Conflict("apps/b")"#),
        (Policy::Managed, helm(), false, r#"NotOwned(Some("helm"))"#),
        (Policy::Managed, Author::Unknown(None), false, "NotOwned(None)"),
        (Policy::Managed, helm(), true, "Change Safe"),
        (Policy::Shared, helm(), false, r#"WrittenByAnother(Some("helm"))"#),
        (Policy::Shared, Author::Unknown(None), false, "WrittenByAnother(None)"),
    ] {
        let rules = Rules { adopt, ..Rules::default() };
        let live = live(small(), author);
        let found = asked(&wide(), policy, Some(&live), &wishes(), &rules);
        assert_eq!(word(&found), wanted, "{policy} {:?} {adopt}", live.author);
    }
    let shared = live(body(json!({}), json!({"sherpack.io/crd-policy": "shared"})), other());
    let found = asked(&wide(), Policy::Shared, Some(&shared), &wishes(), &Rules::default());
    assert_eq!(word(&found), r#"WrittenByAnother(Some("apps/b"))"#);
}

#[test]
fn one_that_is_being_deleted_stops_the_release_unless_it_is_external() {
    for (policy, wanted) in
        [(Policy::Managed, "Terminating"), (Policy::Shared, "Terminating"), (Policy::External, "External")]
    {
        let leaving = Live { leaving: true, ..live(small(), Author::Us) };
        let found = asked(&small(), policy, Some(&leaving), &wishes(), &Rules::default());
        assert_eq!(word(&found), wanted);
    }
}

#[test]
fn the_strategy_is_the_releases_else_the_packs_and_a_pack_is_laxer_only_where_it_is_trusted() {
    use CrdUpgrade::{Force, Safe, Skip};
    for (release, pack, trust_pack, wanted) in [
        (None, None, false, Safe),
        (None, Some(Skip), false, Skip),
        (None, Some(Force), false, Safe),
        (None, Some(Force), true, Force),
        (Some(Safe), Some(Force), true, Safe),
        (Some(Safe), Some(Skip), true, Safe),
        (Some(Force), Some(Safe), false, Force),
    ] {
        let rules = Rules { upgrade: release, trust_pack, ..Rules::default() };
        let wishes = DefinitionWishes { upgrade: pack, ..wishes() };
        assert_eq!(rules.strategy(&wishes), wanted, "{release:?} {pack:?} {trust_pack}");
        let found = asked(&wide(), Policy::Managed, Some(&live(small(), Author::Us)), &wishes, &rules);
        match found {
            Course::Leave(Left::Skipped) => assert_eq!(wanted, Skip),
            Course::Change(change) => assert_eq!(change.strategy, wanted),
            other => panic!("{}", word(&other)),
        }
    }
}

#[test]
fn a_change_that_is_skipped_is_not_read() {
    let rules = Rules { upgrade: Some(CrdUpgrade::Skip), ..Rules::default() };
    let broken = live(json!({"kind": "CustomResourceDefinition"}), Author::Us);
    let found = asked(&small(), Policy::Managed, Some(&broken), &wishes(), &rules);
    assert_eq!(word(&found), "Skipped");
    let new = Definition::from_value(&small()).unwrap();
    assert!(course(new, Policy::Managed, Some(&broken), &wishes(), &Rules::default()).is_err());
}

#[test]
fn a_dangerous_change_is_made_when_it_is_forced_or_confirmed_and_else_stops() {
    let change = |strategy| {
        let [old, new] = [wide(), small()].map(|body| Definition::from_value(&body).unwrap());
        Change::between(old, new, strategy).unwrap()
    };
    let token = change(CrdUpgrade::Safe).token();
    assert!(token.starts_with("widgets.example.com@"), "{token}");
    assert_eq!(change(CrdUpgrade::Safe).analysis.verdict(), Severity::Dangerous);
    for (strategy, confirmed, wanted) in [
        (CrdUpgrade::Safe, None, Step::Stop),
        (CrdUpgrade::Safe, Some("widgets.example.com@sha256:0"), Step::Stop),
        (CrdUpgrade::Safe, Some(&*token), Step::Apply),
        (CrdUpgrade::Force, None, Step::Apply),
        (CrdUpgrade::Skip, Some(&*token), Step::Leave),
    ] {
        let confirmed = confirmed.into_iter().map(str::to_owned).collect();
        let rules = Rules { confirmed, ..Rules::default() };
        assert_eq!(change(strategy).step(&rules), wanted, "{strategy:?}");
    }
}
