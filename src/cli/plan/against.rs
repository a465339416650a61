//! Asks a cluster what an operation with a pack would meet there. Writes nothing: whatever is sent is a dry run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::{Map, Value};

use super::before::Before;
use super::definitions::{Candidate, Next, next};
use super::objects::{Around, Asked, line};
use super::report::{DefinitionLine, ObjectLine, Problem, PruneLine, Report, Would};
use super::{Args, Output};
use crate::api::names;
use crate::cli::output::answer::{Answer, Failure, pretty, story};
use crate::cli::packs::render;
use crate::cluster::{self, Cluster, Mode, capabilities, describe, status_code};
use crate::crd::Evidence;
use crate::crd::text::Colour;
use crate::manifest::is_definition;
use crate::manifest::{self, Defined, InventoryEntry, Object, ObjectId, defining, order};
use crate::pack::Pack;
use crate::pack::render::Rendered;
use crate::plan::definitions::Author;
use crate::plan::definitions::course::{Live, Rules};
use crate::plan::{self, Marks, Occasion, Parts};
use crate::reconcile::{self, Seen};

/// Questions in flight.
const PARALLEL: usize = 8;
const DEADLINE: Duration = Duration::from_secs(30);

/// Exit code 0 when it could go on, 1 when something is refused or stopped, 2 for usage and IO.
pub(super) async fn answer(mut args: Args, pack: Pack, values: Value) -> Result<Answer, Failure> {
    let (client, default_namespace) = args.connection.open().await?;
    let key = (
        args.render.namespace.clone().unwrap_or(default_namespace),
        args.render.name.clone().unwrap_or_else(|| pack.metadata.name.clone()),
    );
    let seen = async { capabilities(&client).await.map_err(|error| describe(&error)) };
    let seen = tokio::time::timeout(DEADLINE, seen).await;
    let capabilities = seen.unwrap_or_else(|_| Err("no answer in time".to_owned()));
    let capabilities = capabilities.map_err(|why| format!("the cluster cannot be asked: {why}"))?;
    let before = Before::read(client.clone(), key, &args).await?;
    (args.render.namespace, args.render.name) = (Some(before.namespace.clone()), Some(before.name.clone()));

    let cluster = Arc::new(Cluster::new(client));
    let lookup = Seen {
        cluster: Arc::clone(&cluster),
        runtime: tokio::runtime::Handle::current(),
        target_namespace: before.namespace.clone(),
        own_namespace: before.key.0.clone(),
        allowed: Arc::from([]),
        secrets: Arc::default(),
    };
    let around = render::Around {
        capabilities,
        lookup: Arc::new(lookup),
        revision: before.revision(),
        kept: before.private.as_ref().map(|private| private.secrets.clone()).unwrap_or_default(),
    };
    let of = args.render.clone();
    // The templates may ask the cluster, and wait for what it says.
    let rendered =
        tokio::task::spawn_blocking(move || render::render_within(&of, &pack, &values, &around)).await;
    let rendered = rendered.map_err(|error| format!("rendering stopped unexpectedly: {error}"))?;
    let rendered = rendered.map_err(|error| Failure::finding(render::shown(&error)))?;

    let rules = before.rules(args.crd_strategy.map(Into::into));
    let report = Asking { cluster, before, rules }.report(rendered).await?;
    let text = match args.output {
        Output::Json => pretty(&report),
        Output::Text if std::io::stdout().is_terminal() => report.text(Colour::Yes),
        Output::Text => report.text(Colour::No),
    };
    Ok(Answer { text, findings: !report.goes_on })
}

struct Asking {
    cluster: Arc<Cluster>,
    before: Before,
    rules: Rules,
}

