//! What must hold whenever the cluster is calm: judged from the objects alone.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::calls::{Calls, place};
use super::story::what_a_person_said;
use super::tracked::{Hand, Said, Tracked, said};
use super::wish::{Id, archive_of};
use crate::failure::{Failure, Result, check};
use crate::objects::{RELEASE_LABEL, is_record, text};

/// Records beside those of `history.limit`: three that failed, the newest, the last deployed and the pinned one where they
/// are among neither, and one that retention has not reached yet.
const MORE_RECORDS: usize = 3 + 4;

/// On the Secrets that hold what an adopted object was.
const KEPT: &str = "sherpack.io/kept";

/// What the cluster shows of all releases at one moment.
pub(super) struct Sighting {
    releases: BTreeMap<String, DynamicObject>,
    /// Lasting objects with the label of a release, by its place.
    objects: BTreeMap<String, BTreeMap<String, DynamicObject>>,
    /// Names of records, by the place of their release.
    records: BTreeMap<String, BTreeSet<String>>,
}

impl Sighting {
    /// Only what tells whose wish is live.
    pub(super) async fn brief(calls: &Calls) -> Result<Self> {
        Self::of(calls, &["ConfigMap"]).await
    }

    pub(super) async fn full(calls: &Calls) -> Result<Self> {
        Self::of(calls, &["ConfigMap", "Secret", "Service", "Deployment", "PersistentVolumeClaim"]).await
    }

    async fn of(calls: &Calls, kinds: &[&str]) -> Result<Self> {
        // Releases first: what their status says must hold of objects that are read later.
        let releases = calls.releases().await?;
        let releases =
            releases.into_iter().map(|object| (place(&object, &object.name_any()), object)).collect();
        let mut seen = Self { releases, objects: BTreeMap::new(), records: BTreeMap::new() };
        for kind in kinds {
            for object in calls.labelled(kind).await? {
                seen.sort_in(kind, object);
            }
        }
        Ok(seen)
    }

    fn sort_in(&mut self, kind: &str, object: DynamicObject) {
        let release = object.labels().get(RELEASE_LABEL).cloned().unwrap_or_default();
        let release = place(&object, &release);
        if is_record(&object) {
            self.records.entry(release).or_default().insert(object.name_any());
        } else if !object.labels().contains_key(KEPT) && object.metadata.deletion_timestamp.is_none() {
            let title = format!("{kind}/{}", object.name_any());
            self.objects.entry(release).or_default().insert(title, object);
        }
    }

    pub(super) fn release(&self, of: &Tracked) -> Option<&DynamicObject> {
        self.releases.get(&key(of))
    }

    fn object(&self, of: &Tracked, title: &str) -> Option<&DynamicObject> {
        self.objects.get(&key(of))?.get(title)
    }

    /// The wish whose mark the release's objects carry.
    pub(super) fn live(&self, of: &Tracked) -> Option<Id> {
        let data = &self.object(of, &format!("ConfigMap/{}", of.traits.object("id")))?.data["data"];
        Some((text(&data["turn"]).parse().ok()?, archive_of(text(&data["pack"]))?))
    }
}

fn key(of: &Tracked) -> String {
    format!("{}/{}", of.traits.namespace, of.traits.name)
}

/// Checks one release at rest, and notes what is deployed of it.
pub(super) async fn release(calls: &Calls, seen: &Sighting, of: &mut Tracked) -> Result<()> {
    let found = seen.release(of).cloned();
    let said = found.as_ref().map(said);
    let live = seen.live(of);
    check_records(seen, of, said.as_ref())?;
    let suspended = of.present && of.settings.suspended;
    let head = said.as_ref().and_then(|said| said.head);
    let deployed = head.filter(|(_, state)| *state == "deployed").map(|(revision, _)| revision);
    match (deployed, live) {
        _ if suspended => {}
        (Some(revision), live) => {
            let live = live.ok_or_else(|| {
                Failure::new(format!("revision {revision} is deployed, and its mark is gone"))
            })?;
            check_deployed(seen, of, live)?;
            // A wish that is held back may be rolled out at any later time.
            let waiting = of.wish.is_good().then(|| of.wish.id());
            of.possible = waiting.into_iter().chain([live]).collect();
            of.revisions.insert(revision, live);
        }
        (None, _) => check_not_lost(seen, of, said.as_ref())?,
    }
    if !of.present {
        let left: Vec<_> = seen.objects.get(&key(of)).into_iter().flat_map(BTreeMap::keys).collect();
        check(left.is_empty(), || format!("the release was deleted; left of it: {left:?}"))?;
    }
    // Whether what is not in the deployed wish has to be handed back by now.
    let holds = deployed.and(live).and_then(|live| of.wishes.get(&live)).map(|wish| wish.hands);
    let nothing_is_left = !of.present || head.is_some_and(|(_, state)| state == "uninstalled");
    let handed_back = !suspended && (nothing_is_left || holds == Some(false));
    check_hands(calls, of, handed_back).await?;
    of.at_rest = of.present && !suspended && deployed.is_some();
    Ok(())
}

