//! What a release refers to besides its own objects.

use std::collections::HashSet;

use crate::api::{ActsAs, Settings};
use crate::cluster::{Reference, Referent};
use crate::reconcile::inputs::sources::{signers, source};
use crate::release::ReleaseKey;

/// Everything in the release's own namespace whose change the release has to hear of.
pub(in crate::reconcile) fn references(settings: &Settings, key: &ReleaseKey) -> HashSet<Reference> {
    let Settings { pack, signatures, values_from, acts_as, .. } = settings;
    let pack = source(pack).references(&key.namespace);
    let signers = signers(signatures, &key.namespace);
    let values = values_from.iter().map(|from| Reference::new(from.kind, &key.namespace, &from.name));
    let account = match acts_as {
        ActsAs::ServiceAccount(name) => Some(Reference::new(Referent::ServiceAccount, &key.namespace, name)),
        ActsAs::Operator | ActsAs::Nobody => None,
    };
    pack.into_iter().chain(signers).chain(values).chain(account).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{Policy, SherpackRelease, validate};

    #[test]
    fn a_release_refers_to_the_objects_of_its_source_of_its_values_and_to_its_account() {
        let release: SherpackRelease = serde_json::from_value(json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "team"},
            "spec": {
                "pack": {"http": {"url": "https://example.com/web.tgz", "secretRef": {"name": "login"}},
                         "verify": {"provider": "minisign", "secretRef": {"name": "signers"}}},
                "targetNamespace": "apps",
                "valuesFrom": [{"kind": "ConfigMap", "name": "common"}, {"kind": "Secret", "name": "login"}],
                "serviceAccountName": "deployer",
            },
        }))
        .unwrap();
        let settings = validate(&release, &Policy::default()).unwrap();
        let found = references(&settings, &ReleaseKey::of(&release));
        let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
        found.sort();
        assert_eq!(
            found,
            [
                "ConfigMap team/common",
                "Secret team/login",
                "Secret team/signers",
                "ServiceAccount team/deployer"
            ]
        );
    }
}
