//! Releases whose finalizer is gone, while our watch still shows them.
//!
//! A watch may be seconds behind. What it shows then has no deletion and no records any more: it would be installed once more, or
//! reported as lost, and nothing would ever take that away.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::release::ReleaseKey;

/// The uids of releases that were let go.
#[derive(Default)]
pub struct LetGo {
    uids: Mutex<HashMap<ReleaseKey, String>>,
}

impl LetGo {
    /// Takes note of one. `watched`: the uid that the watch shows under a name; whom it shows no more is forgotten.
    pub(in crate::reconcile) fn add(
        &self,
        key: &ReleaseKey,
        uid: Option<String>,
        watched: impl Fn(&ReleaseKey) -> Option<String>,
    ) {
        let mut uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
        uids.extend(uid.map(|uid| (key.clone(), uid)));
        uids.retain(|key, uid| watched(key).as_ref() == Some(uid));
    }

    /// Whether this very release was let go.
    pub(in crate::reconcile) fn contains(&self, key: &ReleaseKey, uid: Option<&str>) -> bool {
        let uids = self.uids.lock().unwrap_or_else(PoisonError::into_inner);
        uids.get(key).is_some_and(|gone| Some(gone.as_str()) == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_remembered_until_the_watch_knows_that_it_is_gone() {
        let key = |name: &str| ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() };
        let let_go = LetGo::default();
        let uid = |text: &str| Some(text.to_owned());
        let_go.add(&key("a"), uid("1"), |_| uid("1"));
        assert!(let_go.contains(&key("a"), Some("1")));
        assert!(!let_go.contains(&key("a"), Some("2")), "it was made anew");
        assert!(!let_go.contains(&key("b"), Some("1")));
        let_go.add(&key("b"), uid("3"), |of| if of.name == "b" { uid("3") } else { None });
        assert!(!let_go.contains(&key("a"), Some("1")) && let_go.contains(&key("b"), Some("3")));
    }
}
