//! From the wanted inputs to a revision that can be stored: fetch, render, check, plan. Touches no object.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::names;
use crate::manifest::{self, Object, ObjectId};
use crate::pack::layers::{self};
use crate::pack::render::{self, Rendered, Secrets};
use crate::pack::{self, Pack};
use crate::plan::{self, Parts, Plan};
use crate::reconcile::Error;
use crate::reconcile::context::fair::Turn;
use crate::reconcile::crds::definitions::Candidate;
use crate::reconcile::inputs::lookup::Seen;
use crate::reconcile::inputs::wanted::Wanted;
use crate::reconcile::prepare::Prepare;
use crate::reconcile::prepare::beginning::{Beginning, inventory};
use crate::reconcile::records::parsed::{joined, webhooks_later};
use crate::reconcile::records::planned::occasion;
use crate::release::{
    Action, Hook, PackIdentity, Person, Private, Record, Shipped, State, ValuesProvenance, description,
};

/// A render that takes longer is abandoned.
const RENDER_DEADLINE: Duration = Duration::from_secs(30);

/// A revision that is ready to be stored.
pub(in crate::reconcile) struct Prepared {
    pub record: Record,
    pub private: Private,
    pub parts: Parts,
    pub plan: Plan,
    /// In which revision the objects that the records know last changed. What is there beside them was there before; `None`:
    /// no record says anything, so everything was.
    pub before: Option<BTreeMap<ObjectId, u32>>,
}

