//! The steps of an operation, one flat list: a checkpoint is an index into it.

use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use super::annotations::{first, integer, list, truth, wrong};
use super::hooks::{Hook, Parts, Phase};
use super::probes::probe;
use crate::api::names;
use crate::manifest::{Defined, InventoryEntry, Object, ObjectId, order};

/// What an operation is for: decides which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    Install,
    Upgrade,
    Rollback,
}

impl Occasion {
    fn phases(self) -> (Phase, Phase) {
        match self {
            Self::Install => (Phase::PreInstall, Phase::PostInstall),
            Self::Upgrade => (Phase::PreUpgrade, Phase::PostUpgrade),
            Self::Rollback => (Phase::PreRollback, Phase::PostRollback),
        }
    }
}

/// One step. Every step may be done again: what it did already is found and left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a hook, by its index, to its end.
    Hook { phase: Phase, hook: usize },
    /// Applies definitions of resources, by their indices.
    ///
    /// With `conversion`: those that were applied without their conversion webhook before.
    Define { definitions: Vec<usize>, conversion: bool },
    /// Waits until the API server serves what they define.
    AwaitServed { definitions: Vec<usize> },
    /// Applies groups of objects, by their indices, one group after another; members of a group go in parallel.
    Apply { wave: i32, groups: Vec<Vec<usize>> },
    /// Waits until objects are healthy.
    Wait { wave: i32, objects: Vec<usize>, wait: Wait },
    /// Deletes objects, one group after another, and waits until they are gone.
    Delete { wave: i32, entries: Vec<InventoryEntry> },
    /// Deletes definitions with all objects that they define, and waits until they are gone.
    Undefine { entries: Vec<InventoryEntry> },
}

impl Step {
    /// The wave to which the step belongs, if to any.
    #[must_use]
    pub fn wave(&self) -> Option<i32> {
        match self {
            Self::Hook { .. } | Self::Define { .. } | Self::AwaitServed { .. } | Self::Undefine { .. } => {
                None
            }
            Self::Apply { wave, .. } | Self::Wait { wave, .. } | Self::Delete { wave, .. } => Some(*wave),
        }
    }
}

/// Why objects are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Other objects name them in `sherpack.io/wait-for`.
    Named,
    /// Another wave comes after theirs, of the same or of the next layer.
    Wave,
    /// Theirs is the last wave of the last layer.
    Last,
}

/// An operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its steps, in their order.
    pub steps: Vec<Step>,
    /// Its waves, in the order in which they are done.
    pub waves: Vec<i32>,
}

/// What an install, upgrade or rollback does: hooks, definitions of resources, the waves in ascending order, hooks. What it
/// no longer wants is pruned after that.
///
/// Definitions come before every wave, whatever wave they name: all else may need them. With packs inside, definitions and waves of
/// one layer come before those of the next; a definition comes as early as an object of its kind.
///
/// # Errors
/// An annotation that means nothing, also one of a probe; a wait for what is not there or comes later, and waits in a
/// circle.
pub fn roll_out(parts: &Parts, occasion: Occasion) -> Result<Plan, Error> {
    let (before, after) = occasion.phases();
    let mut steps = hooks_of(&parts.hooks, before);
    let objects = &parts.objects;
    for object in objects.iter().chain(parts.hooks.iter().map(|hook| &hook.object)) {
        probe(object)?;
    }
    let mut waves: BTreeMap<(u32, i32), Vec<usize>> = BTreeMap::new();
    let mut definitions: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, object) in objects.iter().enumerate() {
        if object.id.is_definition() {
            definitions.entry(first_use(objects, object)).or_default().push(index);
        } else {
            let wave = integer(object, &[names::SYNC_WAVE])?;
            waves.entry((object.layer, wave)).or_default().push(index);
        }
    }
    let waits = Waits::read(objects, &waves)?;
    let layers: BTreeSet<u32> =
        definitions.keys().copied().chain(waves.keys().map(|(layer, _)| *layer)).collect();
    for layer in layers {
        let definitions = definitions.remove(&layer).unwrap_or_default();
        if !definitions.is_empty() {
            steps.push(Step::Define { definitions: definitions.clone(), conversion: false });
            steps.push(Step::AwaitServed { definitions: definitions.clone() });
        }
        steps.extend(waits.waves(objects, &waves, layer)?);
        let later = |index: &usize| parts.webhooks_later.contains(&objects[*index].id);
        let definitions: Vec<usize> = definitions.into_iter().filter(later).collect();
        if !definitions.is_empty() {
            steps.push(Step::Define { definitions, conversion: true });
        }
    }
    steps.extend(hooks_of(&parts.hooks, after));
    Ok(Plan { steps, waves: waves.into_keys().map(|(_, wave)| wave).collect() })
}

