//! What existing objects say about a change: "may break" becomes "breaks 3 of 412, first apps/w1 at .spec.size".
//!
//! The rules:
//!
//! 1. Blocked stays Blocked and Safe stays Safe: objects have no say in them.
//! 2. A change that refuses or drops something, and concerns some object, is Dangerous, and says which.
//! 3. A change that refuses or drops something, and concerns no object of a walk that saw and could judge them all, is a Warning: clients and
//!    stored manifests may still be concerned. Without any object at all it is one, too.
//! 4. In every other case the severity stays as it was. So a walk that failed, or CEL rules, which cannot be judged here, make nothing harmless.
//!
//! An object that was not valid before is no evidence against the change. Servers from 1.33 on let an unchanged value pass on update even if
//! it is no longer valid, for most constraints; creating the object again, as a restore does, they refuse. Therefore rule 2 has no exception.

use serde_json::Value;

use super::change::{Effect, Probe};
use super::{Analysis, Change, Definition, Fit, Kind, Severity, check};

/// What a walk over the objects of a definition has found so far. Its size does not grow with the objects.
#[derive(Clone, Debug)]
pub struct Evidence {
    objects: u64,
    complete: bool,
    /// One for each change that objects can say something about.
    counts: Vec<Count>,
}

#[derive(Clone, Debug)]
struct Count {
    kind: Kind,
    path: String,
    probe: Probe,
    concerned: u64,
    unclear: u64,
    /// `apps/w1 at .spec.size: is above the maximum 5`
    first: Option<String>,
}

impl Evidence {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(analysis: &Analysis) -> Self {
        let one = |change: &Change| {
            let probe = change.probe.clone().filter(|_| change.severity != Severity::Blocked)?;
            Some(Count {
                kind: change.kind,
                path: change.path.clone(),
                probe,
                concerned: 0,
                unclear: 0,
                first: None,
            })
        };
        Self { objects: 0, complete: false, counts: analysis.changes.iter().filter_map(one).collect() }
    }

    /// Whether a walk could change anything.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.counts.is_empty()
    }

    /// The version in which the objects should be read, so that nothing is converted or defaulted more than need be: the old storage version
    /// when it is served, else the first one that is.
    #[must_use]
    pub fn version(old: &Definition) -> Option<&str> {
        let storage = old.storage().filter(super::definition::Version::served);
        storage
            .or_else(|| old.versions().find(super::definition::Version::served))
            .map(|version| version.name)
    }

    /// Takes an object as the server gave it.
    pub fn add(&mut self, old: &Definition, new: &Definition, object: &Value) {
        self.objects += 1;
        let mut judged: Vec<(String, Option<(Fit, Fit)>)> = Vec::new();
        for count in &mut self.counts {
            let version = &count.probe.version;
            if !judged.iter().any(|(name, _)| name == version) {
                let fits = match (old.schema(version), new.schema(version)) {
                    (Some(old), Some(new)) => Some((check(old, object), check(new, object))),
                    _ => None,
                };
                judged.push((version.clone(), fits));
            }
            let fits = judged.iter().find(|(name, _)| name == version).and_then(|(_, fits)| fits.as_ref());
            let Some((before, after)) = fits else {
                count.unclear += 1;
                continue;
            };
            count.take(before, after, object);
        }
    }

    /// The walk has seen every object.
    #[must_use]
    pub fn complete(self) -> Self {
        Self { complete: true, ..self }
    }

    /// Objects seen.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// The analysis with the severities that follow.
    #[must_use]
    pub fn weigh(&self, mut analysis: Analysis) -> Analysis {
        for count in &self.counts {
            let same = |change: &&mut Change| {
                change.kind == count.kind
                    && change.path == count.path
                    && change.probe.as_ref() == Some(&count.probe)
            };
            if let Some(change) = analysis.changes.iter_mut().find(same) {
                self.judge(count, change);
            }
        }
        analysis
    }

    fn judge(&self, count: &Count, change: &mut Change) {
        if count.concerned > 0 {
            change.severity = Severity::Dangerous;
            let verb = match count.probe.effect {
                Effect::Refused => "breaks",
                Effect::Pruned => "loses data of",
            };
            let first = count.first.as_deref().unwrap_or("one");
            change.message += &format!(" ({verb} {} of {}, first {first})", count.concerned, self.objects);
        } else if self.complete && count.unclear == 0 {
            if change.severity == Severity::Dangerous {
                change.severity = Severity::Warning;
            }
            let none = if self.objects == 0 {
                " (there are no objects)".to_owned()
            } else {
                format!(" (concerns none of {})", self.objects)
            };
            change.message += &none;
        } else if count.unclear > 0 {
            change.message += &format!(" (cannot be told for {} of {})", count.unclear, self.objects);
        } else {
            change.message +=
                &format!(" (not all objects could be read; none of the first {})", self.objects);
        }
    }
}

impl Count {
    fn take(&mut self, before: &Fit, after: &Fit, object: &Value) {
        let field = &self.probe.field;
        let found = match self.probe.effect {
            Effect::Refused => after
                .refused
                .iter()
                .find(|(place, why)| {
                    field.holds(place) && !before.refused.contains(&(place.clone(), why.clone()))
                })
                .map(|(place, why)| format!("{place}: {why}")),
            Effect::Pruned => after
                .pruned
                .iter()
                .find(|place| field.holds(place) && !before.pruned.contains(place))
                .map(ToString::to_string),
        };
        // What could not be told before, either, is no part of the change, unless the change is about that keyword.
        let unclear = self.probe.effect == Effect::Refused
            && after.unclear.iter().any(|doubt| {
                field.holds(&doubt.0) && (self.path.contains(doubt.1) || !before.unclear.contains(doubt))
            });
        if let Some(found) = found {
            self.concerned += 1;
            if self.first.is_none() {
                let text = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
                let name = text("name").unwrap_or("?");
                let of = text("namespace")
                    .map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
                self.first = Some(format!("{of} at {found}"));
            }
        } else if unclear || after.unfinished || before.unfinished {
            self.unclear += 1;
        }
    }
}
