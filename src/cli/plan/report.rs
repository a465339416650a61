//! What an operation with a pack would do to a cluster, and the text of it.

use serde::Serialize;
use serde_json::Value;

use crate::api::CrdUpgrade;
use crate::crd::policy::Policy;
use crate::crd::text::{Colour, text as changes_of};
use crate::crd::{Analysis, Change, Severity};

/// Characters of a value that are shown.
const VALUE: usize = 120;

/// Everything that was found out. Nothing was written for it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) release: String,
    pub(super) namespace: String,
    /// The revision that it would be.
    pub(super) revision: u32,
    /// Nothing was found that would refuse or stop it.
    pub(super) goes_on: bool,
    pub(super) definitions: Vec<DefinitionLine>,
    pub(super) objects: Vec<ObjectLine>,
    pub(super) prune: Vec<PruneLine>,
    /// What stands in the way of all of it.
    pub(super) problems: Vec<Problem>,
    /// What could not be looked at.
    pub(super) notes: Vec<String>,
}

/// What would become of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Would {
    Create,
    Change,
    Unchanged,
    /// It stays as it is, although the pack has another.
    Leave,
    /// A hook, made anew for each run.
    Run,
    /// It cannot be told before something else is there.
    Unchecked,
    /// The operator would stop before it touches anything.
    Stop,
    /// The API server or the operator would not take it.
    Refused,
}

impl Would {
    fn sign(self) -> char {
        match self {
            Self::Create => '+',
            Self::Change => '~',
            Self::Unchanged => '=',
            Self::Leave => '.',
            Self::Run => '>',
            Self::Unchecked => '?',
            Self::Stop | Self::Refused => '!',
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::Create => "would be created",
            Self::Change => "would be changed",
            Self::Unchanged => "stays as it is",
            Self::Leave => "would be left as it is",
            Self::Run => "would run",
            Self::Unchecked => "not checked",
            Self::Stop => "would stop the release",
            Self::Refused => "would be refused",
        }
    }

    pub(super) fn is_finding(self) -> bool {
        matches!(self, Self::Stop | Self::Refused)
    }
}

/// A stable word, and what people read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    pub(super) reason: String,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(reason: &str, message: impl ToString) -> Self {
        Self { reason: reason.to_owned(), message: message.to_string() }
    }
}

/// A definition of the pack.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionLine {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    pub(super) would: Would,
    pub(super) policy: Policy,
    /// Unset where the strategy was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strategy: Option<CrdUpgrade>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<Severity>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Change>,
    /// What lets exactly this change through, as an entry of `spec.crds.confirmChanges`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confirm: Option<String>,
    #[serde(flatten)]
    pub(super) problem: Option<Problem>,
}

/// An object or hook of the pack.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectLine {
    pub(super) object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    pub(super) would: Would,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<FieldChange>,
    #[serde(flatten)]
    pub(super) problem: Option<Problem>,
}

/// A field that would be another; a value is unset where there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FieldChange {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<Value>,
}

/// An object of the revision before that the pack has no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PruneLine {
    pub(super) object: String,
    /// Why it stays; unset when it would be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<&'static str>,
}

impl Report {
    /// Says whether it could go on.
    pub(super) fn concluded(mut self) -> Self {
        let findings = self.definitions.iter().map(|line| line.would);
        let findings = findings.chain(self.objects.iter().map(|line| line.would)).any(Would::is_finding);
        self.goes_on = !findings && self.problems.is_empty();
        self
    }

    pub(super) fn text(&self, colour: Colour) -> String {
        let mut out = format!("Release {} in namespace {}: ", self.release, self.namespace);
        match self.revision {
            0 | 1 => out += "first revision\n",
            revision => out += &format!("revision {revision}\n"),
        }
        if !self.definitions.is_empty() {
            out += "\nDefinitions:\n";
            self.definitions.iter().for_each(|line| line.write(colour, &mut out));
        }
        if !self.objects.is_empty() {
            out += "\nObjects:\n";
            self.objects.iter().for_each(|line| line.write(&mut out));
        }
        if !self.prune.is_empty() {
            out += "\nPrune:\n";
            for PruneLine { object, kept } in &self.prune {
                match kept {
                    None => out += &format!("  - {object} would be deleted\n"),
                    Some(why) => out += &format!("  . {object} stays: {why}\n"),
                }
            }
        }
        out.push('\n');
        for problem in &self.problems {
            out += &format!("! {}: {}\n", problem.reason, printable(&problem.message));
        }
        for note in &self.notes {
            out += &format!("? {}\n", printable(note));
        }
        out += &self.summary();
        out
    }

    fn summary(&self) -> String {
        let all = self.definitions.iter().map(|line| line.would);
        let all: Vec<Would> = all.chain(self.objects.iter().map(|line| line.would)).collect();
        let pruned = self.prune.iter().filter(|line| line.kept.is_none()).count();
        let count = |wanted: Would| all.iter().filter(|would| **would == wanted).count();
        let bad = all.iter().filter(|would| would.is_finding()).count() + self.problems.len();
        let parts: Vec<String> = [
            (count(Would::Create), "to create"),
            (count(Would::Change), "to change"),
            (count(Would::Unchanged), "unchanged"),
            (count(Would::Leave), "left alone"),
            (count(Would::Run), "to run"),
            (pruned, "to prune"),
            (count(Would::Unchecked), "not checked"),
            (bad, "in the way"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        let parts = if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") };
        let end = if self.goes_on { "It could go on." } else { "It would not go on." };
        format!("{parts}. {end} Nothing was written.\n")
    }
}

impl DefinitionLine {
    fn write(&self, colour: Colour, out: &mut String) {
        let Self { name, would, policy, .. } = self;
        *out += &format!("  {} {name} ({policy}) {}", would.sign(), would.phrase());
        end(self.problem.as_ref(), self.file.as_deref(), *would, out);
        if !self.changes.is_empty() {
            let analysis = Analysis { name: name.clone(), changes: self.changes.clone(), is_new: false };
            for line in changes_of(&analysis, colour).lines() {
                *out += format!("    {line}").trim_end();
                out.push('\n');
            }
        }
        if let Some(token) = &self.confirm {
            *out += &format!("    to let this change through: spec.crds.confirmChanges: [{token}]\n");
        }
    }
}

impl ObjectLine {
    fn write(&self, out: &mut String) {
        *out += &format!("  {} {} {}", self.would.sign(), self.object, self.would.phrase());
        end(self.problem.as_ref(), self.file.as_deref(), self.would, out);
        for FieldChange { path, old, new } in &self.changes {
            let line = match (old, new) {
                (Some(old), Some(new)) => format!("~ {path}: {} -> {}", shown(old), shown(new)),
                (Some(old), None) => format!("- {path}: {}", shown(old)),
                (None, Some(new)) => format!("+ {path}: {}", shown(new)),
                (None, None) => path.clone(),
            };
            *out += &format!("      {}\n", printable(&line));
        }
    }
}

/// The rest of a line: why, and where it stands.
fn end(problem: Option<&Problem>, file: Option<&str>, would: Would, out: &mut String) {
    if let Some(problem) = problem {
        *out += &format!(": {}: {}", problem.reason, printable(&problem.message));
        if let Some(file) = file.filter(|_| would.is_finding()) {
            *out += &format!(" ({file})");
        }
    }
    out.push('\n');
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= VALUE {
        return text;
    }
    text.chars().take(VALUE).chain(['…']).collect()
}

/// Without what would command a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
}
