//! What people do to one release: chosen by a seed, carried out until the API server took it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::calls::Calls;
use super::tracked::{Hand, Tracked};
use super::wish::{Archive, Fate, Wish, by_hand};
use crate::failure::{Failure, Result};
use crate::objects::text;
use crate::random::Random;

/// A deletion that is not done in this time leaves its release deleted.
const DELETED_WITHIN: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Values(Fate),
    Pack(Archive),
    Pause(bool),
    Suspend(bool),
    Pin(u32),
    Unpin,
    EditObject,
    DeleteObject,
    Reset,
    Delete,
    Create,
    Recreate,
}

impl Step {
    pub(super) fn name(self) -> String {
        match self {
            Self::Values(fate) => format!("values {fate:?}"),
            Self::Pack(archive) => format!("pack {archive:?}"),
            Self::Pause(on) => if on { "pause" } else { "unpause" }.to_owned(),
            Self::Suspend(on) => if on { "suspend" } else { "resume" }.to_owned(),
            Self::Pin(_) => "rollbackTo".to_owned(),
            Self::Unpin => "rollbackTo removed".to_owned(),
            Self::EditObject => "object edited".to_owned(),
            Self::DeleteObject => "object deleted".to_owned(),
            Self::Reset => "reset-at".to_owned(),
            Self::Delete => "release deleted".to_owned(),
            Self::Create => "release made".to_owned(),
            Self::Recreate => "release deleted and made".to_owned(),
        }
    }
}

/// The next step of a release.
pub(super) fn choose(random: &mut Random, of: &Tracked) -> Step {
    if !of.present {
        return Step::Create;
    }
    // What holds a release back is taken away sooner than it comes, or nothing would happen for long.
    if of.settings.suspended && random.one_in(2) {
        return Step::Suspend(false);
    }
    if of.settings.paused && random.one_in(3) {
        return Step::Pause(false);
    }
    if of.settings.rollback_to.is_some() && random.one_in(3) {
        return Step::Unpin;
    }
    match random.below(24) {
        0..=6 => Step::Values(Fate::Good),
        7..=9 => Step::Values(Fate::Unready),
        10 => Step::Values(Fate::HookFails),
        11 => Step::Values(Fate::NotRenderable),
        12 => Step::Values(Fate::InvalidValues),
        13 | 14 => Step::Pack(another(random, of.wish.archive)),
        15 => Step::Pause(true),
        16 => Step::Suspend(true),
        17 | 18 => match of.revisions.keys().rev().nth(random.below(3)) {
            Some(revision) => Step::Pin(*revision),
            None => Step::Values(Fate::Good),
        },
        19 => Step::EditObject,
        20 => Step::DeleteObject,
        21 => Step::Reset,
        22 => Step::Delete,
        _ => Step::Recreate,
    }
}

fn another(random: &mut Random, now: Archive) -> Archive {
    match now {
        Archive::Broken => Archive::First,
        _ if random.one_in(4) => Archive::Broken,
        Archive::First => Archive::Second,
        Archive::Second => Archive::First,
    }
}

/// Who carries the steps out.
pub(super) struct People {
    pub(super) calls: Calls,
    pub(super) archives: BTreeMap<Archive, Vec<u8>>,
    pub(super) counts: BTreeMap<String, usize>,
    /// Of the last wish: no two are the same.
    pub(super) turn: u32,
}