impl Prepare<'_> {
    /// Renders and checks everything that can be checked without touching an object.
    pub(in crate::reconcile) async fn revision(
        &mut self,
        wanted: &Wanted,
        action: Action,
        revision: u32,
        attempt: u32,
        start_over: bool,
    ) -> Result<Prepared, Error> {
        self.claim()?;
        // Before it waits for a turn: fetching takes none.
        let pack = self.completed(wanted).await?;
        // Before anything is read for it.
        let turn = self.turn().await?;
        let past = self.records.past(revision, start_over).await?;
        let kept = past.private.as_ref().map_or_else(Secrets::new, |private| private.secrets.clone());
        let Laid { rendered, documents, candidates } =
            self.render((pack, &wanted.user), action, revision, kept, turn).await?;
        self.secrets.rendered(revision, &rendered.secrets, &documents);
        let known = past.private.as_ref().filter(|_| !start_over);
        let owner_uid =
            known.map_or_else(|| self.records.scope.uid(), |private| &private.owner.uid).to_owned();
        let (parts, definitions) = self.parts(documents, candidates, &owner_uid).await?;
        let plan = plan::roll_out(&parts, occasion(action))?;
        if parts.objects.is_empty() && !start_over && !past.inventory().is_empty() {
            return Err(Error::EmptyRender { before: past.inventory().len() });
        }
        let hooks_before = past.prunes().map_or(&[][..], |private| &private.hook_objects[..]);
        let inventory = inventory(&past, start_over, &parts, revision, hooks_before);
        let bodies = in_manifest(&parts.objects, &definitions).map(|object| object.body.clone()).collect();
        let manifest = joined(bodies, revision).await?;
        let Rendered { values, notes, secrets, .. } = rendered;
        let record = self.record(wanted, action, revision, &parts, Texts { values, notes, manifest });
        let (failures, replaces) = if start_over {
            Default::default()
        } else {
            self.records.newest().inherited(&wanted.inputs, attempt)
        };
        let scope = self.records.scope;
        let beginning = Beginning {
            action,
            attempt,
            revision,
            inputs: wanted.inputs.clone(),
            pack_digest: wanted.pack.digest.clone(),
            owner_uid,
            inventory,
            hooks: &parts.hooks,
            definitions,
            unreachable: past.unreachable,
            adopts: past.private.as_ref().is_some_and(Private::has_adopted),
            secrets,
        };
        let private = Private {
            last_deployed: known.and_then(|private| private.last_deployed),
            approved: scope.settings.requests.approve.clone().filter(|_| scope.needs_approval()),
            failures,
            replaces,
            ..self.private(beginning)
        };
        self.memory.weight = record.weight();
        self.claim()?;
        let before = (!start_over).then(|| past.objects());
        Ok(Prepared { record, private, parts, plan, before })
    }

    /// Room for the revision, as large as the one that was prepared last.
    fn claim(&mut self) -> Result<(), Error> {
        let weight = self.memory.weight;
        self.records.claims().claim(weight)
    }

    async fn turn(&mut self) -> Result<Turn, Error> {
        let scope = self.records.scope;
        let turn = scope.ctx.packs.turn(scope.key).await;
        turn.inspect_err(|_| self.records.claims().hold())
    }

    /// What was rendered as the parts of an operation, with what the definitions of the pack come to.
    async fn parts(
        &mut self,
        documents: Vec<Object>,
        candidates: Vec<Candidate>,
        owner_uid: &str,
    ) -> Result<(Parts, Vec<Shipped>), Error> {
        let shippable: Vec<Object> = candidates.iter().map(|candidate| candidate.object.clone()).collect();
        let documents = self.objects(documents, &shippable).await?;
        if let Some(id) = manifest::duplicates(&shippable) {
            return Err(Error::DuplicateObject { id });
        }
        let judged = self.judging().judge_definitions(candidates, owner_uid, false).await?;
        let mut parts = plan::split(judged.objects.into_iter().chain(documents).collect())?;
        parts.webhooks_later = webhooks_later(&judged.shipped);
        Ok((parts, judged.shipped))
    }

    /// The pending record.
    fn record(&self, wanted: &Wanted, action: Action, revision: u32, parts: &Parts, texts: Texts) -> Record {
        let (settings, now) = (self.records.scope.settings, self.records.scope.now);
        let timeout = settings.timeout.as_secs().max(1);
        Record {
            name: settings.release_name.clone(),
            namespace: settings.target_namespace.clone(),
            version: revision,
            state: pending(action, now, timeout, revision),
            pack: identity(&wanted.pack),
            // With the sections of the packs inside.
            values: texts.values,
            values_provenance: ValuesProvenance {
                sources: layers::provenance(&wanted.pack.values, &wanted.layers),
            },
            manifest: texts.manifest,
            hooks: parts.hooks.iter().map(Hook::from).collect(),
            labels: self.record_labels(action, None),
            created_at: now,
            updated_at: now,
            notes: texts.notes,
        }
    }

    /// What the author of the release says of the revision to come. `target` is what a rollback goes back to.
    pub(in crate::reconcile) fn record_labels(
        &self,
        action: Action,
        target: Option<u32>,
    ) -> BTreeMap<String, String> {
        let annotations = self.records.scope.release.metadata.annotations.as_ref();
        let written = annotations.and_then(|all| all.get(names::DESCRIPTION));
        let note = description::note(written.map(String::as_str), action, target);
        note.map(|note| (names::DESCRIPTION.to_owned(), note)).into_iter().collect()
    }

    /// The pack with what it depends on.
    async fn completed(&self, wanted: &Wanted) -> Result<Arc<Pack>, Error> {
        let scope = self.records.scope;
        scope.ctx.completed((&wanted.pack, &wanted.user), scope.settings, scope.cluster, scope.key).await
    }

    async fn render(
        &mut self,
        (pack, user): (Arc<Pack>, &Value),
        action: Action,
        revision: u32,
        kept: Secrets,
        turn: Turn,
    ) -> Result<Laid, Error> {
        let values = user.clone();
        let capabilities = Arc::clone(&self.records.scope.ctx.capabilities);
        let (name, namespace) = (
            self.records.scope.settings.release_name.clone(),
            self.records.scope.settings.target_namespace.clone(),
        );
        let now = self.records.scope.now;
        // Of the revision, so that rendering it again would give the same; a retry is another revision.
        let seed = format!("{}/{revision}", self.records.scope.uid());
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| Error::NoRandomness { message: error.to_string() })?;
        self.secrets.generated(&kept);
        let (looked_up, made) = (Arc::default(), Arc::default());
        let lookup: Arc<dyn render::Lookup> = Arc::new(Seen {
            cluster: Arc::clone(self.records.scope.cluster),
            runtime: tokio::runtime::Handle::current(),
            target_namespace: namespace.clone(),
            own_namespace: self.records.scope.key.namespace.clone(),
            allowed: Arc::clone(&self.records.scope.ctx.allowed_lookups),
            secrets: Arc::clone(&looked_up),
        });
        let makes = Arc::clone(&made);
        let stop = render::Stop::default();
        let theirs = stop.clone();
        // Off the async threads: a hostile template may use all the fuel it has.
        let work = tokio::task::spawn_blocking(move || {
            // Until the work has really ended, not only until no pass waits for it any more.
            let _turn = turn;
            let rendered = render::render(
                &pack,
                &render::Input {
                    release_name: &name,
                    namespace: &namespace,
                    revision,
                    is_upgrade: action != Action::Install,
                    values: &values,
                    capabilities: &capabilities,
                    now,
                    seed: &seed,
                    secrets: render::Source { kept: &kept, random: &random, made: Some(&makes) },
                    lookup: &lookup,
                    stop: &theirs,
                },
            )?;
            lay_out(rendered, &name)
        });
        let laid = tokio::time::timeout(RENDER_DEADLINE, work).await;
        // Also what failed may quote it.
        self.secrets
            .looked_up(std::mem::take(&mut *looked_up.lock().unwrap_or_else(PoisonError::into_inner)));
        self.secrets.generated(&made.lock().unwrap_or_else(PoisonError::into_inner));
        match laid {
            Ok(Ok(laid)) => laid,
            Ok(Err(aborted)) => Err(Error::RenderAborted { message: aborted.to_string() }),
            Err(_) => {
                stop.now();
                Err(Error::RenderTimeout { after: RENDER_DEADLINE })
            }
        }
    }

    /// Each rendered object in its namespace, none twice.
    async fn objects(&self, documents: Vec<Object>, definitions: &[Object]) -> Result<Vec<Object>, Error> {
        let mut objects = Vec::with_capacity(documents.len());
        for object in documents {
            let (namespaced, _) =
                self.crds().kind_to_be(&object.api_version, &object.id.kind, definitions).await?;
            let object = match (namespaced, &object.id.namespace) {
                (true, Some(_)) | (false, None) => object,
                (true, None) => object.with_namespace(Some(&self.records.scope.settings.target_namespace)),
                (false, Some(_)) => return Err(Error::NamespaceOnClusterObject { id: object.id }),
            };
            objects.push(object);
        }
        match manifest::duplicates(&objects) {
            Some(id) => Err(Error::DuplicateObject { id }),
            None => Ok(objects),
        }
    }
}

