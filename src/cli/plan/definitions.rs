//! From what is known of a definition to what would become of it, by the rules of the operator. No IO.

use super::report::{DefinitionLine, Problem, Would};
use crate::api::{CrdUpgrade, reasons};
use crate::cluster;
use crate::crd::policy::Policy;
use crate::crd::policy::strategy::Step;
use crate::crd::{Analysis, Definition, Evidence};
use crate::manifest::Object;
use crate::pack::DefinitionWishes;
use crate::plan::definitions;
use crate::plan::definitions::course::{Change, Course, Left, Live, Refusal, Rules, course};
use crate::reconcile;

/// A definition that the pack ships.
pub(super) struct Candidate {
    pub(super) object: Object,
    pub(super) file: String,
    pub(super) wishes: DefinitionWishes,
}

/// What is to be found out next.
pub(super) enum Next {
    Settled(DefinitionLine),
    /// Whether the API server would take it.
    Try(DefinitionLine),
    /// What its objects say.
    Weigh(Box<Weighed>),
}

/// A change of a definition that exists.
pub(super) struct Weighed {
    pub(super) change: Change,
    line: DefinitionLine,
}

/// What would become of a definition as far as it can be told without its objects.
pub(super) fn next(candidate: &Candidate, live: Option<&Live>, rules: &Rules) -> Next {
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
    line.policy = match definitions::policy(object) {
        Ok(policy) => policy,
        Err(error) => return settled(line, Would::Refused, Problem::new(error.reason(), &error)),
    };
    let new = match Definition::from_value(&object.body) {
        Ok(new) => new,
        Err(error) => return settled(line, Would::Refused, Problem::new(error.reason(), &error)),
    };
    let course = match course(new.clone(), line.policy, live, wishes, rules) {
        Ok(course) => course,
        Err(error) => return settled(line, Would::Refused, Problem::new(error.reason(), &error)),
    };
    match course {
        Course::Create(analysis) => {
            line.would = Would::Create;
            line.tell_of(analysis);
            Next::Try(line)
        }
        Course::Unchanged => {
            line.strategy = Some(rules.strategy(wishes));
            line.would = Would::Unchanged;
            Next::Try(line)
        }
        Course::Change(change) => {
            line.strategy = Some(change.strategy);
            Next::Weigh(Box::new(Weighed { change: *change, line }))
        }
        Course::Leave(Left::Skipped) => skipped(line, new, live),
        Course::Leave(why) => {
            let (reason, message) = why_left(&why);
            settled(line, Would::Leave, Problem::new(reason, message))
        }
        Course::Refuse(why) => {
            let would = if matches!(why, Refusal::Conflict(_)) { Would::Stop } else { Would::Refused };
            let error = reconcile::refused_definition(&object.id, why);
            settled(line, would, Problem::new(error.reason(), &error))
        }
    }
}

fn settled(line: DefinitionLine, would: Would, problem: Problem) -> Next {
    Next::Settled(DefinitionLine { would, problem: Some(problem), ..line })
}

/// The operator does not look at what would change; who asks here wants to know.
fn skipped(mut line: DefinitionLine, new: Definition, live: Option<&Live>) -> Next {
    let strategy = CrdUpgrade::Skip;
    line.strategy = Some(strategy);
    let Some(Ok(old)) = live.map(|live| Definition::from_value(&live.body)) else {
        let (reason, message) = why_left(&Left::Skipped);
        return settled(line, Would::Leave, Problem::new(reason, message));
    };
    match Change::between(old, new, strategy) {
        Some(change) => Next::Weigh(Box::new(Weighed { change, line })),
        None => {
            line.would = Would::Unchanged;
            Next::Settled(line)
        }
    }
}

/// Reason and message.
fn why_left(why: &Left) -> (&'static str, String) {
    match why {
        Left::External => {
            ("External", "its policy is external, so it is neither made nor changed".to_owned())
        }
        Left::NotInstalled => ("NotInstalled", "definitions that do not exist are not installed".to_owned()),
        Left::WrittenByAnother(by) => {
            ("WrittenByAnother", format!("{} writes it", by.as_deref().unwrap_or("another tool")))
        }
        Left::Skipped => ("Skipped", "the strategy leaves definitions that exist alone".to_owned()),
    }
}

impl Weighed {
    /// What would become of it, with what its objects say.
    pub(super) fn judged(self, evidence: Option<&Evidence>, rules: &Rules) -> Next {
        let Self { mut change, mut line } = self;
        if let Some(evidence) = evidence {
            change.analysis = evidence.weigh(change.analysis);
        }
        let verdict = change.analysis.verdict();
        match change.step(rules) {
            Step::Apply => {
                line.would = Would::Change;
                line.tell_of(change.analysis);
                Next::Try(line)
            }
            Step::Leave => {
                line.tell_of(change.analysis);
                let (reason, message) = why_left(&Left::Skipped);
                settled(line, Would::Leave, Problem::new(reason, message))
            }
            Step::Stop => {
                let blocked = verdict == crate::crd::Severity::Blocked;
                line.confirm = (!blocked).then(|| change.token());
                let message = if blocked {
                    "the API server refuses this change".to_owned()
                } else {
                    format!("the change is {verdict}, which the strategy does not make unasked")
                };
                line.tell_of(change.analysis);
                settled(line, Would::Stop, Problem::new(reasons::CRD_BREAKING_CHANGE, message))
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