/// All objects of the deployed wish are there, all of the same wish, and no others.
fn check_deployed(seen: &Sighting, of: &Tracked, live: Id) -> Result<()> {
    let wish = of.wishes.get(&live).filter(|_| of.possible.contains(&live));
    let wish = wish.ok_or_else(|| {
        Failure::new(format!("the live objects are of wish {live:?}; only {:?} can be deployed", of.possible))
    })?;
    let wanted: BTreeSet<String> = wish.lasting(&of.traits).into_iter().collect();
    let found: BTreeSet<String> =
        seen.objects.get(&key(of)).into_iter().flat_map(BTreeMap::keys).cloned().collect();
    check(found == wanted, || {
        let missing: Vec<_> = wanted.difference(&found).collect();
        let more: Vec<_> = found.difference(&wanted).collect();
        format!("wish {live:?} is deployed; missing of it: {missing:?}, there but not in it: {more:?}")
    })?;
    for suffix in ["main", "drift", "late"] {
        let title = format!("ConfigMap/{}", of.traits.object(suffix));
        let Some(object) = seen.object(of, &title) else { continue };
        let turn = text(&object.data["data"]["turn"]);
        check(turn == live.0.to_string(), || {
            format!("wish {live:?} is deployed; {title} says turn {turn:?}")
        })?;
    }
    let app = format!("Deployment/{}", of.traits.object("app"));
    let turn = seen.object(of, &app).and_then(|object| object.annotations().get("soak/turn").cloned());
    check(turn.as_deref() == Some(&live.0.to_string()), || {
        format!("wish {live:?} is deployed; {app} says turn {turn:?}")
    })
}

/// A later revision failed and was not undone: what was deployed before is all still there. People may have deleted these
/// two kinds of objects while nothing was locked.
fn check_not_lost(seen: &Sighting, of: &Tracked, said: Option<&Said<'_>>) -> Result<()> {
    let kept = said.is_some_and(|said| said.ever_deployed) && of.present;
    let good: Vec<_> = of.possible.iter().filter_map(|id| of.wishes.get(id)).collect();
    if !kept || good.is_empty() {
        return Ok(());
    }
    let drifting = ["ConfigMap/", "Deployment/"].map(|kind| {
        let suffix = if kind == "ConfigMap/" { "drift" } else { "app" };
        format!("{kind}{}", of.traits.object(suffix))
    });
    let missing = |wish: &super::wish::Wish| {
        let mut titles = wish.lasting(&of.traits);
        titles.retain(|title| !drifting.contains(title) && seen.object(of, title).is_none());
        titles
    };
    let missing: Vec<_> = good.iter().map(|wish| (wish.id(), missing(wish))).collect();
    check(missing.iter().any(|(_, missing)| missing.is_empty()), || {
        format!("what was deployed last is one of these wishes, and this is missing of each: {missing:?}")
    })
}

fn check_records(seen: &Sighting, of: &Tracked, said: Option<&Said<'_>>) -> Result<()> {
    let prefix = format!("sh.sherpack.release.v1.{}.v", of.traits.name);
    let names: Vec<_> = seen.records.get(&key(of)).into_iter().flatten().collect();
    let names: Vec<_> = names.into_iter().filter(|name| name.starts_with(&prefix)).collect();
    let most = if said.is_some() { of.traits.limit + MORE_RECORDS } else { 0 };
    // A revision that was deployed and whose record is there can be gone back to.
    let refused = said.filter(|said| said.reason == "RollbackTargetInvalid").and(of.settings.rollback_to);
    if let Some(revision) = refused.filter(|revision| of.revisions.contains_key(revision)) {
        let record = format!("{prefix}{revision}");
        check(!names.contains(&&record), || {
            format!("revision {revision} was deployed and is stored, and is refused as RollbackTargetInvalid")
        })?;
    }
    check(names.len() <= most, || format!("at most {most} records, found {}: {names:?}", names.len()))
}

/// What a person made is there as long as it has to be, and is a person's again when it has to be.
async fn check_hands(calls: &Calls, of: &mut Tracked, handed_back: bool) -> Result<()> {
    let name = of.traits.object("hand");
    let mut left = Vec::new();
    for hand in std::mem::take(&mut of.hands) {
        let title = format!("{}/{name}", hand.kind);
        let found = calls.get(&of.traits.namespace, &title).await?;
        let same = found.as_ref().filter(|object| object.metadata.uid.as_deref() == Some(&hand.uid));
        let volume = hand.kind == "PersistentVolumeClaim";
        match same {
            None => check(hand.deployed && !volume, || {
                let found = found.as_ref().map(|object| object.metadata.uid.clone());
                format!(
                    "{title} was made by hand with uid {}, and was never deployed or is a volume; found {found:?}",
                    hand.uid
                )
            })?,
            Some(object) => {
                if handed_back {
                    check_handed_back(&title, &hand, object)?;
                }
                left.push(hand);
            }
        }
    }
    of.hands = left;
    Ok(())
}

fn check_handed_back(title: &str, hand: &Hand, object: &DynamicObject) -> Result<()> {
    let ours: Vec<_> =
        object.labels().keys().chain(object.annotations().keys()).filter(|key| is_ours(key)).collect();
    check(ours.is_empty(), || {
        format!("{title} was made by hand and is in no revision now; it carries {ours:?}")
    })?;
    let now = what_a_person_said(object);
    // What was deployed was the release's own, so its values stay.
    check(hand.deployed || now == hand.said, || {
        format!(
            "{title} was made by hand and is in no revision now; it says {now}, a person said {}",
            hand.said
        )
    })
}

/// Labels and annotations by which the operator knows an object.
fn is_ours(key: &str) -> bool {
    key == RELEASE_LABEL || key == "sherpack.io/applied"
}
