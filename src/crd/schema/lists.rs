use serde_json::{Map, Value};

use super::{Compare, META, Said, Sense, Turn, map};
use crate::crd::path::{Path, Step};
use crate::crd::same::{said, same};
use crate::crd::{Kind, Severity};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

impl Compare<'_> {
    pub(super) fn items(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
    ) {
        match (said(old, "items"), said(new, "items")) {
            (None, None) => {}
            (Some(old), Some(new)) => self.below(old, new, &at.then(Step::Items), sense),
            (None, to) => {
                let message = "items are described, and may be refused".to_owned();
                self.constraint(Turn::Tighter, "items", at, sense, (None, to), message);
            }
            (from, None) => {
                let message = "items may be anything".to_owned();
                self.constraint(Turn::Looser, "items", at, sense, (from, None), message);
            }
        }
    }

    /// How several appliers share a list or a map.
    pub(super) fn merging(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>) {
        let rows = [
            (Kind::ChangeListType, "x-kubernetes-list-type", "atomic"),
            (Kind::ChangeListMapKeys, "x-kubernetes-list-map-keys", "none"),
            (Kind::ChangeMapType, "x-kubernetes-map-type", "granular"),
        ];
        for (kind, keyword, default) in rows {
            let (from, to) = (said(old, keyword), said(new, keyword));
            if same(keyword, from, to) {
                continue;
            }
            let shown = |value: Option<&Value>| value.map_or_else(|| default.to_owned(), super::brief);
            let message = format!(
                "{keyword} changed from {} to {}: what appliers own is merged in another way",
                shown(from),
                shown(to)
            );
            self.say(Said::new(kind, Severity::Dangerous, from, to), keyword, at, message);
        }
    }

    /// What is kept although no property names it.
    pub(super) fn kept(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>) {
        let (from, to) = (said(old, PRESERVE), said(new, PRESERVE));
        let any_key = said(new, "additionalProperties") == Some(&Value::Bool(true));
        if !same(PRESERVE, from, to) {
            let (said, message) = if to.is_some() {
                (Said::new(Kind::PreserveUnknownFields, Severity::Safe, from, to), "unknown fields are kept")
            } else if any_key {
                let said = Said::new(Kind::PruneUnknownFields, Severity::Dangerous, from, to).pruning();
                (said, "unknown fields inside of other fields are dropped from existing objects")
            } else {
                let said = Said::new(Kind::PruneUnknownFields, Severity::Dangerous, from, to).pruning();
                (said, "unknown fields are dropped from existing objects")
            };
            self.say(said, PRESERVE, at, message.to_owned());
        }
        let (from, to) = (said(old, EMBEDDED), said(new, EMBEDDED));
        if !same(EMBEDDED, from, to) {
            let named = META.iter().all(|field| map(new, "properties").contains_key(*field));
            let (said, message) = if to.is_some() {
                let said = Said::new(Kind::AddEmbeddedResource, Severity::Dangerous, from, to).refusing();
                (said, "it must be a whole object with apiVersion, kind and valid metadata")
            } else if said(new, PRESERVE).is_some() || named {
                let said = Said::new(Kind::RemoveEmbeddedResource, Severity::Warning, from, to);
                (said, "its metadata is no longer checked")
            } else {
                let said = Said::new(Kind::RemoveEmbeddedResource, Severity::Dangerous, from, to).pruning();
                (said, "its apiVersion, kind and metadata are dropped from existing objects")
            };
            self.say(said, EMBEDDED, at, message.to_owned());
        }
    }
}
