//! `plan --uninstall RELEASE`: what the deletion of a SherpackRelease would delete, and what not.

use std::collections::BTreeMap;

use serde::Serialize;

use super::against::reached;
use super::report::{PruneLine, printable};
use super::{Args, Output};
use crate::api::{SherpackRelease, UninstallPolicy};
use crate::cli::cluster::{Place, keeping};
use crate::cli::output::answer::{Answer, Failure, pretty};
use crate::cluster::Cluster;
use crate::crd::policy::{Count, Fate, Leaving, fate, impact};
use crate::manifest::InventoryEntry;
use crate::plan::{self, Step};
use crate::reconcile::stored_parts;
use crate::release::{Private, State};
use crate::storage::Stored;
use crate::storage::unverified::{self, Found};

/// What the deletion would do.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    release: String,
    namespace: String,
    /// The newest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u32>,
    /// Nothing holds it.
    goes_through: bool,
    /// In the order of deletion.
    deletes: Vec<String>,
    keeps: Vec<PruneLine>,
    definitions: Vec<DefinitionFate>,
    #[serde(skip)]
    impact: String,
    /// What holds it.
    blocked: Vec<String>,
    notes: Vec<String>,
}

/// What would become of a definition.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionFate {
    name: String,
    /// `Delete`, `Keep` or `Blocked`.
    fate: &'static str,
    /// Why, unless it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Objects in each namespace, the empty name for those without one; unset when they were not or could not be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<BTreeMap<String, u64>>,
}

/// Exit code 0 when the deletion would go through, 1 when it would be held, 2 for usage and IO.
pub(super) async fn answer(args: &Args) -> Result<Answer, Failure> {
    let name = args.render.pack.to_string_lossy().into_owned();
    let (client, default_namespace) = args.connection.open().await?;
    let namespace = args.render.namespace.clone().unwrap_or(default_namespace);
    let place = Place { client, namespace, name };
    let release = place.release().await?;
    let mut deletion =
        Deletion { release: place.name.clone(), namespace: place.namespace.clone(), ..Deletion::default() };
    fill(&place, &release, args, &mut deletion).await?;
    deletion.goes_through = deletion.blocked.is_empty();
    let text = match args.output {
        Output::Text => text(&deletion),
        Output::Json => pretty(&deletion),
    };
    Ok(Answer { text, findings: !deletion.goes_through })
}

