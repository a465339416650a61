//! CustomResourceDefinitions of a pack: judged before anything is stored, and before a release takes them along.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::api::{Adopt, Settings, names};
use crate::cluster::{self, Holder, Mode};
use crate::crd::policy::strategy::Step;
use crate::crd::policy::{self, Count, Fate, Policy};
use crate::crd::{self, Severity};
use crate::manifest::{Object, ObjectId};
use crate::pack::DefinitionWishes;
use crate::plan;
use crate::plan::definitions::course::{Course, Left, Live, Refusal, Rules, course};
use crate::plan::definitions::{self, Author};
use crate::reconcile::Error;
use crate::reconcile::context::error::Stopped;
use crate::reconcile::crds::{Crds, Judging};
use crate::release::{ReleaseKey, Shipped};

/// How long what a definition defines is waited for.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// Changes that a record and a status name of one definition.
const CHANGES: usize = 20;

/// A definition that a pack ships.
pub(in crate::reconcile) struct Candidate {
    pub object: Object,
    /// It stands in a template, and so in the manifest.
    pub in_manifest: bool,
    pub wishes: DefinitionWishes,
}

/// What is done about the definitions of a pack.
#[derive(Default)]
pub(in crate::reconcile) struct Judged {
    /// Those that are applied.
    pub objects: Vec<Object>,
    /// All of them.
    pub shipped: Vec<Shipped>,
}

/// How many changes there are of each severity.
type Severities = [(Severity, usize); 4];

/// How one definition came out.
enum Verdict {
    Ships(Box<Shipped>, Option<Object>),
    Stopped(Stopped),
}

