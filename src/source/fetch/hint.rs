//! Hints from outside that sources may give something else by now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::fetcher::{Fetcher, Inner};
use super::location::Location;

/// What a hint is about.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// Whatever may change.
    All,
    /// These repositories of registries, without their host.
    Repositories(&'a BTreeSet<String>),
}

impl About<'_> {
    /// What never changes, or is told of by a watch, is not looked at for a hint.
    fn concerns(self, location: &Location) -> bool {
        match (self, location) {
            (_, Location::Flux(..)) => false,
            (_, Location::Oci(artifact)) if artifact.is_fixed() => false,
            (Self::All, _) => true,
            (Self::Repositories(names), Location::Oci(artifact)) => names.contains(artifact.repository()),
            (Self::Repositories(_), Location::Archive(_) | Location::Repository(_)) => false,
        }
    }
}

/// Takes hints for the sources of one [`Fetcher`].
#[derive(Clone)]
pub struct Hints(Arc<Inner>);

impl Fetcher {
    #[must_use]
    pub fn hints(&self) -> Hints {
        Hints(self.inner())
    }
}

impl Hints {
    /// Has the sources looked at that the hint is about and that a release of the namespace uses (`None`: of any); gives how many.
    /// A look that is under way is followed by another one.
    pub fn look(&self, namespace: Option<&str>, about: About<'_>) -> usize {
        let now = Instant::now();
        let is_named = matches!(about, About::Repositories(_));
        self.0.hint(namespace, |location| about.concerns(location), (now, is_named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::http::Url;
    use crate::source::oci::{Artifact, Wanted};

    #[test]
    fn a_hint_is_about_what_may_change() {
        let url = || Url::parse("https://r/web").unwrap();
        let oci = |wanted| Location::Oci(Artifact::parse("oci://r/team/web", wanted, false).unwrap());
        let names = ["team/web".to_owned()].into();
        let other = ["web".to_owned()].into();
        for (location, all, named) in [
            (Location::Archive(url()), true, false),
            (Location::Flux(url(), String::new()), false, false),
            (oci(Wanted::Tag("stable".to_owned())), true, true),
            (oci(Wanted::Range("1.x".to_owned())), true, true),
            (oci(Wanted::Digest(format!("sha256:{}", "1".repeat(64)))), false, false),
        ] {
            assert_eq!(About::All.concerns(&location), all, "{location:?}");
            assert_eq!(About::Repositories(&names).concerns(&location), named, "{location:?}");
            assert!(!About::Repositories(&other).concerns(&location), "{location:?}");
        }
    }
}