async fn fill(
    place: &Place,
    release: &SherpackRelease,
    args: &Args,
    deletion: &mut Deletion,
) -> Result<(), Failure> {
    if release.spec.uninstall.as_ref().and_then(|uninstall| uninstall.policy) == Some(UninstallPolicy::Orphan)
    {
        deletion.notes.push("spec.uninstall.policy is Orphan: everything stays but the release".to_owned());
        return Ok(());
    }
    let keeping = keeping(release);
    let records = args.records.stores(&place.client).of(&keeping);
    let (namespace, name) = (release.target_namespace(), release.release_name());
    let found = unverified::find(&records, namespace, name, None).await;
    let mut stored = match found.map_err(|error| error.to_string())? {
        Found::Record(stored) => stored,
        Found::Nothing => {
            deletion.notes.push("the release has no revision, so there is nothing to delete".to_owned());
            return Ok(());
        }
        Found::Unreadable(unreadable) => {
            deletion.blocked.push(unreadable.to_string());
            return Ok(());
        }
    };
    deletion.revision = Some(stored.record.version);
    let private = unverified::private(&place.client, keeping.storage, &stored).await;
    let Some(private) = private.map_err(|error| error.to_string())? else {
        return Err(Failure::finding(format!(
            "revision {} of {} says nothing here of the objects that it applied: another tool wrote it, or it is kept in files \
             or in parts",
            stored.record.version,
            place.what()
        )));
    };
    stored.private = Some(private.clone());
    let cluster = Cluster::new(place.client.clone());
    let going = definitions(&cluster, release, &stored, &private, deletion).await?;
    let parts = stored_parts(&stored).map_err(|error| error.to_string())?;
    let names = going.iter().map(String::as_str).collect();
    let deployed = private.last_deployed.is_some();
    let steps = plan::deletion(&parts, &private.inventory, &private.leftovers, &names, deployed)
        .map_err(|error| Failure::finding(error.to_string()))?;
    for step in &steps.steps {
        match step {
            Step::Delete { entries, .. } | Step::Undefine { entries } => {
                for entry in entries {
                    object(&cluster, entry, &private.owner.uid, deletion).await?;
                }
            }
            Step::Hook { phase, hook } => {
                let hook = parts.hooks.get(*hook).map(|hook| hook.object.id.to_string());
                deletion.deletes.extend(hook.map(|hook| format!("(hook {phase}) {hook}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What becomes of the definitions; gives those that go.
async fn definitions(
    cluster: &Cluster,
    release: &SherpackRelease,
    stored: &Stored,
    private: &Private,
    deletion: &mut Deletion,
) -> Result<Vec<String>, Failure> {
    let crds = release.spec.crds.clone().unwrap_or_default();
    let confirmed = crds.confirm_deletion.unwrap_or_default();
    let begun = matches!(stored.record.state, State::PendingUninstall { .. });
    let namespace = reached(cluster.namespace(release.target_namespace()).await)?;
    let terminating = match namespace {
        Ok(namespace) => namespace.is_none_or(|meta| meta.deletion_timestamp.is_some()),
        // A user who may not see it cannot tell.
        Err(_) => false,
    };
    let mut counted = Vec::new();
    for shipped in &private.definitions {
        // What has begun goes on as it was decided.
        let goes = if begun { shipped.deleted } else { shipped.goes_with_release(crds.on_uninstall) };
        let count =
            if goes { cluster.count_for_deletion(&shipped.name).await } else { Count::Known(Vec::new()) };
        counted.push((shipped, goes, count));
    }
    let leaving: Vec<Leaving<'_>> = counted
        .iter()
        .map(|(shipped, goes, count)| Leaving {
            namespace_terminating: terminating,
            ..shipped.leaving(*goes, count, &confirmed)
        })
        .collect();
    deletion.impact = impact(&leaving);
    let mut going = Vec::new();
    for one in &leaving {
        let (fate, message) = match fate(one) {
            Fate::Delete => {
                going.push(one.name.to_owned());
                ("Delete", None)
            }
            Fate::Keep(why) => ("Keep", Some(why.to_owned())),
            Fate::Blocked(why) => {
                deletion.blocked.push(why.clone());
                ("Blocked", Some(why))
            }
        };
        let objects = match one.count {
            Count::Known(counts) if one.delete => Some(counts.iter().cloned().collect()),
            _ => None,
        };
        deletion.definitions.push(DefinitionFate { name: one.name.to_owned(), fate, message, objects });
    }
    Ok(going)
}

async fn object(
    cluster: &Cluster,
    entry: &InventoryEntry,
    uid: &str,
    deletion: &mut Deletion,
) -> Result<(), Failure> {
    let object = entry.id.to_string();
    match reached(cluster.find(&entry.api_version, &entry.id).await)? {
        Ok(None) => {}
        Ok(Some((_, meta))) => match super::kept(entry, &meta, uid) {
            None => deletion.deletes.push(object),
            kept => deletion.keeps.push(PruneLine { object, kept }),
        },
        Err(error) => deletion.notes.push(format!("{object} cannot be looked at: {error}")),
    }
    Ok(())
}

fn text(deletion: &Deletion) -> String {
    let Deletion {
        release, namespace, revision, deletes, keeps, definitions, impact, blocked, notes, ..
    } = deletion;
    let mut out = format!("Deletion of SherpackRelease {namespace}/{release}");
    if let Some(revision) = revision {
        out += &format!(", revision {revision}");
    }
    out += "\n\n";
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out += &format!("{title}\n");
            lines.iter().for_each(|line| out += &format!("  - {}\n", printable(line)));
            out.push('\n');
        }
    };
    list("This will delete, in this order:", deletes.clone());
    let kept = keeps.iter().map(|line| format!("{} ({})", line.object, line.kept.unwrap_or_default()));
    let unasked = definitions.iter().filter(|one| one.fate == "Keep" && one.objects.is_none());
    let unasked = unasked.map(|one| {
        format!("CustomResourceDefinition {} ({})", one.name, one.message.as_deref().unwrap_or_default())
    });
    list("This will keep:", kept.chain(unasked).collect());
    if !impact.is_empty() {
        out += &format!("{impact}\n");
    }
    for note in notes {
        out += &format!("? {}\n", printable(note));
    }
    for why in blocked {
        out += &format!("! {}\n", printable(why));
    }
    out += match blocked.is_empty() {
        true => "The deletion would go through. Nothing was written.\n",
        false => "The deletion would be held, and nothing deleted. Nothing was written.\n",
    };
    out
}
