//! What stays in memory of a record between two passes: little, whichever tool wrote it, and never enough to be written.
//!
//! Any user who may write Secrets chooses how long the texts of a record are. Decisions, the status and metrics need its
//! names, its state and our sealed part. The rest is dropped, and what stays is cut: a name to [`NAME_BYTES`], everything
//! else together to far less than [`REST_BYTES`]. A cut text ends with `…`, which stands in no name of Kubernetes, so a cut
//! name equals no real one.
//!
//! A slim record must not be written back: [`Records::update`](crate::storage::Records::update) refuses it. A caller that rewrites a
//! record reads it whole first.

use semver::{BuildMetadata, Prerelease, Version};
use serde_json::Value;

use crate::api::conditions::{MESSAGE_MAX, cut};
use crate::api::{NAME_MAX, names};
use crate::manifest::digest_of;
use crate::release::{PackIdentity, State, ValuesProvenance};
use crate::storage::{Head, Stored};

/// Most bytes of one name.
pub const NAME_BYTES: usize = NAME_MAX;

/// Most bytes that stay of a record beside its names and our sealed part.
pub const REST_BYTES: usize = 64 << 10;

/// Most bytes of what a failed record says of its failure: a condition shows less.
const FAILURE_BYTES: usize = 4 * MESSAGE_MAX;

/// Labels and annotations of others are kept as long as they are small: a caller that writes the record needs all of them.
const CARRIED_BYTES: usize = 16 << 10;

/// How much of a record is given to the caller that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum Keep {
    Whole,
    /// Slim, and of the records of this operator a digest of what they apply.
    Survey,
    Slim,
}

impl Keep {
    pub(in crate::storage) fn of(self, head: Head) -> Head {
        match (self, head) {
            (Self::Whole, head) => head,
            (Self::Survey, Head::Ours(mut stored)) => {
                stored.effect = Some(effect(&stored));
                Head::Ours(stored).slim()
            }
            (Self::Slim | Self::Survey, head) => head.slim(),
        }
    }
}

impl Head {
    /// What stays in memory of it.
    #[must_use]
    pub fn slim(self) -> Self {
        match self {
            Self::Ours(stored) => Self::Ours(Box::new(stored.slim())),
            Self::Foreign(stored) => Self::Foreign(Box::new(stored.slim())),
            other @ (Self::None | Self::Unreadable(_)) => other,
        }
    }
}

impl Stored {
    /// What stays in memory of it.
    #[must_use]
    pub fn slim(mut self) -> Self {
        self.lighten();
        self
    }

    /// Drops and cuts everything that only an operation on the record needs.
    pub fn lighten(&mut self) {
        self.whole = false;
        let record = &mut self.record;
        record.manifest = String::new();
        record.values = Value::Null;
        record.values_provenance = ValuesProvenance::default();
        record.notes = None;
        record.hooks = Vec::new();
        cut_in_place(&mut record.name, NAME_BYTES);
        cut_in_place(&mut record.namespace, NAME_BYTES);
        cut_state(&mut record.state);
        cut_pack(&mut record.pack);
        let described = record.labels.remove_entry(names::DESCRIPTION);
        let described = described.map(|(label, note)| (label, cut(&note, MESSAGE_MAX)));
        record.labels = described.into_iter().collect();
        if let Some(unproved) = &mut self.unproved {
            unproved.private = None;
            if let Some(owner) = &mut unproved.owner {
                for name in [&mut owner.namespace, &mut owner.name, &mut owner.uid] {
                    cut_in_place(name, NAME_BYTES);
                }
            }
        }
        for shipped in self.private.iter_mut().flat_map(|private| &mut private.definitions) {
            shipped.body = None;
        }
        if self.carried.bytes() > CARRIED_BYTES {
            self.carried = Default::default();
            self.carries_all = false;
        }
    }

    /// Whether all of it is here, so that it can be written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether its record is all that is missing, so that [`refill`](Self::refill) makes it whole.
    #[must_use]
    pub fn carries_all(&self) -> bool {
        self.carries_all
    }

    /// Puts back the record that [`lighten`](Self::lighten) took.
    pub fn refill(&mut self, record: crate::release::Record) {
        self.record = record;
        self.whole = self.carries_all;
    }

    /// Puts back all that [`lighten`](Self::lighten) took, from the same state of the record as it was read again.
    pub fn refill_from(&mut self, read: Self) {
        self.record = read.record;
        (self.carried, self.carries_all) = (read.carried, read.carries_all);
        self.whole = self.carries_all && read.whole;
    }
}

/// Digest of everything that going back to a revision would apply and run: definitions of resources and hooks are not in
/// its manifest.
fn effect(stored: &Stored) -> String {
    let hooks: Vec<&str> = stored.record.hooks.iter().map(|hook| hook.resource.as_str()).collect();
    let shipped = stored.private.iter().flat_map(|private| &private.definitions);
    let bodies: Vec<_> =
        shipped.filter(|shipped| shipped.written).filter_map(|shipped| shipped.body.as_ref()).collect();
    let effect = (&stored.record.manifest, hooks, bodies);
    // Texts and JSON always serialise.
    digest_of(&serde_json::to_vec(&effect).unwrap_or_default())
}

fn cut_in_place(text: &mut String, most: usize) {
    if text.len() > most {
        *text = cut(text, most);
    }
    text.shrink_to_fit();
}

fn cut_state(state: &mut State) {
    match state {
        State::Failed { reason, .. } => cut_in_place(reason, FAILURE_BYTES),
        State::Recovering { from_status, .. } => cut_in_place(from_status, NAME_BYTES),
        State::Deployed
        | State::Uninstalled
        | State::Superseded
        | State::PendingInstall { .. }
        | State::PendingUpgrade { .. }
        | State::PendingRollback { .. }
        | State::PendingUninstall { .. } => {}
    }
}

/// Leaves name and versions; nothing asks for the rest of it.
fn cut_pack(pack: &mut PackIdentity) {
    let PackIdentity { name, version, app_version, .. } = pack;
    *pack = PackIdentity {
        name: cut(name, NAME_BYTES),
        version: cut_version(version),
        app_version: app_version.as_deref().map(|text| cut(text, NAME_BYTES)),
        description: None,
        kube_version: None,
        home: None,
        icon: None,
        sources: Vec::new(),
        keywords: Vec::new(),
        maintainers: Vec::new(),
        annotations: Default::default(),
    };
}

/// A version has no place for `…`: one that is too long loses what comes after its numbers, and says so.
fn cut_version(version: &Version) -> Version {
    if version.pre.len() + version.build.len() + 64 <= NAME_BYTES {
        return version.clone();
    }
    let build = BuildMetadata::new("cut").unwrap_or(BuildMetadata::EMPTY);
    Version { pre: Prerelease::EMPTY, build, ..Version::new(version.major, version.minor, version.patch) }
}

#[cfg(test)]
#[path = "slim_tests.rs"]
mod tests;