impl People {
    pub(super) async fn act(&mut self, random: &mut Random, of: &mut Tracked, step: Step) -> Result<()> {
        *self.counts.entry(step.name()).or_default() += 1;
        match step {
            Step::Values(fate) => {
                self.turn += 1;
                of.ask(Wish::draw(random, self.turn, of.wish.archive, fate));
                self.send(of).await?;
            }
            Step::Pack(archive) => {
                of.ask(of.wish.with(archive));
                self.store_pack(of).await?;
            }
            Step::Pause(paused) => {
                of.settings.paused = paused;
                self.send(of).await?;
            }
            Step::Suspend(suspended) => {
                of.settings.suspended = suspended;
                self.send(of).await?;
            }
            Step::Pin(revision) => {
                of.pin(revision);
                self.send(of).await?;
            }
            Step::Unpin => {
                of.settings.rollback_to = None;
                of.ask(of.wish.clone());
                self.send(of).await?;
            }
            Step::EditObject => {
                let title = format!("ConfigMap/{}", of.traits.object("drift"));
                let patch = json!({"data": {"turn": "by hand"}});
                self.calls.edit(&of.traits.namespace, &title, &patch).await?;
            }
            Step::DeleteObject => {
                let kind = if random.one_in(2) { "ConfigMap" } else { "Deployment" };
                let suffix = if kind == "ConfigMap" { "drift" } else { "app" };
                let title = format!("{kind}/{}", of.traits.object(suffix));
                self.calls.delete(&of.traits.namespace, &title).await?;
            }
            Step::Reset => self.reset(of).await?,
            Step::Delete => self.delete(of).await?,
            Step::Create => self.make(random, of).await?,
            Step::Recreate => {
                self.delete(of).await?;
                self.make(random, of).await?;
            }
        }
        // After it was taken: the moment and what it came to are what a reader wants to know.
        let now = jiff::Timestamp::now().strftime("%H:%M:%S");
        of.tell(format!("{now} {step:?}: wish {:?} hands {} {:?}", of.wish.id(), of.wish.hands, of.settings));
        Ok(())
    }

    /// Forgets failures.
    pub(super) async fn reset(&mut self, of: &Tracked) -> Result<()> {
        self.turn += 1;
        let title = format!("SherpackRelease/{}", of.traits.name);
        let patch = json!({"metadata": {"annotations": {"sherpack.io/reset-at": self.turn.to_string()}}});
        self.calls.edit(&of.traits.namespace, &title, &patch).await.map(drop)
    }

    async fn send(&self, of: &Tracked) -> Result<()> {
        let title = format!("SherpackRelease/{}", of.traits.name);
        let body = json!({"spec": of.wish.spec(&of.traits, of.settings)});
        self.calls.apply(&of.traits.namespace, &title, body).await
    }

    async fn store_pack(&self, of: &Tracked) -> Result<()> {
        let archive = self.archives.get(&of.wish.archive);
        let archive = archive.ok_or_else(|| Failure::new("no such archive"))?;
        let title = format!("ConfigMap/{}", of.traits.pack());
        let body = json!({"binaryData": {"soak.tgz": k8s_openapi::ByteString(archive.clone())}});
        self.calls.apply(&of.traits.namespace, &title, body).await
    }

    async fn delete(&self, of: &mut Tracked) -> Result<()> {
        of.present = false;
        let title = format!("SherpackRelease/{}", of.traits.name);
        self.calls.delete(&of.traits.namespace, &title).await
    }

    /// Makes a release that is not there; one that still goes is left to go.
    async fn make(&mut self, random: &mut Random, of: &mut Tracked) -> Result<()> {
        let title = format!("SherpackRelease/{}", of.traits.name);
        let began = Instant::now();
        while self.calls.get(&of.traits.namespace, &title).await?.is_some() {
            if began.elapsed() > DELETED_WITHIN {
                of.tell("it is not gone yet, and stays deleted".to_owned());
                return Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
        self.turn += 1;
        let fate = if random.one_in(4) { Fate::Unready } else { Fate::Good };
        of.settings = super::wish::Settings::default();
        of.possible.clear();
        of.revisions.clear();
        of.ask(Wish::draw(random, self.turn, Archive::First, fate));
        of.present = true;
        self.store_pack(of).await?;
        self.send(of).await
    }

    /// A person makes the objects that a later wish may take over.
    pub(super) async fn make_by_hand(&mut self, of: &mut Tracked) -> Result<()> {
        for (kind, body) in
            ["ConfigMap", "Secret", "PersistentVolumeClaim"].into_iter().zip(by_hand(&of.traits, "hand"))
        {
            let Some(made) = self.calls.create(&of.traits.namespace, &body).await? else { continue };
            *self.counts.entry(format!("{} by hand", text(&body["kind"]))).or_default() += 1;
            let uid = made.metadata.uid.clone().unwrap_or_default();
            of.hands.push(Hand { kind, uid, said: what_a_person_said(&made), deployed: false });
            of.tell(format!("{kind}/{} made by hand", of.traits.object("hand")));
        }
        Ok(())
    }
}

/// The part of an object that is handed back.
pub(super) fn what_a_person_said(object: &kube::api::DynamicObject) -> serde_json::Value {
    json!({"data": object.data["data"], "labels": object.metadata.labels})
}
