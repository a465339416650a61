//! What a body says was pushed. Decides, and does no IO.
//!
//! The forms are those of Docker's registry (notifications), Docker Hub, Harbor (its own form and CloudEvents) and GitHub (packages).
//! Anything else, as no body at all, asks for a look at everything that its token is for.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It does not say.
    All,
    /// To these repositories, without their host: a registry often has several names.
    Repositories(BTreeSet<String>),
    /// Nothing. A registry tells of pulls too, and each look at it would be told in turn.
    Nothing,
}

#[derive(Deserialize)]
struct Payload {
    /// Docker's registry.
    events: Option<Vec<Event>>,
    /// Harbor: what happened.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Harbor's own form.
    event_data: Option<Harbor>,
    /// Harbor in CloudEvents.
    data: Option<Harbor>,
    /// Docker Hub.
    push_data: Option<IgnoredAny>,
    repository: Option<Hub>,
    /// GitHub.
    #[serde(alias = "registry_package")]
    package: Option<Package>,
}

#[derive(Deserialize)]
struct Event {
    action: String,
    target: Option<Target>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    repository: Option<String>,
    /// A push is told of for each blob too, before the manifest that makes something of them is there.
    media_type: Option<String>,
}

impl Target {
    fn is_manifest(&self) -> bool {
        let of = |kind: &String| ["manifest", "index"].iter().any(|word| kind.contains(word));
        self.media_type.as_ref().is_none_or(of)
    }
}

#[derive(Deserialize)]
struct Harbor {
    repository: Option<HarborRepository>,
}

#[derive(Deserialize)]
struct HarborRepository {
    repo_full_name: Option<String>,
}

#[derive(Deserialize)]
struct Hub {
    repo_name: Option<String>,
}

#[derive(Deserialize)]
struct Package {
    package_version: Option<PackageVersion>,
}

#[derive(Deserialize)]
struct PackageVersion {
    package_url: Option<String>,
}

/// Harbor's words for a push.
const PUSHED: [&str; 2] = ["PUSH_ARTIFACT", "harbor.artifact.pushed"];

/// What a body says was pushed.
pub(super) fn named(body: &[u8]) -> Named {
    let Ok(payload) = serde_json::from_slice::<Payload>(body) else { return Named::All };
    if let Some(events) = payload.events {
        let pushes = events.into_iter().filter(|event| event.action == "push");
        let targets = pushes.filter_map(|event| event.target).filter(Target::is_manifest);
        return repositories(targets.filter_map(|target| target.repository));
    }
    if let (Some(kind), Some(harbor)) = (payload.kind, payload.event_data.or(payload.data)) {
        if !PUSHED.contains(&kind.as_str()) {
            return Named::Nothing;
        }
        return repositories(harbor.repository.and_then(|of| of.repo_full_name));
    }
    if let (Some(_), Some(hub)) = (payload.push_data, payload.repository) {
        return repositories(hub.repo_name);
    }
    match payload.package.and_then(|package| package.package_version?.package_url) {
        Some(url) => path_of(&url).map_or(Named::All, |path| repositories([path])),
        None => Named::All,
    }
}

fn repositories(names: impl IntoIterator<Item = String>) -> Named {
    let names: BTreeSet<String> = names.into_iter().collect();
    if names.is_empty() { Named::Nothing } else { Named::Repositories(names) }
}

/// The path in `host/path:tag` or `host/path@digest`.
fn path_of(url: &str) -> Option<String> {
    let (_, path) = url.split_once('/')?;
    let path = path.split_once('@').map_or(path, |(path, _)| path);
    let path = path.rsplit_once(':').map_or(path, |(path, _)| path);
    (!path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(body: &Value) -> Named {
        named(body.to_string().as_bytes())
    }

    #[test]
    fn each_form_names_the_repositories_that_were_pushed_to() {
        let web = Named::Repositories(["team/web".to_owned()].into());
        for body in [
            json!({"events": [
                {"action": "pull", "target": {"repository": "team/other"}},
                {"action": "push", "target": {"repository": "team/blob", "mediaType": "application/octet-stream"}},
                {"id": "1", "action": "push", "target": {"repository": "team/web", "tag": "1.0.0",
                    "mediaType": "application/vnd.oci.image.manifest.v1+json"}, "request": {"host": "r"}},
            ]}),
            json!({"type": "PUSH_ARTIFACT", "occur_at": 1, "operator": "ci", "event_data": {
                "resources": [{"digest": "sha256:1", "tag": "1.0.0", "resource_url": "h/team/web:1.0.0"}],
                "repository": {"name": "web", "namespace": "team", "repo_full_name": "team/web", "repo_type": "private"}}}),
            json!({"specversion": "1.0", "type": "harbor.artifact.pushed", "data": {
                "repository": {"name": "web", "repo_full_name": "team/web"}}}),
            json!({"callback_url": "https://x", "push_data": {"tag": "1.0.0", "pusher": "ci"},
                "repository": {"repo_name": "team/web", "namespace": "team"}}),
            json!({"action": "published", "package": {"name": "web", "package_version": {"package_url": "ghcr.io/team/web:1.0.0"}},
                "repository": {"full_name": "team/web"}}),
            json!({"action": "published", "registry_package": {"package_version": {"package_url": "ghcr.io/team/web@sha256:12"}}}),
        ] {
            assert_eq!(of(&body), web, "{body}");
        }
    }

    #[test]
    fn a_registry_that_tells_of_pulls_asks_for_nothing() {
        for body in [
            json!({"events": [{"action": "pull", "target": {"repository": "team/web"}}]}),
            json!({"events": []}),
            json!({"type": "PULL_ARTIFACT", "event_data": {"repository": {"repo_full_name": "team/web"}}}),
            json!({"type": "harbor.artifact.pulled", "data": {"repository": {"repo_full_name": "team/web"}}}),
        ] {
            assert_eq!(of(&body), Named::Nothing, "{body}");
        }
    }

    #[test]
    fn what_names_no_repository_asks_for_everything() {
        for body in
            ["", "payload=%7B%7D", "[]", "{}", "7", "{\"events\": 7}", "{\"zen\": \"Keep it simple.\"}"]
        {
            assert_eq!(named(body.as_bytes()), Named::All, "{body}");
        }
        let push = json!({"ref": "refs/heads/main", "repository": {"full_name": "team/web"}, "commits": []});
        assert_eq!(of(&push), Named::All);
    }
}
