//! One revision against another, object by object.

use std::collections::BTreeMap;

use super::conceal::Secrets;
use super::report::{Change, ObjectLine, Report, What};
use super::subject::Subject;
use crate::cli::output::answer::Failure;
use crate::manifest::differences::{asked_for, compare};
use crate::manifest::{Object, ObjectId, order};
use crate::reconcile::stored_parts;
use crate::storage::Stored;

/// `to` is the newest one unless it is given, `from` the one before `to`.
pub(super) async fn compared(
    subject: &Subject,
    from: Option<u32>,
    to: Option<u32>,
) -> Result<Report, Failure> {
    let to = subject.revision(to).await?;
    let from = match from {
        Some(from) => from,
        None => subject.before(to.record.version).await?,
    };
    let from = subject.revision(Some(from)).await?;
    let secrets = Secrets::of(&[&from, &to]);
    let objects = between(&objects_of(&from)?, &objects_of(&to)?, &secrets);
    Ok(Report {
        release: subject.name.clone(),
        namespace: subject.namespace.clone(),
        from: from.record.version,
        to: Some(to.record.version),
        differs: !objects.is_empty(),
        objects,
        notes: Vec::new(),
    })
}

type Objects = BTreeMap<(i32, ObjectId), Object>;

/// Objects and hooks in the order in which kinds are applied.
fn objects_of(stored: &Stored) -> Result<Objects, Failure> {
    let parts = stored_parts(stored).map_err(|error| error.to_string())?;
    let hooks = parts.hooks.into_iter().map(|hook| hook.object);
    let rank = |id: &ObjectId| i32::from(order::rank(&id.group, &id.kind));
    Ok(parts.objects.into_iter().chain(hooks).map(|one| ((rank(&one.id), one.id.clone()), one)).collect())
}

fn between(old: &Objects, new: &Objects, secrets: &Secrets) -> Vec<ObjectLine> {
    let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    let line = |key: &(i32, ObjectId)| {
        let id = &key.1;
        let (what, changes) = match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => (What::Changed, changes(old, new, secrets)),
            (Some(_), None) => (What::Removed, Vec::new()),
            (None, _) => (What::Added, Vec::new()),
        };
        let same = what == What::Changed && changes.is_empty();
        (!same).then(|| ObjectLine { object: id.to_string(), what, changes })
    };
    keys.into_iter().filter_map(line).collect()
}

fn changes(old: &Object, new: &Object, secrets: &Secrets) -> Vec<Change> {
    let (before, after) = (asked_for(old.body.clone()), asked_for(new.body.clone()));
    let change = |one: &crate::manifest::differences::Difference<'_>| {
        let (old, new) = secrets.values(&new.id, one);
        Change { path: one.pointer(), old, new, manager: None }
    };
    compare(&before, &after).iter().map(change).collect()
}