/// What a record keeps of a render.
struct Texts {
    values: Value,
    notes: Option<String>,
    manifest: String,
}

/// What was rendered, with its documents taken apart.
struct Laid {
    rendered: Rendered,
    /// Normalised. The definitions of resources are not among them.
    documents: Vec<Object>,
    candidates: Vec<Candidate>,
}

fn lay_out(mut rendered: Rendered, release_name: &str) -> Result<Laid, Error> {
    plan::name_hooks(&mut rendered.objects, release_name);
    let (documents, candidates) = definitions(&mut rendered)?;
    let normalised = documents.into_iter().map(|(mut document, layer)| {
        manifest::normalise(&mut document);
        Object::from_value(document).map(|object| object.in_layer(layer))
    });
    Ok(Laid { documents: normalised.collect::<Result<_, _>>()?, rendered, candidates })
}

/// Documents with their layer.
type Documents = Vec<(Value, u32)>;

/// Takes the definitions of resources out of what was rendered. One that is a hook is left to be one.
fn definitions(rendered: &mut Rendered) -> Result<(Documents, Vec<Candidate>), Error> {
    let mut documents = Vec::with_capacity(rendered.objects.len());
    let mut candidates = Vec::new();
    let objects = std::mem::take(&mut rendered.objects);
    let from_templates = objects.into_iter().zip(std::mem::take(&mut rendered.origins));
    let shipped = std::mem::take(&mut rendered.definitions);
    let shipped = shipped.into_iter().map(|shipped| (shipped.body, shipped.file, false));
    for (body, file, in_manifest) in
        shipped.chain(from_templates.map(|(document, origin)| (document, origin, true)))
    {
        let annotations = body.pointer("/metadata/annotations").and_then(Value::as_object);
        let is_hook = annotations
            .is_some_and(|all| all.contains_key(names::HOOK) || all.contains_key(names::HELM_HOOK));
        if is_hook || !manifest::is_definition(&body) {
            documents.push((body, rendered.layer_of(&file)));
            continue;
        }
        let (wishes, layer) = (rendered.wishes_of(&file), rendered.layer_of(&file));
        let object = Object::from_value(body)?.in_layer(layer);
        candidates.push(Candidate { object, in_manifest, wishes });
    }
    Ok((documents, candidates))
}

/// What the manifest of a record holds: everything but the definitions that the record keeps elsewhere.
fn in_manifest<'o>(objects: &'o [Object], shipped: &'o [Shipped]) -> impl Iterator<Item = &'o Object> {
    let elsewhere = |object: &Object| {
        object.id.is_definition()
            && shipped.iter().any(|shipped| shipped.body.is_some() && shipped.name == object.id.name)
    };
    objects.iter().filter(move |object| !elsewhere(object))
}

/// What a record says of its pack.
fn identity(pack: &Pack) -> PackIdentity {
    let pack::Metadata {
        name,
        version,
        description,
        app_version,
        kube_version,
        home,
        icon,
        sources,
        keywords,
        maintainers,
        annotations,
    } = pack.metadata.clone();
    let person = |maintainer: pack::Maintainer| Person {
        name: maintainer.name,
        email: maintainer.email,
        url: maintainer.url,
    };
    PackIdentity {
        name,
        version,
        description,
        app_version,
        kube_version,
        home,
        icon,
        sources,
        keywords,
        maintainers: maintainers.into_iter().map(person).collect(),
        annotations,
    }
}

fn pending(action: Action, started_at: Timestamp, timeout: u64, revision: u32) -> State {
    match action {
        Action::Install => State::PendingInstall { started_at, timeout },
        Action::Upgrade => {
            State::PendingUpgrade { started_at, timeout, previous_version: revision.saturating_sub(1) }
        }
        Action::Rollback => {
            State::PendingRollback { started_at, timeout, target_version: revision.saturating_sub(1) }
        }
        Action::Uninstall => State::PendingUninstall { started_at, timeout },
    }
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