/// What an uninstall does: hooks, the waves in reverse, definitions, hooks. What earlier revisions left behind goes first. Layers
/// go in reverse as well.
///
/// Of the definitions only those of these names go. `with_hooks` is false for a release that was never deployed: its hooks have nothing to work on.
///
/// # Errors
/// An annotation that means nothing.
pub fn deletion(
    parts: &Parts,
    inventory: &[InventoryEntry],
    leftovers: &[InventoryEntry],
    definitions: &BTreeSet<&str>,
    with_hooks: bool,
) -> Result<Plan, Error> {
    let hooks = |phase| if with_hooks { hooks_of(&parts.hooks, phase) } else { Vec::new() };
    let mut waves_of: BTreeMap<&ObjectId, i32> = BTreeMap::new();
    for object in &parts.objects {
        waves_of.insert(&object.id, integer(object, &[names::SYNC_WAVE])?);
    }
    let mut waves: BTreeMap<(u32, i32), Vec<InventoryEntry>> = BTreeMap::new();
    let highest = waves_of.values().max().copied().unwrap_or(0);
    let last = inventory.iter().map(|entry| entry.layer).max().unwrap_or(0);
    let ordinary = |entry: &&InventoryEntry| !entry.id.is_definition();
    for entry in leftovers.iter().filter(ordinary) {
        waves.entry((last, highest)).or_default().push(entry.clone());
    }
    for entry in inventory.iter().filter(ordinary) {
        let wave = waves_of.get(&entry.id).copied().unwrap_or(highest);
        waves.entry((entry.layer, wave)).or_default().push(entry.clone());
    }
    let mut steps = hooks(Phase::PreDelete);
    let order: Vec<i32> = waves.keys().rev().map(|(_, wave)| *wave).collect();
    steps.extend(
        waves
            .into_iter()
            .rev()
            .map(|((_, wave), entries)| Step::Delete { wave, entries: super::deletion_order(entries) }),
    );
    let goes = |entry: &&InventoryEntry| entry.id.is_definition() && definitions.contains(&*entry.id.name);
    let entries: Vec<InventoryEntry> =
        inventory.iter().filter(goes).map(|entry| InventoryEntry { keep: false, ..entry.clone() }).collect();
    if !entries.is_empty() {
        steps.push(Step::Undefine { entries });
    }
    steps.extend(hooks(Phase::PostDelete));
    Ok(Plan { steps, waves: order })
}

/// The tests of a release.
#[must_use]
pub fn tests(hooks: &[Hook]) -> Plan {
    Plan { steps: hooks_of(hooks, Phase::Test), waves: Vec::new() }
}

fn hooks_of(hooks: &[Hook], phase: Phase) -> Vec<Step> {
    let of_phase = |(index, hook): (usize, &Hook)| {
        hook.phases.contains(&phase).then_some(Step::Hook { phase, hook: index })
    };
    hooks.iter().enumerate().filter_map(of_phase).collect()
}

/// The layer in which a definition is needed: its own, unless a pack that comes before has objects of its kind.
fn first_use(objects: &[Object], definition: &Object) -> u32 {
    let own = definition.layer;
    if own == 0 {
        return 0;
    }
    let Some(Defined { group, kind, .. }) = Defined::of(&definition.body) else { return own };
    let of_its_kind = objects.iter().filter(|object| object.id.group == group && object.id.kind == kind);
    of_its_kind.map(|object| object.layer).min().map_or(own, |first| own.min(first))
}

/// Groups follow the kind order; inside a group objects are sorted by id.
fn groups(objects: &[Object], members: Vec<usize>) -> Vec<Vec<usize>> {
    let mut by_rank: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for index in members {
        let id = &objects[index].id;
        by_rank.entry(order::rank(&id.group, &id.kind)).or_default().push(index);
    }
    for group in by_rank.values_mut() {
        group.sort_by(|a, b| objects[*a].id.cmp(&objects[*b].id));
    }
    by_rank.into_values().collect()
}

