//! What a watch shows.

use crate::manifest::ObjectId;

/// What one watch shows: objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    pub group: String,
    pub kind: String,
    pub place: Place,
}

/// Which objects of its kind a watch shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Those with the label that it selects, wherever they are.
    Labelled,
    /// All of a namespace; `None`: all of a kind that has no namespace.
    Within(Option<String>),
}

impl Subject {
    /// All objects of a kind that a watch selects.
    #[must_use]
    pub fn kind(group: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned(), place: Place::Labelled }
    }

    /// All objects of the kind and namespace of this one, which carries no label. Never one for each object: whoever
    /// writes a manifest decides how many objects it has.
    #[must_use]
    pub fn around(id: &ObjectId) -> Self {
        Self { place: Place::Within(id.namespace.clone()), ..Self::kind(&id.group, &id.kind) }
    }

    /// A list of this subject tells whether the object is there, which carries our label or not.
    pub(super) fn covers(&self, id: &ObjectId, unlabelled: bool) -> bool {
        let shown = match &self.place {
            Place::Labelled => !unlabelled,
            Place::Within(namespace) => unlabelled && id.namespace == *namespace,
        };
        shown && id.group == self.group && id.kind == self.kind
    }
}
