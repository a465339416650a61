//! CustomResourceDefinitions of a pack: which release writes one, and what becomes of it.

pub mod course;

use std::collections::BTreeMap;

use super::Error;
use super::annotations::wrong;
use crate::api::names;
use crate::crd::policy::Policy;
use crate::manifest::Object;

/// The policy of a definition: its annotation; without, what is to be kept is shared.
///
/// # Errors
/// A word that is no policy.
pub fn policy(object: &Object) -> Result<Policy, Error> {
    let wrong = |value: String| wrong(&object.id, names::CRD_POLICY, &value, "managed, shared or external");
    Policy::of(&object.body).map_err(wrong)
}

/// Who wrote a definition that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Author {
    /// This release, or one that it follows.
    Us,
    /// Another release, which lives.
    Release(String),
    /// A release that is gone.
    Departed,
    /// Something else; what, as far as it is known.
    Unknown(Option<String>),
}

/// Who wrote a live object, by the marker in its annotations; `whose` tells what became of the release with a uid.
pub fn author(annotations: Option<&BTreeMap<String, String>>, whose: impl FnOnce(&str) -> Author) -> Author {
    match super::marked_by(annotations) {
        Some(by) => whose(by),
        None => {
            let helm = annotations.and_then(|all| all.get("meta.helm.sh/release-name"));
            Author::Unknown(helm.cloned())
        }
    }
}

/// Which release is to write a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This one.
    Us,
    /// Another tool does, and this one leaves it as it is.
    Another(Option<String>),
    /// It cannot be said: another living release has it for itself, or this one wants it for itself.
    Conflict(String),
    /// It exists, and no release asked to take it over.
    NotOwned(Option<String>),
}

/// Which release writes a definition that exists.
///
/// A managed one is written by its release alone. A shared one is written by the release that wrote it first, as long as
/// that lives; then by whichever of the others comes first. What none of us wrote is taken over only when that is asked
/// for; a shared one is then used as it is.
#[must_use]
pub fn writer(policy: Policy, live: Policy, author: Author, adopt: bool) -> Writer {
    match (policy, author) {
        (Policy::External, Author::Release(owner)) => Writer::Another(Some(owner)),
        (Policy::External, _) => Writer::Another(None),
        (_, Author::Us | Author::Departed) => Writer::Us,
        (Policy::Shared, Author::Release(owner)) if live != Policy::Managed => Writer::Another(Some(owner)),
        (_, Author::Release(owner)) => Writer::Conflict(owner),
        (_, Author::Unknown(_)) if adopt => Writer::Us,
        (Policy::Shared, Author::Unknown(by)) => Writer::Another(by),
        (Policy::Managed, Author::Unknown(by)) => Writer::NotOwned(by),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(annotations: &[(&str, &str)]) -> Object {
        let mut object = Object::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"}
        }))
        .unwrap();
        annotations.iter().for_each(|(key, value)| object.set_annotation(key, value));
        object
    }

    #[test]
    fn a_policy_is_read_from_the_annotation_and_from_keep() {
        let (ours, helm) = ("sherpack.io/crd-policy", "helm.sh/resource-policy");
        for (annotations, wanted) in [
            (&[][..], Policy::Managed),
            (&[(ours, "managed")], Policy::Managed),
            (&[(ours, "Shared")], Policy::Shared),
            (&[(ours, " external ")], Policy::External),
            (&[(helm, "keep")], Policy::Shared),
            (&[(helm, "keep"), (ours, "managed")], Policy::Managed),
            (&[("sherpack.io/resource-policy", "keep")], Policy::Shared),
        ] {
            assert_eq!(policy(&definition(annotations)), Ok(wanted), "{annotations:?}");
        }
        let wrong = policy(&definition(&[(ours, "mine")])).unwrap_err();
        assert_eq!(wrong.reason(), "AnnotationInvalid");
        assert!(wrong.to_string().contains("managed, shared or external"), "{wrong}");
    }

    #[test]
    fn who_writes_a_definition() {
        use Policy::{External, Managed, Shared};
        let other = || Author::Release("apps/b".to_owned());
        let helm = || Author::Unknown(Some("helm".to_owned()));
        let b = || "apps/b".to_owned();
        for (policy, live, author, adopt, wanted) in [
            (Managed, Managed, Author::Us, false, Writer::Us),
            (Managed, Managed, Author::Departed, false, Writer::Us),
            (Shared, Shared, Author::Departed, false, Writer::Us),
            (Managed, Managed, other(), false, Writer::Conflict(b())),
            (Managed, Shared, other(), false, Writer::Conflict(b())),
            (Shared, Managed, other(), false, Writer::Conflict(b())),
            (Shared, Shared, other(), false, Writer::Another(Some(b()))),
            (Shared, Shared, other(), true, Writer::Another(Some(b()))),
            (Managed, Managed, helm(), false, Writer::NotOwned(Some("helm".to_owned()))),
            (Managed, Managed, helm(), true, Writer::Us),
            (Shared, Managed, helm(), false, Writer::Another(Some("helm".to_owned()))),
            (Shared, Managed, helm(), true, Writer::Us),
            (External, Managed, Author::Us, true, Writer::Another(None)),
            (External, Managed, other(), true, Writer::Another(Some(b()))),
            (External, Managed, helm(), true, Writer::Another(None)),
        ] {
            let what = format!("{policy} {live} {author:?} {adopt}");
            assert_eq!(writer(policy, live, author, adopt), wanted, "{what}");
        }
    }
}
