//! From what is known of a definition to what would become of it, by the rules of the operator. No IO.

use serde_json::Value;

use super::report::{DefinitionLine, Problem, Would};
use crate::api::{CrdUpgrade, reasons};
use crate::cluster::{self, Holder};
use crate::crd::policy::Policy;
use crate::crd::strategy::{Step, step};
use crate::crd::{Analysis, Definition, Evidence, analyze, introduce, token};
use crate::manifest::Object;
use crate::pack::DefinitionWishes;
use crate::plan::definitions::{self, Author, Writer, writer};
use crate::reconcile;

/// A definition that the pack ships.
pub(super) struct Candidate {
    pub(super) object: Object,
    pub(super) file: String,
    pub(super) wishes: DefinitionWishes,
}

/// The one that exists.
pub(super) struct Live {
    pub(super) body: Value,
    pub(super) author: Author,
    pub(super) leaving: bool,
}

/// What the release says of definitions.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) install: Option<bool>,
    /// From the command line, else from the release.
    pub(super) strategy: Option<CrdUpgrade>,
    pub(super) confirmed: Vec<String>,
    pub(super) adopt: bool,
}

/// What is to be found out next.
pub(super) enum Course {
    Settled(DefinitionLine),
    /// Whether the API server would take it.
    Try(DefinitionLine),
    /// What its objects say.
    Weigh(Box<Weighed>),
}

/// A change of a definition that exists.
pub(super) struct Weighed {
    pub(super) old: Definition,
    pub(super) new: Definition,
    pub(super) analysis: Analysis,
    line: DefinitionLine,
}

/// What would become of a definition as far as it can be told without its objects.
pub(super) fn course(candidate: &Candidate, live: Option<&Live>, rules: &Rules) -> Course {
    let Candidate { object, file, wishes } = candidate;
    let mut line = DefinitionLine {
        name: object.id.name.clone(),
        file: Some(file.clone()),
        would: Would::Refused,
        policy: Policy::default(),
        strategy: None,
        verdict: None,
        changes: Vec::new(),
        confirm: None,
        problem: None,
    };
    let settled = |line: DefinitionLine, would: Would, problem: Problem| {
        Course::Settled(DefinitionLine { would, problem: Some(problem), ..line })
    };
    line.policy = match definitions::policy(object) {
        Ok(policy) => policy,
        Err(error) => return settled(line, Would::Refused, Problem::new(error.reason(), &error)),
    };
    let new = match Definition::from_value(&object.body) {
        Ok(new) => new,
        Err(error) => return settled(line, Would::Refused, Problem::new(error.reason(), &error)),
    };
    if line.policy == Policy::External {
        let problem = Problem::new("External", "its policy is external, so it is neither made nor changed");
        return settled(line, Would::Leave, problem);
    }
    let Some(live) = live else {
        line.would = Would::Create;
        if !rules.install.or(wishes.install).unwrap_or(true) {
            let problem = Problem::new("NotInstalled", "definitions that do not exist are not installed");
            return settled(line, Would::Leave, problem);
        }
        line.tell_of(introduce(&new));
        return Course::Try(line);
    };
    let refused =
        |line, error: &cluster::Error| settled(line, Would::Refused, Problem::new(error.reason(), error));
    if live.leaving {
        return refused(line, &cluster::Error::Terminating { id: object.id.clone() });
    }
    let live_policy = Policy::of(&live.body).unwrap_or_default();
    match writer(line.policy, live_policy, live.author.clone(), rules.adopt) {
        Writer::Us => {}
        Writer::Another(by) => {
            let by = by.unwrap_or_else(|| "somebody else".to_owned());
            return settled(line, Would::Leave, Problem::new("WrittenByAnother", format!("{by} writes it")));
        }
        Writer::Conflict(owner) => {
            let name = object.id.name.clone();
            let error = reconcile::Error::OwnershipConflict { name, owner };
            return settled(line, Would::Stop, Problem::new(error.reason(), &error));
        }
        Writer::NotOwned(helm) => {
            let holder = helm.map_or(Holder::Unknown, Holder::Helm);
            return refused(line, &cluster::Error::NotOwned { id: object.id.clone(), holder });
        }
    }
    // A pack can make a release stricter, but not laxer.
    let from_pack = wishes.upgrade.filter(|wish| *wish != CrdUpgrade::Force);
    let strategy = rules.strategy.or(from_pack).unwrap_or_default();
    line.strategy = Some(strategy);
    let old = match Definition::from_value(&live.body) {
        Ok(old) => old,
        Err(error) => return settled(line, Would::Refused, Problem::new(error.reason(), &error)),
    };
    let analysis = analyze(&old, &new);
    if analysis.changes.is_empty() {
        line.would = Would::Unchanged;
        return Course::Try(line);
    }
    Course::Weigh(Box::new(Weighed { old, new, analysis, line }))
}

impl Weighed {
    /// What would become of it, with what its objects say.
    pub(super) fn judged(self, evidence: Option<&Evidence>, rules: &Rules) -> Course {
        let Self { old, new, analysis, mut line } = self;
        let analysis = evidence.map_or_else(|| analysis.clone(), |evidence| evidence.weigh(analysis.clone()));
        let verdict = analysis.verdict();
        line.tell_of(analysis);
        match step(line.strategy.unwrap_or_default(), verdict, || token(&old, &new), &rules.confirmed) {
            Step::Apply => {
                line.would = Would::Change;
                Course::Try(line)
            }
            Step::Leave => {
                line.would = Would::Leave;
                line.problem =
                    Some(Problem::new("Skipped", "the strategy leaves definitions that exist alone"));
                Course::Settled(line)
            }
            Step::Stop => {
                line.would = Would::Stop;
                let blocked = verdict == crate::crd::Severity::Blocked;
                line.confirm = (!blocked).then(|| token(&old, &new));
                let message = if blocked {
                    "the API server refuses this change".to_owned()
                } else {
                    format!("the change is {verdict}, which the strategy does not make unasked")
                };
                line.problem = Some(Problem::new(reasons::CRD_BREAKING_CHANGE, message));
                Course::Settled(line)
            }
        }
    }
}

impl DefinitionLine {
    /// Takes up what is to be said of a change, if anything.
    fn tell_of(&mut self, analysis: Analysis) {
        if !analysis.changes.is_empty() {
            self.verdict = Some(analysis.verdict());
            self.changes = analysis.changes;
        }
    }

    /// With what the API server said of it.
    pub(super) fn tried(mut self, answer: Result<(), cluster::Error>) -> Self {
        if let Err(error) = answer {
            self.would = Would::Refused;
            self.problem = Some(Problem::new(error.reason(), &error));
        }
        self
    }

    /// Whether custom resources of the pack will be judged by it and not by what is served now.
    pub(super) fn replaces(&self) -> bool {
        matches!(self.would, Would::Create | Would::Change | Would::Stop)
    }
}
