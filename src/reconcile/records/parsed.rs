//! The objects of stored revisions. A long manifest takes so long to parse that it does not belong on an async thread: all passes
//! share those.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{self, Object, ObjectId, yaml};
use crate::plan::{self, Parts};
use crate::reconcile::Error;
use crate::release::Shipped;
use crate::storage::Stored;

/// Texts longer than this are long.
const LONG: usize = 128 << 10;

/// The objects of a stored manifest, as they were applied.
pub(in crate::reconcile) async fn objects_in(stored: &Stored) -> Result<Vec<Object>, Error> {
    parsed(stored, |stored| Ok(stored_objects(stored)?)).await
}

/// The objects and hooks of a stored revision.
pub(in crate::reconcile) async fn parts_in(stored: &Stored) -> Result<Parts, Error> {
    parsed(stored, |stored| Ok(stored_parts(stored)?)).await
}

async fn parsed<T: Send + 'static>(
    stored: &Stored,
    parse: fn(&Stored) -> Result<T, Error>,
) -> Result<T, Error> {
    let record = &stored.record;
    let hooks: usize = record.hooks.iter().map(|hook| hook.resource.len()).sum();
    if record.manifest.len() + hooks <= LONG {
        return parse(stored);
    }
    let (stored, revision) = (stored.clone(), record.version);
    let work = tokio::task::spawn_blocking(move || parse(&stored));
    work.await.map_err(|error| Error::ManifestAborted { revision, message: error.to_string() })?
}

/// These documents as one text.
pub(in crate::reconcile) async fn joined(
    bodies: Vec<serde_json::Value>,
    revision: u32,
) -> Result<String, Error> {
    let work = tokio::task::spawn_blocking(move || yaml::join(&bodies));
    work.await.map_err(|error| Error::ManifestAborted { revision, message: error.to_string() })
}

/// The objects of a stored manifest, as they were applied.
fn stored_objects(stored: &Stored) -> Result<Vec<Object>, manifest::Error> {
    let file = format!("the manifest of revision {}", stored.record.version);
    let documents = yaml::parse_documents(&stored.record.manifest, &file)?;
    let shipped: Vec<&Shipped> = stored.private.iter().flat_map(|private| &private.definitions).collect();
    let elsewhere =
        shipped.iter().filter(|shipped| shipped.written).filter_map(|shipped| shipped.body.clone());
    let objects: Vec<Object> =
        elsewhere.chain(documents).map(Object::from_value).collect::<Result<_, _>>()?;
    // A rollback may have to leave a definition of its manifest as it is.
    let left = |object: &Object| shipped.iter().any(|one| !one.written && one.name == object.id.name);
    Ok(objects.into_iter().filter(|object| !object.id.is_definition() || !left(object)).collect())
}

/// The objects and hooks of a stored revision.
pub(crate) fn stored_parts(stored: &Stored) -> Result<Parts, plan::Error> {
    let mut objects = stored_objects(stored)?;
    let file = format!("the hooks of revision {}", stored.record.version);
    for hook in &stored.record.hooks {
        for document in yaml::parse_documents(&hook.resource, &file)? {
            objects.push(Object::from_value(document)?);
        }
    }
    let mut parts = plan::split(objects)?;
    if let Some(private) = &stored.private {
        parts.webhooks_later = webhooks_later(&private.definitions);
        let layers = private.inventory.iter().filter(|entry| entry.layer > 0);
        let layers: BTreeMap<&ObjectId, u32> = layers.map(|entry| (&entry.id, entry.layer)).collect();
        for object in &mut parts.objects {
            object.layer = layers.get(&object.id).copied().unwrap_or(0);
        }
    }
    Ok(parts)
}