impl Crds<'_> {
    fn definition_rules(&self) -> Rules {
        let Settings { crds, adopt, .. } = self.scope.settings;
        Rules {
            install: crds.install,
            upgrade: crds.upgrade,
            confirmed: crds.confirm_changes.clone(),
            adopt: *adopt == Adopt::Unowned,
            trust_pack: self.scope.ctx.policy.trust_pack_crds,
        }
    }

    /// The definition that exists, and whether it says of itself that it was there before. An external one is not read.
    async fn live_definition(
        &self,
        object: &Object,
        policy: Policy,
        uid: &str,
    ) -> Result<Option<(Live, bool)>, Error> {
        if policy == Policy::External {
            return Ok(None);
        }
        let Some(found) = self.scope.cluster.get(&object.api_version, &object.id).await? else {
            return Ok(None);
        };
        let annotations = found.live.metadata.annotations.as_ref();
        let leaving = found.is_leaving();
        // Nothing is decided by it then.
        let author = if leaving { Author::Unknown(None) } else { self.author(annotations, uid).await? };
        let adopted = !leaving && plan::is_adopted(annotations);
        Ok(Some((Live { body: found.value(), author, leaving }, adopted)))
    }

    /// Whether the API server would take it.
    async fn try_definition(&self, object: &Object) -> Result<(), Error> {
        self.scope.cluster.apply(&object.api_version, &object.id, &object.body, Mode::DryRun).await?;
        Ok(())
    }

    /// Who wrote a live definition. Of releases that this operator does not watch, the definition tells itself.
    async fn author(
        &self,
        annotations: Option<&BTreeMap<String, String>>,
        uid: &str,
    ) -> Result<Author, Error> {
        let author = definitions::author(annotations, |by| match self.scope.ctx.living(by) {
            _ if by == uid => Author::Us,
            Some(owner) if owner == *self.scope.key => Author::Us,
            Some(owner) => Author::Release(owner.to_string()),
            None => Author::Departed,
        });
        let owner = annotations.and_then(|all| ReleaseKey::parse(all.get(names::OWNER)?));
        match (author, owner, plan::marked_by(annotations)) {
            (Author::Departed, Some(owner), Some(by))
                if self.scope.ctx.lives_elsewhere(&owner, by).await? =>
            {
                Ok(Author::Release(owner.to_string()))
            }
            (author, ..) => Ok(author),
        }
    }

    /// Says on definitions that they were there before: before anything else of them is changed, and for good.
    pub(in crate::reconcile) async fn mark_adopted(
        &self,
        shipped: &[Shipped],
        objects: &[&Object],
    ) -> Result<(), Error> {
        let adopted = |object: &Object| shipped.iter().any(|one| one.adopted && one.name == object.id.name);
        for object in objects.iter().filter(|object| adopted(object)) {
            if let Some(live) = self.scope.cluster.get(&object.api_version, &object.id).await? {
                let mark = [(names::ADOPTED, names::ADOPTED_TRUE)];
                self.scope.cluster.mark(&object.id, &live, &mark).await?;
            }
        }
        Ok(())
    }

    /// Which definitions go with the release; refuses while objects would go along that no user agreed to lose.
    pub(in crate::reconcile) async fn judge_deletion(&self, shipped: &mut [Shipped]) -> Result<(), Error> {
        let mut blocked = Vec::new();
        for one in shipped.iter_mut() {
            let goes = one.goes_with_release(self.scope.settings.crds.on_uninstall);
            one.deleted = false;
            if goes && one.written && !one.adopted {
                let id = ObjectId::definition(&one.name);
                let live = self.scope.cluster.metadata("apiextensions.k8s.io/v1", &id).await?;
                one.adopted = live.is_some_and(|live| plan::is_adopted(live.annotations.as_ref()));
            }
            let fate = self.fate_of(one, goes).await;
            match fate {
                Fate::Delete => one.deleted = true,
                Fate::Keep(_) => {}
                Fate::Blocked(why) => blocked.push(why),
            }
        }
        if blocked.is_empty() { Ok(()) } else { Err(Error::CrdDeletionBlocked { blocked }) }
    }

    /// What becomes of a definition with the release. Objects are counted only when that decides anything.
    pub(in crate::reconcile) async fn fate_of(&self, shipped: &Shipped, goes: bool) -> Fate {
        let confirmed = &self.scope.settings.crds.confirm_deletion;
        let counts = goes && shipped.written && !confirmed.contains(&shipped.name);
        let count = if counts {
            self.scope.cluster.count_for_deletion(&shipped.name).await
        } else {
            Count::Known(Vec::new())
        };
        policy::fate(&shipped.leaving(goes, &count, confirmed))
    }

    /// A kind that is served, or will be once the definitions of this revision are applied: whether it has a namespace, and
    /// its plural.
    pub(in crate::reconcile) async fn kind_to_be(
        &self,
        api_version: &str,
        kind: &str,
        objects: &[Object],
    ) -> Result<(bool, String), Error> {
        match self.scope.cluster.kind(api_version, kind).await {
            Ok(found) => Ok((found.namespaced, found.resource.plural)),
            Err(error @ cluster::Error::UnknownKind { .. }) => {
                let defined = crate::manifest::defining(objects, api_version, kind);
                defined.map(|(_, defined)| (defined.namespaced, defined.plural)).ok_or_else(|| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Judging<'_> {
    /// Decides for each definition whether it is written, before anything of the revision is stored or touched.
    ///
    /// `uid` is that of this line of revisions. With `lenient` a change that is not made unasked is left out instead of
    /// standing in the way: a failed upgrade has to be undone even if its definitions cannot be.
    pub(in crate::reconcile) async fn judge_definitions(
        &mut self,
        candidates: Vec<Candidate>,
        uid: &str,
        lenient: bool,
    ) -> Result<Judged, Error> {
        let mut judged = Judged::default();
        let mut stopped = Vec::new();
        let mut weighed = Vec::new();
        for candidate in candidates.into_iter().filter(|candidate| !candidate.wishes.left_out) {
            match self.judge_definition(candidate, uid, lenient, &mut weighed).await? {
                Verdict::Ships(shipped, object) => {
                    judged.objects.extend(object);
                    judged.shipped.push(*shipped);
                }
                Verdict::Stopped(one) => stopped.push(one),
            }
        }
        self.count_changes(weighed);
        if stopped.is_empty() { Ok(judged) } else { Err(Error::CrdBreakingChange { stopped }) }
    }

    /// Counts what was asked for, once: a release that is stopped asks for the same in each pass.
    fn count_changes(&mut self, weighed: Vec<(String, String, Severities)>) {
        for (name, token, severities) in weighed {
            if self.counted.insert(name, token.clone()).is_some_and(|before| before == token) {
                continue;
            }
            for (severity, count) in severities.into_iter().filter(|(_, count)| *count > 0) {
                self.newest.scope.ctx.report.definition_changes(
                    self.newest.scope.key,
                    severity.name(),
                    count,
                );
            }
        }
    }

    async fn judge_definition(
        &self,
        candidate: Candidate,
        uid: &str,
        lenient: bool,
        weighed: &mut Vec<(String, String, Severities)>,
    ) -> Result<Verdict, Error> {
        let Candidate { object, in_manifest, wishes } = candidate;
        let new = crd::Definition::from_value(&object.body)?;
        let policy = definitions::policy(&object)?;
        let rules = self.crds().definition_rules();
        let mut shipped = self.shipped(&object.id.name, policy, &wishes);
        let live = self.crds().live_definition(&object, policy, uid).await?;
        if let Some((_, adopted)) = &live {
            // For good: no record has to know it.
            shipped.adopted |= adopted;
        }
        let live = live.map(|(live, _)| live);
        let course = course(new, policy, live.as_ref(), &wishes, &rules)?;
        let ours = !matches!(course, Course::Leave(Left::WrittenByAnother(_)) | Course::Refuse(_));
        shipped.adopted |=
            ours && live.as_ref().is_some_and(|live| matches!(live.author, Author::Unknown(_)));
        match course {
            Course::Leave(why) => {
                if let Left::WrittenByAnother(by) = &why {
                    // For when it is this one's turn.
                    shipped.body = (policy == Policy::Shared).then_some(object.body);
                    shipped.writer.clone_from(by);
                }
                Ok(left(shipped, word(&why)))
            }
            Course::Refuse(why) => Err(refused_definition(&object.id, why)),
            Course::Create(analysis) => {
                self.crds().try_definition(&object).await?;
                if !analysis.changes.is_empty() {
                    shipped.verdict = Some(analysis.verdict().to_string());
                    shipped.changes = told(&analysis);
                }
                shipped.webhook_later = has_webhook(&object.body);
                Ok(written(shipped, object, in_manifest))
            }
            Course::Unchanged => Ok(written(shipped, object, in_manifest)),
            Course::Change(mut change) => {
                let body = live.map(|live| live.body).unwrap_or_default();
                change.analysis = self.crds().weigh((&change.old, &change.new), &body, change.analysis)?;
                let (verdict, token) = (change.analysis.verdict(), change.token());
                weighed.push((object.id.name.clone(), token.clone(), severities(&change.analysis)));
                let changes = told(&change.analysis);
                shipped.verdict = Some(verdict.to_string());
                shipped.changes.clone_from(&changes);
                if change.step(&rules) == Step::Stop {
                    if lenient {
                        return Ok(left(shipped, format!("Kept: {verdict}")));
                    }
                    let token = (verdict != Severity::Blocked).then_some(token);
                    let name = object.id.name;
                    return Ok(Verdict::Stopped(Stopped { name, policy, verdict, changes, token }));
                }
                self.crds().try_definition(&object).await?;
                let confirmed = rules.confirmed.contains(&token);
                shipped.forced = verdict == Severity::Dangerous && !confirmed;
                Ok(written(shipped, object, in_manifest))
            }
        }
    }

    /// What a record says of a definition before anything is decided about it.
    fn shipped(&self, name: &str, policy: Policy, wishes: &DefinitionWishes) -> Shipped {
        let settings = &self.newest.scope.settings.crds;
        let waits = settings.wait_ready.or(wishes.wait_ready).unwrap_or(true);
        let wait = settings.wait_timeout.or(wishes.wait_timeout).unwrap_or(SERVED_WITHIN);
        Shipped {
            name: name.to_owned(),
            policy,
            written: false,
            body: None,
            webhook_later: false,
            wait: waits.then_some(wait.as_secs().max(1)),
            goes: wishes.keep == Some(false) && self.newest.scope.ctx.policy.trust_pack_crds,
            deleted: false,
            writer: None,
            verdict: None,
            changes: Vec::new(),
            adopted: self.adopted_definition(name),
            forced: false,
        }
    }

    /// Whether an earlier revision found it here.
    fn adopted_definition(&self, name: &str) -> bool {
        let known = self.newest.own_private().into_iter().flat_map(|private| &private.definitions);
        known.into_iter().any(|known| known.name == name && known.adopted)
    }
}

/// A definition that stays as it is.
fn left(mut shipped: Shipped, why: String) -> Verdict {
    shipped.verdict = Some(why);
    Verdict::Ships(Box::new(shipped), None)
}

/// Why it stays, as a record and the status say it.
fn word(why: &Left) -> String {
    match why {
        Left::External => "External".to_owned(),
        Left::NotInstalled => "NotInstalled".to_owned(),
        Left::WrittenByAnother(None) => "Kept".to_owned(),
        Left::WrittenByAnother(Some(by)) => format!("WrittenBy {by}"),
        Left::Skipped => "Skipped".to_owned(),
    }
}

/// Why a release cannot go on because of a definition.
pub(crate) fn refused_definition(id: &ObjectId, why: Refusal) -> Error {
    match why {
        Refusal::Terminating => cluster::Error::Terminating { id: id.clone() }.into(),
        Refusal::Conflict(owner) => Error::OwnershipConflict { name: id.name.clone(), owner },
        Refusal::NotOwned(helm) => {
            let holder = helm.map_or(Holder::Unknown, Holder::Helm);
            cluster::Error::NotOwned { id: id.clone(), holder }.into()
        }
    }
}

/// The worst changes first, for people.
fn told(analysis: &crd::Analysis) -> Vec<String> {
    let mut changes: Vec<&crd::Change> = analysis.changes.iter().collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.severity));
    let one = |change: &crd::Change| format!("{}: {}: {}", change.severity, change.path, change.message);
    changes.into_iter().take(CHANGES).map(one).collect()
}

fn severities(analysis: &crd::Analysis) -> Severities {
    [Severity::Safe, Severity::Warning, Severity::Dangerous, Severity::Blocked]
        .map(|severity| (severity, analysis.of(severity).count()))
}

fn has_webhook(body: &Value) -> bool {
    body.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook")
}

fn written(mut shipped: Shipped, object: Object, in_manifest: bool) -> Verdict {
    shipped.written = true;
    shipped.body = (!in_manifest).then(|| object.body.clone());
    Verdict::Ships(Box::new(shipped), Some(object))
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
