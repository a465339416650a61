//! What to do about a release that another tool installs: a total function from what is seen to a stance.
//!
//! The state of its newest revision is the lock: its objects are kept while that is deployed, and nothing is touched in
//! any other state. Nothing is ever owned, pruned or deleted, so there is no operation and no record.

/// The newest revision of what is to be guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Nothing,
    /// There is one that cannot be believed; why.
    Unreadable(String),
    Revision {
        revision: u32,
        /// The word of its installer.
        status: String,
    },
}

/// Everything that the stance depends on.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    pub suspended: bool,
    /// Another release of ours that locks or installs the same.
    pub taken_by: Option<String>,
    pub found: &'a Found,
    /// A revision was seen before.
    pub known: bool,
    /// `drift.mode` is not Disabled, and the lock is not paused.
    pub watched: bool,
}

/// What is done about the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stance {
    Suspended,
    Taken {
        by: String,
    },
    /// `lost`: there was a revision once.
    Missing {
        lost: bool,
    },
    Unreadable {
        message: String,
    },
    /// It is being worked on, or nothing of it is deployed.
    StandBack {
        revision: u32,
        status: String,
    },
    /// It is deployed, and the lock is off.
    Open {
        revision: u32,
    },
    Guard {
        revision: u32,
    },
}

/// Decides. Whatever is not known for sure to be deployed is left alone.
#[must_use]
pub fn stance(sight: &Sight<'_>) -> Stance {
    if sight.suspended {
        return Stance::Suspended;
    }
    if let Some(by) = &sight.taken_by {
        return Stance::Taken { by: by.clone() };
    }
    match sight.found {
        Found::Nothing => Stance::Missing { lost: sight.known },
        Found::Unreadable(message) => Stance::Unreadable { message: message.clone() },
        Found::Revision { revision, status } if status != "deployed" => {
            Stance::StandBack { revision: *revision, status: status.clone() }
        }
        Found::Revision { revision, .. } if sight.watched => Stance::Guard { revision: *revision },
        Found::Revision { revision, .. } => Stance::Open { revision: *revision },
    }
}

/// Whether its installer works on the release in this state, so that another one follows by itself.
#[must_use]
pub fn is_transitional(status: &str) -> bool {
    status.starts_with("pending-") || matches!(status, "uninstalling" | "recovering")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(status: &str) -> Found {
        Found::Revision { revision: 3, status: status.to_owned() }
    }

    fn sight(found: &Found) -> Sight<'_> {
        Sight { suspended: false, taken_by: None, found, known: true, watched: true }
    }

    #[test]
    fn only_what_is_deployed_is_guarded() {
        assert_eq!(stance(&sight(&revision("deployed"))), Stance::Guard { revision: 3 });
        let others = [
            "pending-install",
            "pending-upgrade",
            "pending-rollback",
            "uninstalling",
            "uninstalled",
            "failed",
            "superseded",
            "unknown",
            "",
            "Deployed",
        ];
        for status in others {
            let back = Stance::StandBack { revision: 3, status: status.to_owned() };
            assert_eq!(stance(&sight(&revision(status))), back);
            assert_eq!(is_transitional(status), status.starts_with("pending") || status == "uninstalling");
        }
        assert_eq!(stance(&sight(&Found::Nothing)), Stance::Missing { lost: true });
        assert_eq!(
            stance(&Sight { known: false, ..sight(&Found::Nothing) }),
            Stance::Missing { lost: false }
        );
        let damaged = Found::Unreadable("damaged".to_owned());
        assert_eq!(stance(&sight(&damaged)), Stance::Unreadable { message: "damaged".to_owned() });
    }

    #[test]
    fn whoever_is_suspended_or_second_looks_at_nothing() {
        let deployed = revision("deployed");
        assert_eq!(stance(&Sight { suspended: true, ..sight(&deployed) }), Stance::Suspended);
        let second = Sight { taken_by: Some("a/b".to_owned()), ..sight(&deployed) };
        assert_eq!(stance(&second), Stance::Taken { by: "a/b".to_owned() });
        assert_eq!(stance(&Sight { watched: false, ..sight(&deployed) }), Stance::Open { revision: 3 });
    }
}
