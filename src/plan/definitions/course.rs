//! What becomes of a CustomResourceDefinition that a pack ships. The operator and the command line ask the same here.

use serde_json::Value;

use super::{Author, Writer, writer};
use crate::api::CrdUpgrade;
use crate::crd::policy::Policy;
use crate::crd::policy::strategy::{Step, step};
use crate::crd::{Analysis, Definition, Error, analyze, introduce, token};
use crate::pack::DefinitionWishes;

/// What a release and the operator's flags say of definitions.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `spec.crds.install`; over the wish of the pack.
    pub install: Option<bool>,
    /// `spec.crds.upgrade`; over the wish of the pack.
    pub upgrade: Option<CrdUpgrade>,
    /// `spec.crds.confirmChanges`.
    pub confirmed: Vec<String>,
    /// `spec.install.adopt` is `Unowned`.
    pub adopt: bool,
    /// `--trust-pack-crds`: a pack may make a release laxer.
    pub trust_pack: bool,
}

impl Rules {
    fn installs(&self, wishes: &DefinitionWishes) -> bool {
        self.install.or(wishes.install).unwrap_or(true)
    }

    /// The strategy for a definition that exists. A pack can make a release stricter, but laxer only where it is trusted.
    #[must_use]
    pub fn strategy(&self, wishes: &DefinitionWishes) -> CrdUpgrade {
        let from_pack = wishes.upgrade.filter(|wish| *wish != CrdUpgrade::Force || self.trust_pack);
        self.upgrade.or(from_pack).unwrap_or_default()
    }
}

/// A definition as it exists.
#[derive(Clone, Debug)]
pub struct Live {
    pub body: Value,
    pub author: Author,
    /// It is being deleted.
    pub leaving: bool,
}

/// What becomes of a definition, as far as it can be told without its objects.
#[derive(Debug)]
pub enum Course {
    /// It stays as it is in the cluster, or is not made.
    Leave(Left),
    /// The release cannot go on.
    Refuse(Refusal),
    /// It is new. The API server is asked whether it would take it.
    Create(Analysis),
    /// It says what the pack says already.
    Unchanged,
    /// It changes. What its objects say counts as well.
    Change(Box<Change>),
}

/// Why a definition is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Its policy is external.
    External,
    /// Definitions that do not exist are not made.
    NotInstalled,
    /// Another release or tool writes it; which, as far as it is known.
    WrittenByAnother(Option<String>),
    /// The strategy leaves definitions that exist alone.
    Skipped,
}

/// Why a release cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is being deleted.
    Terminating,
    /// Another release that lives has it.
    Conflict(String),
    /// It exists, and the release does not say to adopt it; who has it, as far as it is known.
    NotOwned(Option<String>),
}

/// A change of a definition that exists.
#[derive(Debug)]
pub struct Change {
    pub old: Definition,
    pub new: Definition,
    pub analysis: Analysis,
    pub strategy: CrdUpgrade,
}

impl Change {
    /// The change from one to the other; `None`: there is none.
    #[must_use]
    pub fn between(old: Definition, new: Definition, strategy: CrdUpgrade) -> Option<Self> {
        let analysis = analyze(&old, &new);
        (!analysis.changes.is_empty()).then_some(Self { old, new, analysis, strategy })
    }

    /// `NAME@DIGEST`, by which a release confirms this change.
    #[must_use]
    pub fn token(&self) -> String {
        token(&self.old, &self.new)
    }

    /// What is done about it, once its objects were [weighed](crate::crd::Evidence::weigh) into the analysis.
    #[must_use]
    pub fn step(&self, rules: &Rules) -> Step {
        step(self.strategy, self.analysis.verdict(), || self.token(), &rules.confirmed)
    }
}

/// What becomes of a definition of a pack. `live`: the one that exists; who wrote it is of no interest for an external one.
///
/// # Errors
/// The one that exists cannot be read as a definition.
pub fn course(
    new: Definition,
    policy: Policy,
    live: Option<&Live>,
    wishes: &DefinitionWishes,
    rules: &Rules,
) -> Result<Course, Error> {
    if policy == Policy::External {
        return Ok(Course::Leave(Left::External));
    }
    let Some(live) = live else {
        return Ok(match rules.installs(wishes) {
            true => Course::Create(introduce(&new)),
            false => Course::Leave(Left::NotInstalled),
        });
    };
    if live.leaving {
        return Ok(Course::Refuse(Refusal::Terminating));
    }
    let live_policy = Policy::of(&live.body).unwrap_or_default();
    match writer(policy, live_policy, live.author.clone(), rules.adopt) {
        Writer::Us => {}
        Writer::Another(by) => return Ok(Course::Leave(Left::WrittenByAnother(by))),
        Writer::Conflict(owner) => return Ok(Course::Refuse(Refusal::Conflict(owner))),
        Writer::NotOwned(holder) => return Ok(Course::Refuse(Refusal::NotOwned(holder))),
    }
    let strategy = rules.strategy(wishes);
    if strategy == CrdUpgrade::Skip {
        return Ok(Course::Leave(Left::Skipped));
    }
    let old = Definition::from_value(&live.body)?;
    Ok(Change::between(old, new, strategy)
        .map_or(Course::Unchanged, |change| Course::Change(Box::new(change))))
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
