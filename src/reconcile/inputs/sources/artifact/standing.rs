//! Whether a Flux source has an artifact to take. Decides, and does no IO.

use crate::api::ArtifactKind;
use crate::cluster::{FluxArtifact, FluxCondition, FluxSource};

/// Why there is nothing to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoArtifact {
    /// Flux is about to make one.
    NotYet(String),
    /// Flux says that it cannot.
    Failed(String),
}

/// The artifact of a source.
///
/// Flux writes the condition Ready before the artifact, so the generation tells whether an artifact is that of the spec. An
/// ExternalArtifact has no such field. While a source is looked at anew, Ready is Unknown and what it gave stays good.
pub(super) fn artifact(source: &FluxSource, kind: ArtifactKind) -> Result<&FluxArtifact, NoArtifact> {
    let status = &source.status;
    // Between two attempts that fail Ready is Unknown for a moment, and FetchFailed stays True.
    let fails = |of: &&FluxCondition| match of.kind.as_str() {
        "Ready" => of.status == "False",
        "FetchFailed" | "Stalled" => of.status == "True",
        _ => false,
    };
    if let Some(failed) = status.conditions.iter().find(fails) {
        return Err(NoArtifact::Failed(format!("it is not Ready: {}", failed.message)));
    }
    let seen = status.observed_generation;
    let current = kind == ArtifactKind::ExternalArtifact || seen == Some(source.generation);
    match &status.artifact {
        Some(artifact) if current => Ok(artifact),
        Some(_) => Err(NoArtifact::NotYet("its artifact is not yet that of its spec".to_owned())),
        None => Err(NoArtifact::NotYet("it has no artifact yet".to_owned())),
    }
}

/// Whether Flux says that it has verified the artifact, which is that of the spec. It takes the condition away with `spec.verify`, and
/// a verification that fails makes the source fail. Nothing verifies an ExternalArtifact.
pub(super) fn is_verified(source: &FluxSource, kind: ArtifactKind) -> bool {
    let says = |of: &FluxCondition| of.kind == "SourceVerified" && of.status == "True";
    kind != ArtifactKind::ExternalArtifact && source.status.conditions.iter().any(says)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn flux_says_by_a_condition_that_it_has_verified_an_artifact() {
        let (git, external) = (ArtifactKind::GitRepository, ArtifactKind::ExternalArtifact);
        for (kind, conditions, verified) in [
            (
                git,
                json!([{"type": "Ready", "status": "True"}, {"type": "SourceVerified", "status": "True"}]),
                true,
            ),
            (git, json!([{"type": "SourceVerified", "status": "False"}]), false),
            (git, json!([{"type": "Ready", "status": "True"}]), false),
            (external, json!([{"type": "SourceVerified", "status": "True"}]), false),
        ] {
            let status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
            let source = FluxSource { version: 1, generation: 1, status };
            assert_eq!(is_verified(&source, kind), verified, "{conditions}");
        }
    }

    #[test]
    fn an_artifact_is_taken_when_it_is_that_of_the_spec_and_the_source_has_not_failed() {
        let made = json!({"url": "http://s/a.tgz", "digest": "sha256:00", "revision": "main@sha1:1"});
        let ready = |status: &str| json!([{"type": "Stalled", "status": "False"}, {"type": "Ready", "status": status, "message": "no such ref"}]);
        let (git, external) = (ArtifactKind::GitRepository, ArtifactKind::ExternalArtifact);
        for (kind, observed, made_one, conditions, expected) in [
            (git, Some(3), true, ready("True"), "taken"),
            (git, Some(3), true, ready("Unknown"), "taken"),
            (git, Some(3), true, json!([]), "taken"),
            (git, Some(2), true, ready("True"), "not yet"),
            (git, Some(-1), false, ready("True"), "not yet"),
            (git, None, false, json!([]), "not yet"),
            (git, Some(3), false, ready("True"), "not yet"),
            (git, Some(3), true, ready("False"), "no such ref"),
            (git, Some(-1), false, ready("False"), "no such ref"),
            (
                git,
                Some(3),
                true,
                json!([{"type": "Ready", "status": "Unknown"}, {"type": "FetchFailed", "status": "True", "message": "no such ref"}]),
                "no such ref",
            ),
            (external, None, true, json!([]), "taken"),
            (external, None, true, ready("False"), "no such ref"),
            (external, None, false, json!([]), "not yet"),
        ] {
            let mut status: Value = json!({"observedGeneration": observed, "conditions": conditions});
            if made_one {
                status["artifact"] = made.clone();
            }
            let status = serde_json::from_value(status).unwrap();
            let found = match artifact(&FluxSource { version: 1, generation: 3, status }, kind) {
                Ok(_) => "taken".to_owned(),
                Err(NoArtifact::NotYet(_)) => "not yet".to_owned(),
                Err(NoArtifact::Failed(why)) => why,
            };
            assert!(found.contains(expected), "{kind:?} {observed:?} {made_one}: {found}");
        }
    }
}