impl Asking {
    async fn report(mut self, rendered: Rendered) -> Result<Report, Failure> {
        let mut report = Report {
            release: self.before.name.clone(),
            namespace: self.before.namespace.clone(),
            revision: self.before.revision(),
            problems: std::mem::take(&mut self.before.problems),
            notes: std::mem::take(&mut self.before.notes),
            ..Report::default()
        };
        let (documents, candidates) = sorted(rendered, &mut report.problems);
        report.definitions = self.definitions(&candidates).await?;
        let replaced: Vec<Object> = candidates
            .iter()
            .filter(|one| {
                report.definitions.iter().any(|line| line.name == one.object.id.name && line.replaces())
            })
            .map(|one| one.object.clone())
            .collect();
        let (objects, files) = self.placed(documents, &replaced, &mut report).await?;
        let all = candidates.into_iter().map(|candidate| candidate.object).chain(objects).collect();
        let occasion = if report.revision > 1 { Occasion::Upgrade } else { Occasion::Install };
        let planned = plan::split(all).and_then(|parts| plan::roll_out(&parts, occasion).map(|_| parts));
        match planned {
            Ok(mut parts) => {
                parts.objects.retain(|object| !object.id.is_definition());
                let rest = self.objects(&parts, &files, &replaced, &mut report).await?;
                report.objects.extend(rest);
            }
            Err(error) => report.problems.push(Problem::new(error.reason(), &error)),
        }
        Ok(report.concluded())
    }

    async fn definitions(&self, candidates: &[Candidate]) -> Result<Vec<DefinitionLine>, Failure> {
        let mut lines = Vec::new();
        for candidate in candidates.iter().filter(|candidate| !candidate.wishes.left_out) {
            let object = &candidate.object;
            let found = reached(self.cluster.get(&object.api_version, &object.id).await)?;
            let live = match found {
                Ok(live) => live.map(|live| Live {
                    author: self.before.author(&live),
                    leaving: live.is_leaving(),
                    body: live.value(),
                }),
                Err(error) => {
                    return Err(format!("{}: {error}", object.id).into());
                }
            };
            let mut next = next(candidate, live.as_ref(), &self.rules);
            if let Next::Weigh(weighed) = next {
                let evidence = Evidence::new(&weighed.change.analysis);
                let defined = live.as_ref().and_then(|live| Defined::of(&live.body));
                let evidence = match defined.filter(|_| evidence.is_wanted()) {
                    Some(defined) => {
                        let change = (&weighed.change.old, &weighed.change.new);
                        let (evidence, error) = self.cluster.hear(&defined, change, evidence).await;
                        if let Some(error) = error {
                            let name = &weighed.change.new.name;
                            story(&format!("the objects of {name} cannot all be looked at: {error}"));
                        }
                        Some(evidence)
                    }
                    None => None,
                };
                next = weighed.judged(evidence.as_ref(), &self.rules);
            }
            lines.push(match next {
                Next::Settled(line) => line,
                Next::Try(line) => {
                    let body = &object.body;
                    let tried = self.cluster.apply(&object.api_version, &object.id, body, Mode::DryRun);
                    line.tried(reached(tried.await)?.map(drop))
                }
                // It was weighed.
                Next::Weigh(_) => continue,
            });
        }
        Ok(lines)
    }

    /// The documents as objects, each in its namespace, and where they come from.
    async fn placed(
        &self,
        documents: Vec<Document>,
        definitions: &[Object],
        report: &mut Report,
    ) -> Result<(Vec<Object>, BTreeMap<ObjectId, String>), Failure> {
        let (mut objects, mut files) = (Vec::new(), BTreeMap::new());
        for Document { body, file, layer } in documents {
            let object = match Object::from_value(body) {
                Ok(object) => object.in_layer(layer),
                Err(error) => {
                    report.problems.push(Problem::new(error.reason(), format!("{file}: {error}")));
                    continue;
                }
            };
            let kind = reached(self.cluster.kind(&object.api_version, &object.id.kind).await)?;
            let namespaced = match kind {
                Ok(kind) => Ok(kind.namespaced),
                Err(error) => match defining(definitions, &object.api_version, &object.id.kind) {
                    Some((_, defined)) => Ok(defined.namespaced),
                    None => Err(error),
                },
            };
            let object = match (namespaced, &object.id.namespace) {
                (Ok(true), None) => object.with_namespace(Some(&self.before.namespace)),
                (Ok(true), Some(_)) | (Ok(false), None) => object,
                (Ok(false), Some(_)) => {
                    let error = reconcile::Error::NamespaceOnClusterObject { id: object.id.clone() };
                    report.objects.push(refused(&object, &file, Problem::new(error.reason(), &error)));
                    continue;
                }
                (Err(error), _) => {
                    report.objects.push(refused(&object, &file, Problem::new(error.reason(), &error)));
                    continue;
                }
            };
            if files.insert(object.id.clone(), file.clone()).is_some() {
                let error = reconcile::Error::DuplicateObject { id: object.id.clone() };
                report.problems.push(Problem::new(error.reason(), format!("{file}: {error}")));
                continue;
            }
            objects.push(object);
        }
        Ok((objects, files))
    }

