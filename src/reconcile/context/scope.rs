//! What a pass is about.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Context;
use crate::api::{Approval, DriftMode, DriftPause, Settings, SherpackRelease, names};
use crate::cluster::Cluster;
use crate::manifest;
use crate::plan::Wait;
use crate::release::{Owner, ReleaseKey};
use crate::storage;
use crate::watch::RecordsOf;

/// The release that a pass is about, its settings, and the cluster as the account that acts for it. No stage changes any of it:
/// what a stage changes besides, it names as a field of its own.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Scope<'a> {
    pub ctx: &'a Context,
    pub key: &'a ReleaseKey,
    pub release: &'a SherpackRelease,
    pub settings: &'a Settings,
    pub cluster: &'a Arc<Cluster>,
    /// When the pass began.
    pub now: Timestamp,
}

impl<'a> Scope<'a> {
    /// The uid of the release; empty if the API server gave it none.
    pub(in crate::reconcile) fn uid(&self) -> &'a str {
        self.release.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether a record with this owner is of this release.
    pub(in crate::reconcile) fn owns(&self, owner: &Owner) -> bool {
        owner.namespace == self.key.namespace && owner.name == self.key.name
    }

    /// This long after the pass began.
    pub(in crate::reconcile) fn later(&self, by: Duration) -> Timestamp {
        self.now.checked_add(by).unwrap_or(Timestamp::MAX)
    }

    /// The spec is another one than the last status speaks of.
    pub(in crate::reconcile) fn generation_changed(&self) -> bool {
        let observed = self.release.status.as_ref().and_then(|status| status.observed_generation);
        observed != self.release.metadata.generation
    }

    /// A request by annotation that the status does not acknowledge yet.
    pub(in crate::reconcile) fn request_pending(&self, annotation: &str) -> bool {
        let asked = self.release.metadata.annotations.as_ref().and_then(|all| all.get(annotation));
        let handled = self.release.status.as_ref().and_then(|status| status.last_handled.as_ref());
        let acknowledged = handled.and_then(|handled| match annotation {
            names::RECONCILE_AT => handled.reconcile_at.as_ref(),
            names::RESET_AT => handled.reset_at.as_ref(),
            names::TEST_AT => handled.test_at.as_ref(),
            _ => None,
        });
        asked.is_some() && asked != acknowledged
    }

    /// Digest of the spec.
    pub(in crate::reconcile) fn spec_digest(&self) -> String {
        // What was read as JSON is written as such.
        manifest::digest(&serde_json::to_value(&self.release.spec).unwrap_or_default())
    }

    /// A plan counts only once it is approved.
    pub(in crate::reconcile) fn needs_approval(&self) -> bool {
        self.settings.approval != Approval::Automatic
    }

    /// What others change is put back, or told.
    pub(in crate::reconcile) fn drift_watched(&self) -> bool {
        let paused = matches!(self.settings.drift_pause(self.now), DriftPause::Until(_));
        self.settings.drift != DriftMode::Disabled && !paused
    }

    /// Whether the spec wants such a wait.
    pub(in crate::reconcile) fn waits(&self, wait: Wait) -> bool {
        match wait {
            Wait::Named => true,
            Wait::Wave => self.settings.waves.wait,
            Wait::Last => self.settings.wait,
        }
    }
}

/// Whether our finalizer is on a release.
pub(in crate::reconcile) fn has_finalizer(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER)
}

/// How long it is until then.
pub(in crate::reconcile) fn until(now: Timestamp, at: Timestamp) -> Duration {
    // A little late is better than a little early: an early pass would find nothing to do and come back.
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO) + Duration::from_millis(5)
}

/// Where the records of a release are.
pub(in crate::reconcile) fn records_of(settings: &Settings) -> RecordsOf {
    let Settings { history_storage, history_namespace, target_namespace, release_name, .. } = settings;
    RecordsOf {
        storage: *history_storage,
        namespace: history_namespace.clone(),
        stem: storage::stem(history_namespace, target_namespace, release_name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{HistoryStorage, Policy};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn our_finalizer_is_found_beside_those_of_others() {
        assert!(!has_finalizer(&ObjectMeta::default()));
        for (finalizers, ours) in [
            (vec![], false),
            (vec!["foregroundDeletion"], false),
            (vec![names::FINALIZER], true),
            (vec!["foregroundDeletion", names::FINALIZER], true),
        ] {
            let all = finalizers.iter().map(|&one| one.to_owned()).collect();
            let meta = ObjectMeta { finalizers: Some(all), ..ObjectMeta::default() };
            assert_eq!(has_finalizer(&meta), ours, "{finalizers:?}");
        }
    }

    #[test]
    fn a_pass_comes_back_a_little_late_and_never_early() {
        for (then, millis) in [(10, 10_005), (1, 1005), (0, 5), (-10, 5)] {
            assert_eq!(until(at(0), at(then)), Duration::from_millis(millis), "{then}");
        }
    }

    #[test]
    fn records_are_named_by_their_release_and_by_its_namespace_where_that_is_another() {
        let (secrets, config_maps) = (HistoryStorage::Secret, HistoryStorage::ConfigMap);
        for (more, storage, namespace, stem) in [
            (json!({}), secrets, "apps", "web"),
            (json!({"releaseName": "front"}), secrets, "apps", "front"),
            (json!({"targetNamespace": "shop"}), secrets, "shop", "web"),
            (json!({"history": {"storage": "ConfigMap"}}), config_maps, "apps", "web"),
            (json!({"history": {"namespace": "vault"}}), secrets, "vault", "apps.web"),
            (
                json!({"targetNamespace": "shop", "history": {"namespace": "apps"}}),
                secrets,
                "apps",
                "shop.web",
            ),
            // Files lie where the target is, whatever the spec says.
            (
                json!({"history": {"storage": "File", "namespace": "vault"}}),
                HistoryStorage::File,
                "apps",
                "web",
            ),
        ] {
            let mut release = json!({
                "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
                "metadata": {"name": "web", "namespace": "apps"}, "spec": {"pack": {"path": "web"}}
            });
            for (field, value) in more.as_object().into_iter().flatten() {
                release["spec"][field] = value.clone();
            }
            let release: SherpackRelease = serde_json::from_value(release).unwrap();
            let settings = Settings::without_spec(&release, &Policy::default());
            let expected = RecordsOf { storage, namespace: namespace.to_owned(), stem: stem.to_owned() };
            assert_eq!(records_of(&settings), expected, "{more}");
        }
    }
}