/// Who waits for whom.
struct Waits {
    /// Objects that each object waits for, all of the same or of an earlier wave or layer.
    needs: BTreeMap<usize, BTreeSet<usize>>,
    /// Objects that nothing waits for by default.
    skipped: BTreeSet<usize>,
}

/// Objects of a wave that are applied together, and what they wait for first.
struct Turn {
    needs: BTreeSet<usize>,
    members: Vec<usize>,
}

impl Waits {
    fn read(objects: &[Object], waves: &BTreeMap<(u32, i32), Vec<usize>>) -> Result<Self, Error> {
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, object) in objects.iter().enumerate() {
            by_name.entry(format!("{}/{}", object.id.kind, object.id.name)).or_default().push(index);
        }
        let wave_of: BTreeMap<usize, (u32, i32)> =
            waves.iter().flat_map(|(wave, members)| members.iter().map(|index| (*index, *wave))).collect();
        let mut needs: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let mut skipped = BTreeSet::new();
        for (index, object) in objects.iter().enumerate() {
            if truth(object, names::SKIP_WAIT)? {
                skipped.insert(index);
            }
            let Some((key, value)) = first(object, &[names::WAIT_FOR]) else { continue };
            for target in list(value) {
                if target.split('/').filter(|part| !part.is_empty()).count() != 2 {
                    return Err(wrong(&object.id, key, value, "a comma-separated list of Kind/name"));
                }
                let nothing = |problem| Error::WaitForNothing {
                    object: object.id.to_string(),
                    target: target.to_owned(),
                    problem,
                };
                let found = by_name.get(target).ok_or_else(|| nothing("not in the manifest, or a hook"))?;
                if found.iter().any(|other| wave_of.get(other) > wave_of.get(&index)) {
                    return Err(nothing("in a later wave, or in a pack that comes later"));
                }
                needs.entry(index).or_default().extend(found);
            }
        }
        Ok(Self { needs, skipped })
    }

    /// The steps of the waves of one layer.
    fn waves(
        &self,
        objects: &[Object],
        waves: &BTreeMap<(u32, i32), Vec<usize>>,
        layer: u32,
    ) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        let last = waves.keys().next_back();
        for (key, members) in waves.range((layer, i32::MIN)..=(layer, i32::MAX)) {
            let wave = key.1;
            for turn in self.turns(objects, members)? {
                if !turn.needs.is_empty() {
                    let objects = turn.needs.into_iter().collect();
                    steps.push(Step::Wait { wave, objects, wait: Wait::Named });
                }
                steps.push(Step::Apply { wave, groups: groups(objects, turn.members) });
            }
            let waited: Vec<usize> =
                members.iter().copied().filter(|index| !self.skipped.contains(index)).collect();
            let wait = if Some(key) == last { Wait::Last } else { Wait::Wave };
            if !waited.is_empty() {
                steps.push(Step::Wait { wave, objects: waited, wait });
            }
        }
        Ok(steps)
    }

    /// The members of a wave in turns: each waits only for what earlier ones applied.
    fn turns(&self, objects: &[Object], members: &[usize]) -> Result<Vec<Turn>, Error> {
        let mut left: BTreeSet<usize> = members.iter().copied().collect();
        let mut turns = Vec::new();
        while !left.is_empty() {
            let free = |index: &usize| self.needs.get(index).is_none_or(|needs| needs.is_disjoint(&left));
            let members: Vec<usize> = left.iter().copied().filter(free).collect();
            if members.is_empty() {
                return Err(Error::WaitForCircle { circle: self.circle(objects, &left) });
            }
            let needs = members.iter().filter_map(|index| self.needs.get(index)).flatten().copied().collect();
            for index in &members {
                left.remove(index);
            }
            turns.push(Turn { needs, members });
        }
        Ok(turns)
    }

    /// One circle among objects of which each waits for another of them.
    fn circle(&self, objects: &[Object], left: &BTreeSet<usize>) -> String {
        let mut path: Vec<usize> = Vec::new();
        let mut at = left.first().copied();
        while let Some(index) = at {
            if let Some(start) = path.iter().position(|seen| *seen == index) {
                path.drain(..start);
                path.push(index);
                break;
            }
            path.push(index);
            at = self.needs.get(&index).and_then(|needs| needs.intersection(left).next().copied());
        }
        let name = |index: usize| format!("{}/{}", objects[index].id.kind, objects[index].id.name);
        path.into_iter().map(name).collect::<Vec<_>>().join(" -> ")
    }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