/// The definitions whose webhook is set once it can answer.
pub(in crate::reconcile) fn webhooks_later(shipped: &[Shipped]) -> BTreeSet<ObjectId> {
    let later = shipped.iter().filter(|shipped| shipped.webhook_later);
    later.map(|shipped| ObjectId::definition(&shipped.name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::InventoryEntry;
    use crate::release::{Hook, Private};
    use crate::storage::samples;

    const WIDGETS: &str = "widgets.example.com";

    fn definition(note: &str) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": WIDGETS, "annotations": {"from": note}}})
    }

    fn config(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    }

    fn shipped(written: bool, body: Option<Value>, webhook_later: bool) -> Shipped {
        serde_json::from_value(json!({"name": WIDGETS, "policy": "managed", "written": written, "body": body,
            "webhookLater": webhook_later}))
        .unwrap()
    }

    fn stored(manifest: String, hooks: Vec<Hook>, definitions: Vec<Shipped>) -> Stored {
        let mut record = samples::record(3);
        record.manifest = manifest;
        record.hooks = hooks;
        Stored::sample(record, Some(Private { definitions, ..samples::private(3) }))
    }

    fn hook(resource: &str) -> Hook {
        serde_json::from_value(json!({"name": "migrate", "phases": ["pre-install"], "resource": resource}))
            .unwrap()
    }

    /// Each object by its id, a definition with where its text comes from.
    fn told(objects: &[Object]) -> Vec<String> {
        let one = |object: &Object| match object.annotation("from") {
            Some(from) => format!("{} from {from}", object.id.name),
            None => object.id.to_string(),
        };
        objects.iter().map(one).collect()
    }

    #[test]
    fn a_definition_is_read_from_where_its_revision_wrote_it() {
        let (in_manifest, elsewhere) =
            ("widgets.example.com from manifest", "widgets.example.com from elsewhere");
        for (in_the_manifest, definitions, expected) in [
            (false, vec![], vec!["ConfigMap a"]),
            (true, vec![], vec!["ConfigMap a", in_manifest]),
            // What stands in a template has its text in the manifest.
            (true, vec![shipped(true, None, false)], vec!["ConfigMap a", in_manifest]),
            (
                false,
                vec![shipped(true, Some(definition("elsewhere")), false)],
                vec![elsewhere, "ConfigMap a"],
            ),
            // A rollback left it as it was.
            (true, vec![shipped(false, None, false)], vec!["ConfigMap a"]),
            (true, vec![shipped(false, Some(definition("elsewhere")), false)], vec!["ConfigMap a"]),
            (false, vec![shipped(false, Some(definition("elsewhere")), false)], vec!["ConfigMap a"]),
        ] {
            let mut documents = vec![config("a")];
            documents.extend(in_the_manifest.then(|| definition("manifest")));
            let stored = stored(yaml::join(&documents), Vec::new(), definitions);
            assert_eq!(told(&stored_objects(&stored).unwrap()), expected);
        }
    }

    #[test]
    fn the_layer_of_an_object_is_that_of_the_inventory() {
        let mut stored = stored(yaml::join(&[config("a"), config("b")]), Vec::new(), Vec::new());
        let private = stored.private.as_mut().unwrap();
        let entry = private.inventory.remove(0);
        let id = ObjectId { kind: "ConfigMap".to_owned(), name: "b".to_owned(), ..ObjectId::default() };
        private.inventory = vec![InventoryEntry { id, layer: 2, ..entry }];
        let parts = stored_parts(&stored).unwrap();
        assert_eq!(parts.objects.iter().map(|object| object.layer).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn an_object_that_only_has_the_name_of_a_definition_is_applied() {
        let manifest = yaml::join(&[config(WIDGETS)]);
        let stored = stored(manifest, Vec::new(), vec![shipped(false, None, false)]);
        assert_eq!(told(&stored_objects(&stored).unwrap()), ["ConfigMap widgets.example.com"]);
    }

    #[test]
    fn a_record_of_another_tool_is_read_as_its_manifest_says() {
        let documents = [config("a"), definition("manifest")];
        let mut stored = stored(yaml::join(&documents), Vec::new(), vec![shipped(false, None, true)]);
        stored.private = None;
        let parts = stored_parts(&stored).unwrap();
        assert_eq!(told(&parts.objects), ["ConfigMap a", "widgets.example.com from manifest"]);
        assert!(parts.webhooks_later.is_empty());
    }

    #[test]
    fn hooks_of_a_record_become_hooks_by_what_their_own_text_says() {
        let text = |name: &str, annotations: Value| {
            yaml::join(&[json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "annotations": annotations}})])
        };
        let migrate = text("migrate", json!({"helm.sh/hook": "pre-install"}));
        let both = [&*migrate, &*text("smoke", json!({"sherpack.io/hook": "test"}))].join("---\n");
        let plain = text("plain", json!({}));
        for (hooks, expected) in [
            (vec![], (vec![], vec!["ConfigMap a"])),
            (vec![hook(&migrate)], (vec!["migrate"], vec!["ConfigMap a"])),
            (vec![hook(&both)], (vec!["migrate", "smoke"], vec!["ConfigMap a"])),
            (vec![hook(&plain)], (vec![], vec!["ConfigMap a", "Job plain"])),
        ] {
            let parts = stored_parts(&stored(yaml::join(&[config("a")]), hooks, Vec::new())).unwrap();
            let names: Vec<&str> = parts.hooks.iter().map(|hook| &*hook.object.id.name).collect();
            assert_eq!((names, told(&parts.objects)), (expected.0, told_as(&expected.1)));
        }
    }

    fn told_as(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_webhook_is_set_later_only_where_the_revision_says_so() {
        for (definitions, later) in
            [(vec![shipped(true, None, true)], 1), (vec![shipped(true, None, false)], 0)]
        {
            assert_eq!(webhooks_later(&definitions).len(), later);
            let parts = stored_parts(&stored(String::new(), Vec::new(), definitions)).unwrap();
            let expected: BTreeSet<ObjectId> =
                [ObjectId::definition(WIDGETS)].into_iter().take(later).collect();
            assert_eq!(parts.webhooks_later, expected);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_the_revision_and_the_part_of_it() {
        let broken = || "a: [".to_owned();
        for (stored, says) in [
            (stored(broken(), Vec::new(), Vec::new()), "the manifest of revision 3:"),
            (stored(String::new(), vec![hook(&broken())], Vec::new()), "the hooks of revision 3:"),
        ] {
            let error = stored_parts(&stored).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[tokio::test]
    async fn a_long_manifest_is_read_like_a_short_one() {
        for objects in [2, 4000] {
            let documents: Vec<Value> = (0..objects).map(|index| config(&format!("a-{index:04}"))).collect();
            let manifest = joined(documents.clone(), 3).await.unwrap();
            assert_eq!(manifest.len() > LONG, objects > 2);
            let stored = stored(manifest, Vec::new(), Vec::new());
            let bodies =
                |objects: Vec<Object>| objects.into_iter().map(|object| object.body).collect::<Vec<_>>();
            assert_eq!(bodies(objects_in(&stored).await.unwrap()), documents);
            assert_eq!(bodies(parts_in(&stored).await.unwrap().objects), documents);
        }
    }
}
