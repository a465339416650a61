//! What a roll-out would change, in a line: for people who decide whether it may.

use std::collections::BTreeMap;
use std::fmt;

use crate::manifest::{InventoryEntry, Object, ObjectId};

use super::{Parts, Plan, Step};

/// Names of each kind of change; of more the number is said.
const NAMED: usize = 5;

/// What becomes of which objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Not part of the revision before.
    pub created: Vec<ObjectId>,
    /// Not as the revision before has them.
    pub updated: Vec<ObjectId>,
    /// Objects that are as the revision before has them.
    pub unchanged: usize,
    /// Part of the revision before only, and deleted at the end.
    pub pruned: Vec<ObjectId>,
    /// The same, but adopted: it stays.
    pub handed_back: Vec<ObjectId>,
    /// What runs, in its order.
    pub hooks: Vec<ObjectId>,
}

/// Compares a revision with the one before. `leftovers` is what the new one prunes; what is kept of it is no change.
#[must_use]
pub fn changes(parts: &Parts, plan: &Plan, before: &[Object], leftovers: &[InventoryEntry]) -> Changes {
    let before: BTreeMap<&ObjectId, &Object> = before.iter().map(|object| (&object.id, object)).collect();
    let mut changes = Changes::default();
    for object in &parts.objects {
        match before.get(&object.id) {
            None => changes.created.push(object.id.clone()),
            Some(old) if old.api_version == object.api_version && old.body == object.body => {
                changes.unchanged += 1;
            }
            Some(_) => changes.updated.push(object.id.clone()),
        }
    }
    for entry in leftovers.iter().filter(|entry| !entry.keep) {
        let list = if entry.adopted.is_some() { &mut changes.handed_back } else { &mut changes.pruned };
        list.push(entry.id.clone());
    }
    let hooks = plan.steps.iter().filter_map(|step| match step {
        Step::Hook { hook, .. } => parts.hooks.get(*hook),
        _ => None,
    });
    changes.hooks = hooks.map(|hook| hook.object.id.clone()).collect();
    changes
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (verb, ids) in [
            ("creates", &self.created),
            ("updates", &self.updated),
            ("deletes", &self.pruned),
            ("hands back", &self.handed_back),
            ("runs", &self.hooks),
        ] {
            if ids.is_empty() {
                continue;
            }
            let named: Vec<String> =
                ids.iter().take(NAMED).map(|id| format!("{}/{}", id.kind, id.name)).collect();
            write!(f, "{separator}{verb} {}", named.join(", "))?;
            if let Some(more) = ids.len().checked_sub(NAMED).filter(|more| *more > 0) {
                write!(f, " and {more} more")?;
            }
            separator = "; ";
        }
        if separator.is_empty() {
            return write!(f, "changes no object");
        }
        if self.unchanged > 0 {
            write!(f, "; leaves {} as they are", self.unchanged)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, color: &str) -> Object {
        Object::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"},
            "data": {"color": color},
        }))
        .unwrap()
    }

    fn compared(next: Vec<Object>, before: &[Object], leftovers: &[InventoryEntry]) -> String {
        let parts = crate::plan::split(next).unwrap();
        let plan = crate::plan::roll_out(&parts, crate::plan::Occasion::Upgrade).unwrap();
        changes(&parts, &plan, before, leftovers).to_string()
    }

    fn entry(name: &str, keep: bool) -> InventoryEntry {
        let next = crate::plan::next_inventory(&[object(name, "red")], 1, &[], &[]);
        InventoryEntry { keep, ..next.wanted.into_iter().next().unwrap() }
    }

    #[test]
    fn each_object_is_counted_once() {
        let before = [object("a", "red"), object("b", "red"), object("c", "red")];
        let hook = |name: &str, phase: &str| {
            let mut hook = object(name, "red").body;
            hook["metadata"]["annotations"] = json!({"sherpack.io/hook": phase});
            Object::from_value(hook).unwrap()
        };
        let next = vec![
            object("a", "red"),
            object("b", "blue"),
            object("d", "red"),
            hook("now", "pre-upgrade"),
            hook("later", "post-delete"),
        ];
        assert_eq!(
            compared(next, &before, &[entry("c", false), entry("kept", true)]),
            "creates ConfigMap/d; updates ConfigMap/b; deletes ConfigMap/c; runs ConfigMap/now; leaves 1 as they are"
        );
        assert_eq!(compared(before.to_vec(), &before, &[]), "changes no object");
    }

    #[test]
    fn of_many_some_are_named() {
        let next: Vec<Object> = (0..7).map(|n| object(&format!("n{n}"), "red")).collect();
        let text = compared(next, &[], &[]);
        assert!(text.ends_with("ConfigMap/n4 and 2 more"), "{text}");
    }
}
