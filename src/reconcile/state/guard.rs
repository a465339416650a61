//! What is remembered of a release that others installed and that is only locked.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::{DriftIgnore, HistoryStorage, IgnoreRule, LockOf, PackStatus};
use crate::manifest::ObjectId;
use crate::manifest::managed_fields::Holder;
use crate::release::guard::Found;
use crate::watch::Newest;

/// What is remembered of a release that another tool installs.
#[derive(Default)]
pub(in crate::reconcile) struct Guard {
    /// Of what all this is known.
    pub(in crate::reconcile) lock: Option<LockOf>,
    pub(in crate::reconcile) head: Option<Head>,
    /// The manifest of `head`, from when it was read until its objects are known.
    pub(in crate::reconcile) manifest: Option<String>,
    /// Whose objects are watched: revision, and resourceVersion of its record.
    pub(in crate::reconcile) tracked: Option<(u32, String)>,
    /// What was left to others then.
    pub(in crate::reconcile) rules: Vec<DriftIgnore>,
    /// What the last spec that could be read leaves to others.
    pub(in crate::reconcile) asked: Option<Vec<Arc<IgnoreRule>>>,
    /// Whose additions were taken away then.
    pub(in crate::reconcile) strict: Vec<String>,
    pub(in crate::reconcile) objects: usize,
    /// Objects that were not looked at since they are watched, or could not be kept.
    pub(in crate::reconcile) due: BTreeSet<ObjectId>,
    /// How the objects are held: for one of which nothing is left to see.
    pub(in crate::reconcile) holder: Option<Holder>,
}

/// The newest revision as it was last read.
pub(in crate::reconcile) struct Head {
    pub(in crate::reconcile) found: Found,
    /// resourceVersion of its record.
    pub(in crate::reconcile) version: String,
    /// Where a Sherpack tool keeps it.
    pub(in crate::reconcile) storage: HistoryStorage,
    /// The chart or pack that it installed.
    pub(in crate::reconcile) pack: Option<PackStatus>,
    /// The installer wrote it by server-side apply.
    pub(in crate::reconcile) server_side: bool,
    /// It is a revision of ours: whose.
    pub(in crate::reconcile) installed_by: Option<String>,
    /// What the watches said when it was read.
    pub(in crate::reconcile) at: Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::reconcile) enum Told {
    References(u64),
    Records([Newest; 2]),
}

impl Head {
    pub(in crate::reconcile) fn nothing(at: Told) -> Self {
        Self {
            found: Found::Nothing,
            version: String::new(),
            storage: HistoryStorage::Secret,
            pack: None,
            server_side: false,
            installed_by: None,
            at,
        }
    }

    pub(in crate::reconcile) fn revision(&self) -> Option<u32> {
        match self.found {
            Found::Revision { revision, .. } => Some(revision),
            Found::Nothing | Found::Unreadable(_) => None,
        }
    }

    pub(in crate::reconcile) fn is_deployed(&self) -> bool {
        matches!(&self.found, Found::Revision { status, .. } if status == "deployed")
    }
}