    async fn objects(
        &self,
        parts: &Parts,
        files: &BTreeMap<ObjectId, String>,
        definitions: &[Object],
        report: &mut Report,
    ) -> Result<Vec<ObjectLine>, Failure> {
        let private = self.before.private.as_ref();
        let inventory = private.map_or(&[][..], |private| &private.inventory[..]);
        let leftovers = private.map_or(&[][..], |private| &private.leftovers[..]);
        let hooks = private.map_or(&[][..], |private| &private.hook_objects[..]);
        if parts.objects.is_empty() && report.definitions.is_empty() && !inventory.is_empty() {
            let error = reconcile::Error::EmptyRender { before: inventory.len() };
            report.problems.push(Problem::new(error.reason(), &error));
        }
        let next = plan::next_inventory(&parts.objects, report.revision, inventory, leftovers)
            .with_hooks(&parts.hooks, hooks);
        let absent = self.absent_namespaces(parts).await?;
        let around = Around { definitions, adopt: self.rules.adopt };
        let known: BTreeSet<&ObjectId> =
            inventory.iter().filter(|entry| entry.uid.is_some()).map(|entry| &entry.id).collect();
        let mut wanted: Vec<(&Object, Option<&InventoryEntry>)> =
            parts.objects.iter().zip(next.wanted.iter().map(Some)).collect();
        wanted.sort_by_key(|(object, _)| (order::rank(&object.id.group, &object.id.kind), &object.id));
        wanted.extend(parts.hooks.iter().map(|hook| (&hook.object, None)));
        let asked = wanted.into_iter().map(|(object, entry)| {
            let (absent, around, known) = (&absent, &around, &known);
            async move {
                let asked = self.ask(object, entry, absent).await?;
                let file = files.get(&object.id).map(String::as_str);
                let of = (entry.is_none(), known.contains(&object.id));
                Ok::<_, Failure>(line(object, file, of, asked, around))
            }
        });
        let lines: Vec<_> = stream::iter(asked.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        let is_wanted = |uid: &String| next.wanted.iter().any(|entry| entry.uid.as_ref() == Some(uid));
        for entry in plan::deletion_order(next.leftovers.clone()) {
            // One object under two groups is still wanted under the new one.
            if entry.uid.as_ref().is_some_and(is_wanted) || entry.id.is_definition() {
                continue;
            }
            report.prune.extend(self.prune(&entry).await?);
        }
        lines.into_iter().collect()
    }

    async fn ask(
        &self,
        object: &Object,
        entry: Option<&InventoryEntry>,
        absent: &BTreeSet<String>,
    ) -> Result<Asked, Failure> {
        if let Some(namespace) = object.id.namespace.as_ref().filter(|name| absent.contains(*name)) {
            let message = format!("the namespace {namespace} does not exist yet");
            return Ok(Asked::Not(Problem::new("NamespaceNotFound", message)));
        }
        let live = match reached(self.cluster.get(&object.api_version, &object.id).await)? {
            Ok(live) => live,
            Err(error @ cluster::Error::UnknownKind { .. }) => return Ok(Asked::Unserved(error)),
            Err(error) => return Ok(tried_nothing(error)),
        };
        if live.is_none() && entry.is_some_and(|entry| entry.ran.is_some()) {
            return Ok(Asked::Ran);
        }
        let marks = Marks {
            release_name: &self.before.name,
            release_namespace: &self.before.key.0,
            uid: self.before.uid(),
        };
        let body = match entry {
            Some(entry) => plan::apply_body(object, entry, marks),
            None if live.is_some() => return Ok(Asked::Again),
            None => object.body.clone(),
        };
        let answer = self.cluster.apply(&object.api_version, &object.id, &body, Mode::DryRun).await;
        Ok(Asked::Tried {
            author: live.as_ref().map_or(Author::Us, |live| self.before.author(live)),
            live: live.map(|live| live.value()),
            answer: reached(answer)?.map(|applied| applied.value()),
        })
    }

    async fn absent_namespaces(&self, parts: &Parts) -> Result<BTreeSet<String>, Failure> {
        let hooks = parts.hooks.iter().map(|hook| &hook.object);
        let named: BTreeSet<String> =
            parts.objects.iter().chain(hooks).filter_map(|object| object.id.namespace.clone()).collect();
        let mut absent = BTreeSet::new();
        for namespace in named {
            // A user who may not see namespaces is told by the objects.
            if matches!(reached(self.cluster.namespace(&namespace).await)?, Ok(None)) {
                absent.insert(namespace);
            }
        }
        Ok(absent)
    }

    async fn prune(&self, entry: &InventoryEntry) -> Result<Option<PruneLine>, Failure> {
        let object = entry.id.to_string();
        let found = match reached(self.cluster.find(&entry.api_version, &entry.id).await)? {
            Ok(Some((_, meta))) => meta,
            Ok(None) => return Ok(None),
            Err(_) => return Ok(Some(PruneLine { object, kept: Some("it cannot be looked at") })),
        };
        let kept = super::kept(entry, &found, self.before.uid());
        Ok(Some(PruneLine { object, kept }))
    }
}

fn refused(object: &Object, file: &str, problem: Problem) -> ObjectLine {
    ObjectLine {
        object: object.id.to_string(),
        file: Some(file.to_owned()),
        would: Would::Refused,
        changes: Vec::new(),
        problem: Some(problem),
    }
}

fn tried_nothing(error: cluster::Error) -> Asked {
    Asked::Tried { live: None, author: Author::Us, answer: Err(error) }
}

/// One of a pack, with the file that it comes from and the layer that this is in.
struct Document {
    body: Value,
    file: String,
    layer: u32,
}

/// Documents and definitions of a pack with the file that each comes from. A definition that is a hook is left to be one.
fn sorted(mut rendered: Rendered, problems: &mut Vec<Problem>) -> (Vec<Document>, Vec<Candidate>) {
    let (mut documents, mut candidates) = (Vec::new(), Vec::<Candidate>::new());
    let objects = std::mem::take(&mut rendered.objects).into_iter();
    let objects = objects.zip(std::mem::take(&mut rendered.origins));
    let shipped = std::mem::take(&mut rendered.definitions).into_iter();
    for (mut body, file) in shipped.map(|shipped| (shipped.body, shipped.file)).chain(objects) {
        let annotations = body.pointer("/metadata/annotations").and_then(Value::as_object);
        let is_hook =
            |all: &Map<String, Value>| all.contains_key(names::HOOK) || all.contains_key(names::HELM_HOOK);
        let hook = annotations.is_some_and(is_hook);
        if hook || !is_definition(&body) {
            manifest::normalise(&mut body);
            let layer = rendered.layer_of(&file);
            documents.push(Document { body, file, layer });
            continue;
        }
        let wishes = rendered.wishes_of(&file);
        match Object::from_value(body) {
            Ok(object) if candidates.iter().any(|known| known.object.id == object.id) => {
                let error = reconcile::Error::DuplicateObject { id: object.id };
                problems.push(Problem::new(error.reason(), format!("{file}: {error}")));
            }
            Ok(object) => {
                let object = object.in_layer(rendered.layer_of(&file));
                candidates.push(Candidate { object, file, wishes });
            }
            Err(error) => problems.push(Problem::new(error.reason(), format!("{file}: {error}"))),
        }
    }
    (documents, candidates)
}

/// What the API server said; that it said nothing ends the command.
pub(in crate::cli) fn reached<T>(
    answer: Result<T, cluster::Error>,
) -> Result<Result<T, cluster::Error>, Failure> {
    match answer {
        Err(error) => match &error {
            cluster::Error::Timeout { .. } => Err(error.to_string().into()),
            cluster::Error::Api { source, .. } | cluster::Error::Discovery { source, .. }
                if status_code(source).is_none() =>
            {
                Err(error.to_string().into())
            }
            _ => Ok(Err(error)),
        },
        fine => Ok(fine),
    }
}
