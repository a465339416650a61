use serde_json::{Map, Value};

use super::places::{Path, Place, at};
use crate::manifest::managed_fields::fields::{Child, Fields, Step, key_fields, names_element};

/// What the API server takes a place for.
#[derive(Default)]
pub(super) struct Landing {
    /// It lies inside of something that is one value.
    pub atomic: bool,
    /// It is one of the fields that tell a list item from others.
    pub is_key: bool,
    /// It lies inside of a list item that the other body does not have: the manager that makes that item makes all of it. Without another
    /// body: one that no manager holds, so that it may be missing.
    pub missing: bool,
    /// The same place in the other body, as far as that has it.
    pub there: Option<Path>,
}

/// `sets` are those of all managers: each of them knows how the lists that it has fields of are kept.
pub(super) fn land(body: &Value, path: &[Place], sets: &[Fields<'_>], other: Option<&Value>) -> Landing {
    let mut landing = Landing::default();
    let mut sets = sets.to_vec();
    let (mut here, mut there, mut to) = (Some(body), other, Path::new());
    let mut keys: Option<Map<String, Value>> = None;
    for (n, place) in path.iter().enumerate() {
        let next = here.and_then(|here| at(here, std::slice::from_ref(place)));
        let step = match (place, next) {
            (Place::Key(key), _) => Step::Field(key),
            (Place::Index(index), Some(item)) => Step::Element(*index, item),
            (Place::Index(_), None) => return landing,
        };
        let last = n + 1 == path.len();
        let inside = !last && matches!(place, Place::Index(_));
        let (mut known_as, mut like) = (None, None);
        if !landing.atomic {
            if let Place::Key(key) = place {
                landing.is_key = last && keys.as_ref().is_some_and(|keys| keys.contains_key(key));
            }
            known_as = sets.iter().find_map(|set| set.element_key(step));
            keys = known_as.and_then(key_fields);
            if let (Place::Index(_), Some(item), None) = (place, next, known_as) {
                like = sets.iter().find_map(|set| set.key_like(item));
            }
            landing.missing |= inside && other.is_none() && known_as.is_none() && !sets.is_empty();
            let mut leaf = false;
            let mut inner = Vec::new();
            for set in &sets {
                match set.child(step) {
                    Child::Absent => {}
                    Child::Leaf => leaf = true,
                    Child::Inner(set) => inner.push(set),
                }
            }
            landing.atomic = leaf && inner.is_empty() && !last;
            sets = inner;
        }
        let place = match (place, known_as.or(like.as_deref()), there.and_then(Value::as_array)) {
            (Place::Index(_), Some(key), Some(items)) => {
                let mut all = items.iter().enumerate();
                all.find(|(i, item)| names_element(key, *i, item)).map(|(i, _)| Place::Index(i))
            }
            _ => Some(place.clone()),
        };
        there = place.as_ref().and_then(|place| at(there?, std::slice::from_ref(place)));
        landing.missing |= inside && other.is_some() && there.is_none();
        to.extend(place);
        here = next;
    }
    landing.there = there.is_some().then_some(to);
    landing
}

pub(super) fn steps<'b>(body: &'b Value, path: &'b [Place]) -> Vec<Step<'b>> {
    let mut here = body;
    let mut steps = Vec::with_capacity(path.len());
    for place in path {
        let Some(next) = at(here, std::slice::from_ref(place)) else { break };
        steps.push(match place {
            Place::Key(key) => Step::Field(key),
            Place::Index(index) => Step::Element(*index, next),
        });
        here = next;
    }
    steps
}
