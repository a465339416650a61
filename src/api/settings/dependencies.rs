//! `spec.dependsOn`: from what a user wrote to the releases that are meant.

use super::policy::{Policy, Tenancy};
use super::tenancy;
use crate::api::{Dependency, Invalid, SherpackRelease};

/// Entries of `spec.dependsOn`.
pub(super) const MAX: usize = 64;

/// A release that has to be Ready first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependsOn {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a release depends on, each release once, in the order of the spec.
///
/// # Errors
/// `InvalidSpec` for an entry that names the release itself, or one that could never become Ready here.
pub fn dependencies(release: &SherpackRelease, policy: &Policy) -> Result<Vec<DependsOn>, Invalid> {
    let own = release.metadata.namespace.as_deref().unwrap_or_default();
    let entries = release.spec.depends_on.as_deref().unwrap_or_default();
    if entries.len() > MAX {
        let message = format!("has {} entries, at most {MAX} are allowed", entries.len());
        return Err(Invalid::spec("spec.dependsOn", message));
    }
    let mut found: Vec<DependsOn> = Vec::with_capacity(entries.len());
    for (number, Dependency { name, namespace }) in entries.iter().enumerate() {
        let refuse = |field: &str, message: String| {
            Err(Invalid::spec(&format!("spec.dependsOn[{number}].{field}"), message))
        };
        let namespace = namespace.as_deref().unwrap_or(own);
        for (field, text) in [("name", name.as_str()), ("namespace", namespace)] {
            if text.is_empty() {
                return refuse(field, "is empty: name a SherpackRelease".to_owned());
            }
        }
        if namespace == own && Some(name) == release.metadata.name.as_ref() {
            return refuse("name", format!("`{name}` is this release itself: remove the entry"));
        }
        if namespace != own && policy.tenancy == Tenancy::Multi {
            let field = format!("spec.dependsOn[{number}].namespace");
            return Err(tenancy::elsewhere(&field, namespace, own));
        }
        if let Some(watched) = policy.watch_namespace.as_ref().filter(|watched| *watched != namespace) {
            let message = format!(
                "`{namespace}` is not watched by this operator, which was started with --watch-namespace={watched}: \
                 name a release in `{watched}`"
            );
            return refuse("namespace", message);
        }
        let dependency = DependsOn { namespace: namespace.to_owned(), name: name.clone() };
        if !found.contains(&dependency) {
            found.push(dependency);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn resolve(entries: Value, policy: &Policy) -> Result<Vec<String>, (String, String)> {
        let release = json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps"}, "spec": {"dependsOn": entries},
        });
        let release = serde_json::from_value(release).expect("a SherpackRelease");
        dependencies(&release, policy)
            .map(|all| all.into_iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect())
            .map_err(|invalid| (invalid.field.clone(), invalid.message))
    }

    #[test]
    fn the_own_namespace_is_meant_when_none_is_named_and_each_release_counts_once() {
        let entries = json!([
            {"name": "db"}, {"name": "db", "namespace": "data"}, {"name": "db", "namespace": "apps"},
            {"name": "web", "namespace": "data"},
        ]);
        let expected = vec!["apps/db".to_owned(), "data/db".to_owned(), "data/web".to_owned()];
        assert_eq!(resolve(entries, &Policy::default()), Ok(expected));
        assert_eq!(resolve(json!(null), &Policy::default()), Ok(Vec::new()));
    }

    #[test]
    fn what_can_never_become_ready_is_refused_by_its_path() {
        let open = Policy::default();
        let apart = Policy { tenancy: Tenancy::Multi, ..Policy::default() };
        let narrow = Policy { watch_namespace: Some("apps".to_owned()), ..Policy::default() };
        let there = || json!([{"name": "a", "namespace": "apps"}, {"name": "db", "namespace": "data"}]);
        for (entries, policy, field, says) in [
            (json!([{"name": "web"}]), &open, "spec.dependsOn[0].name", "this release itself"),
            (json!([{"name": ""}]), &open, "spec.dependsOn[0].name", "is empty"),
            (json!([{"name": "a", "namespace": ""}]), &open, "spec.dependsOn[0].namespace", "is empty"),
            (there(), &apart, "spec.dependsOn[1].namespace", "--tenancy=multi"),
            (there(), &narrow, "spec.dependsOn[1].namespace", "--watch-namespace=apps"),
            (json!(vec![json!({"name": "a"}); 65]), &open, "spec.dependsOn", "at most 64"),
        ] {
            let (found, message) = resolve(entries, policy).expect_err("refused");
            assert_eq!(found, field);
            assert!(message.contains(says), "{message}");
        }
        assert_eq!(resolve(there(), &open).map(|all| all.len()), Ok(2));
    }
}
