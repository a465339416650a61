//! What one needs to be allowed for an operation, compared with what one is allowed. As RBAC compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One thing that an account may or may not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    /// Of the API: get, create, patch, delete.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural of the resource, with `/subresource` if that is meant.
    pub resource: String,
    /// `None` for what has no namespace.
    pub namespace: Option<String>,
    /// Empty: any name.
    pub name: String,
}

/// One rule of what an account may do in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// Only objects of these names; empty: all.
    pub names: Vec<String>,
}

/// Whether the rules of a namespace grant a right in it.
#[must_use]
pub fn grants(rules: &[Rule], right: &Right) -> bool {
    rules.iter().any(|rule| {
        named(&rule.verbs, right.verb)
            && named(&rule.groups, &right.group)
            && covers(&rule.resources, &right.resource)
            && (rule.names.is_empty() || rule.names.contains(&right.name))
    })
}

fn named(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

/// `*` is every resource with its subresources, `*/scale` is that subresource of all; `deployments` is none of its
/// subresources.
fn covers(resources: &[String], wanted: &str) -> bool {
    let any_of = wanted.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    named(resources, wanted) || any_of.is_some_and(|any| resources.contains(&any))
}

/// Kinds of rights, and names for each, that a message lists.
const KINDS: usize = 8;
const NAMES: usize = 3;

/// A list for people, such as `create, patch deployments.apps in apps (api, web)`: one entry for each resource,
/// namespace and set of verbs, bounded.
#[must_use]
pub fn describe(missing: &[Right]) -> String {
    let mut verbs: BTreeMap<(&str, &str, Option<&str>, &str), Vec<&str>> = BTreeMap::new();
    for right in missing {
        let place = (&*right.resource, &*right.group, right.namespace.as_deref(), &*right.name);
        let verbs = verbs.entry(place).or_default();
        if !verbs.contains(&right.verb) {
            verbs.push(right.verb);
        }
    }
    let mut kinds: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for ((resource, group, namespace, name), verbs) in verbs {
        let names: &mut BTreeSet<&str> = kinds.entry((resource, group, namespace, verbs)).or_default();
        names.extend(Some(name).filter(|name| !name.is_empty()));
    }
    let more = kinds.len().saturating_sub(KINDS);
    let entries = kinds.into_iter().take(KINDS).map(|((resource, group, namespace, verbs), names)| {
        let dot = if group.is_empty() { "" } else { "." };
        let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let mut entry = format!("{} {resource}{dot}{group}{place}", verbs.join(", "));
        if !names.is_empty() {
            let hidden = names.len().saturating_sub(NAMES);
            let others = if hidden == 0 { String::new() } else { format!(" and {hidden} more") };
            let shown: Vec<&str> = names.into_iter().take(NAMES).collect();
            // Writing into a String does not fail.
            let _ = write!(entry, " ({}{others})", shown.join(", "));
        }
        entry
    });
    let mut text = entries.collect::<Vec<_>>().join("; ");
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        Rule { verbs: list(verbs), groups: list(groups), resources: list(resources), names: list(names) }
    }

    fn right(verb: &'static str, group: &str, resource: &str, name: &str) -> Right {
        Right {
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: Some("apps".to_owned()),
            name: name.to_owned(),
        }
    }

    #[test]
    fn rules_grant_what_they_name_and_stars_everything() {
        let patch_web = right("patch", "apps", "deployments", "web");
        let granting = [
            rule(&["patch"], &["apps"], &["deployments"], &[]),
            rule(&["get", "patch"], &["", "apps"], &["pods", "deployments"], &["api", "web"]),
            rule(&["*"], &["*"], &["*"], &[]),
            rule(&["*"], &["apps"], &["*"], &["web"]),
        ];
        for rule in &granting {
            assert!(grants(std::slice::from_ref(rule), &patch_web), "{rule:?}");
        }
        let others = [
            rule(&["update"], &["apps"], &["deployments"], &[]),
            rule(&["patch"], &[""], &["deployments"], &[]),
            rule(&["patch"], &["apps"], &["statefulsets"], &[]),
            rule(&["patch"], &["apps"], &["deployments/scale"], &[]),
            rule(&["patch"], &["apps"], &["*/scale"], &[]),
            rule(&["patch"], &["apps"], &["deployments"], &["api"]),
            // Names have no wildcard.
            rule(&["patch"], &["apps"], &["deployments"], &["*"]),
            rule(&[], &[], &[], &[]),
        ];
        for rule in &others {
            assert!(!grants(std::slice::from_ref(rule), &patch_web), "{rule:?}");
        }
        assert!(!grants(&[], &patch_web));
        assert!(!grants(&others, &patch_web), "rules do not add up");
        assert!(grants(&[others.as_slice(), &granting[..1]].concat(), &patch_web));
    }

    #[test]
    fn a_rule_for_some_names_does_not_grant_a_request_without_one() {
        let some = [rule(&["create"], &[""], &["secrets"], &["a"])];
        assert!(!grants(&some, &right("create", "", "secrets", "")));
        assert!(grants(&[rule(&["create"], &[""], &["secrets"], &[])], &right("create", "", "secrets", "")));
    }

    #[test]
    fn a_subresource_needs_a_rule_of_its_own() {
        let exec = right("create", "", "pods/exec", "web");
        assert!(!grants(&[rule(&["*"], &[""], &["pods"], &[])], &exec));
        for resources in ["pods/exec", "*/exec", "*"] {
            assert!(grants(&[rule(&["*"], &[""], &[resources], &[])], &exec), "{resources}");
        }
    }

    #[test]
    fn missing_rights_are_told_by_resource_with_their_verbs_and_names() {
        let mut missing = Vec::new();
        for name in ["web", "api"] {
            for verb in ["get", "patch"] {
                missing.push(right(verb, "apps", "deployments", name));
            }
        }
        missing.push(right("get", "apps", "deployments", "old"));
        missing.push(right("delete", "apps", "deployments", "old"));
        missing.push(right("create", "", "secrets", ""));
        missing.push(Right {
            namespace: None,
            ..right("get", "rbac.authorization.k8s.io", "clusterroles", "r")
        });
        assert_eq!(
            describe(&missing),
            "get clusterroles.rbac.authorization.k8s.io (r); get, delete deployments.apps in apps (old); \
             get, patch deployments.apps in apps (api, web); create secrets in apps"
        );
        assert_eq!(describe(&[]), "");
    }

    #[test]
    fn the_list_is_bounded_and_says_how_much_is_left_out() {
        let many: Vec<Right> =
            (0..50).map(|number| right("get", "", "configmaps", &format!("c{number:02}"))).collect();
        assert_eq!(describe(&many), "get configmaps in apps (c00, c01, c02 and 47 more)");
        let kinds: Vec<Right> =
            (0..50).map(|number| right("get", "", &format!("things{number:02}"), "a")).collect();
        let text = describe(&kinds);
        assert!(text.contains("things07") && !text.contains("things08"), "{text}");
        assert!(text.ends_with("; and 42 more"), "{text}");
    }
}
