//! Whether a GitOps controller writes the spec of a release from Git, and would undo what is changed here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

/// Who applies a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Keeper {
    /// Such as `Flux Kustomization flux-system/apps`.
    name: String,
    /// It says something of the field itself.
    owns: bool,
}

impl Keeper {
    /// Reads labels, annotations and field managers; `field` is a path below `spec`, such as `suspend`.
    pub(in crate::cli) fn of(meta: &ObjectMeta, field: &str) -> Option<Self> {
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let flux = |kind: &str| {
            let name = label(&format!("{kind}.toolkit.fluxcd.io/name"))?;
            let namespace = label(&format!("{kind}.toolkit.fluxcd.io/namespace"));
            Some(namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}")))
        };
        let managers: Vec<&ManagedFieldsEntry> = meta.managed_fields.iter().flatten().collect();
        let writes = |manager: &str| managers.iter().any(|entry| entry.manager.as_deref() == Some(manager));
        let argo = annotation("argocd.argoproj.io/tracking-id")
            .map(|id| id.split(':').next().unwrap_or_default().to_owned())
            .or_else(|| label("argocd.argoproj.io/instance"));
        let (name, manager) = if let Some(name) = flux("kustomize") {
            (format!("Flux Kustomization {name}"), "kustomize-controller")
        } else if let Some(name) = flux("helm") {
            (format!("Flux HelmRelease {name}"), "helm-controller")
        } else if let Some(name) = argo {
            (format!("Argo CD application {name}"), "argocd-controller")
        } else if writes("kustomize-controller") {
            ("Flux".to_owned(), "kustomize-controller")
        } else if writes("helm-controller") {
            ("Flux".to_owned(), "helm-controller")
        } else if writes("argocd-controller") {
            ("Argo CD".to_owned(), "argocd-controller")
        } else {
            return None;
        };
        let owns = managers.iter().filter(|entry| entry.manager.as_deref() == Some(manager)).any(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            fields.is_some_and(|fields| fields["f:spec"].get(format!("f:{field}")).is_some())
        });
        Some(Self { name, owns })
    }

    /// The warning for a change of `field`.
    pub(in crate::cli) fn warning(&self, field: &str) -> String {
        let Self { name, owns } = self;
        if *owns {
            format!(
                "warning: {name} applies this release from Git and sets spec.{field}: its next sync undoes this \
                 change; make it in Git as well"
            )
        } else {
            format!(
                "warning: {name} applies this release from Git: a sync that says otherwise undoes this change of \
                 spec.{field}; make it in Git as well if it is to last"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn keeper(meta: Value) -> Option<(String, bool)> {
        let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
        Keeper::of(&meta, "suspend").map(|keeper| (keeper.name, keeper.owns))
    }

    fn managed(manager: &str, fields: Value) -> Value {
        json!([{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}])
    }

    #[test]
    fn whoever_applies_a_release_from_git_is_known_by_its_marks() {
        let flux =
            json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "f"});
        let suspend = json!({"f:spec": {"f:suspend": {}}});
        let argo = json!({"argocd.argoproj.io/tracking-id": "shop:sherpack.io/SherpackRelease:apps/web"});
        for (meta, expected) in [
            (json!({}), None),
            (json!({"managedFields": managed("kubectl", suspend.clone())}), None),
            (json!({"labels": flux}), Some(("Flux Kustomization f/apps", false))),
            (
                json!({"labels": flux, "managedFields": managed("kustomize-controller", suspend.clone())}),
                Some(("Flux Kustomization f/apps", true)),
            ),
            (json!({"labels": {"helm.toolkit.fluxcd.io/name": "a"}}), Some(("Flux HelmRelease a", false))),
            (json!({"annotations": argo}), Some(("Argo CD application shop", false))),
            (json!({"labels": {"argocd.argoproj.io/instance": "a"}}), Some(("Argo CD application a", false))),
            (json!({"managedFields": managed("argocd-controller", suspend)}), Some(("Argo CD", true))),
            (json!({"managedFields": managed("kustomize-controller", json!({}))}), Some(("Flux", false))),
        ] {
            let expected = expected.map(|(name, owns)| (name.to_owned(), owns));
            assert_eq!(keeper(meta.clone()), expected, "{meta}");
        }
    }

    #[test]
    fn the_warning_names_the_field_and_who_undoes_it() {
        let keeper = Keeper { name: "Flux".to_owned(), owns: true };
        assert!(keeper.warning("suspend").contains("sets spec.suspend: its next sync undoes"));
        let keeper = Keeper { owns: false, ..keeper };
        assert!(keeper.warning("rollbackTo").contains("of spec.rollbackTo"));
    }
}
