//! Which packs that take part are neither below `charts/` nor fetched yet, and where they belong.

use serde_json::Value;

use super::{FILE, Lock, Locked, Origin};
use crate::pack::subpacks::{self, Subpack};
use crate::pack::values::{self, Merged};
use crate::pack::{Dependency, Error, Limits, Pack, Resolve};

/// A pack to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The packs around it, by their paths, from the outermost on: none, or `charts/db`, `charts/redis-7.2.1.tgz`, …
    pub within: Vec<String>,
    pub locked: Locked,
    pub origin: Origin,
}

/// What these values of the user switch on and is not there. Empty: the pack is complete, or only a render can say what is wrong.
///
/// What is vendored counts, whatever `Pack.lock` says of it; what is switched off is not looked at.
///
/// # Errors
/// [`Error::DependencyLockStale`], [`Error::DependencyLockInvalid`]; a repository that is not supported; a circle.
pub fn missing(pack: &Pack, user: &Value) -> Result<Vec<Missing>, Error> {
    if !may_lack(pack) {
        // Most packs: their values need not be merged for it.
        return Ok(Vec::new());
    }
    let mut walk = Walk { within: Vec::new(), around: Vec::new(), found: Vec::new() };
    walk.pack(pack, user)?;
    Ok(walk.found)
}

/// Whether it, or a pack inside of it, names in a lock what it does not have. What is switched off counts too.
fn may_lack(pack: &Pack) -> bool {
    let is_absent =
        |dependency: &Dependency| dependency.repository.is_some() && !subpacks::is_vendored(dependency, pack);
    let inside = || pack.subpacks.iter().filter_map(|subpack| subpack.content.as_ref().ok());
    pack.files.contains_key(FILE) && pack.dependencies.iter().any(is_absent) || inside().any(may_lack)
}

struct Walk<'p> {
    within: Vec<String>,
    /// Name and repository of the packs around this one that are taken from elsewhere.
    around: Vec<(&'p str, &'p str)>,
    found: Vec<Missing>,
}

impl<'p> Walk<'p> {
    fn pack(&mut self, pack: &'p Pack, over: &Value) -> Result<(), Error> {
        if pack.dependencies.is_empty() && pack.subpacks.is_empty() {
            return Ok(());
        }
        let merged = Merged::of(&pack.values, over).to_value();
        // A null is still to remove a default of a pack inside.
        let around = values::overlay(pack.values.clone(), over.clone());
        let mut lock = None;
        for dependency in subpacks::wanted(pack, &merged) {
            match subpacks::vendored(dependency, pack) {
                Some(subpack) => {
                    self.inside(subpack, dependency.effective_name(), Some(dependency), &around)?;
                }
                None => self.absent(dependency, pack, &mut lock)?,
            }
        }
        for (subpack, name) in subpacks::undeclared(pack) {
            self.inside(subpack, name, None, &around)?;
        }
        Ok(())
    }

    fn inside(
        &mut self,
        subpack: &'p Subpack,
        name: &str,
        dependency: Option<&'p Dependency>,
        around: &Value,
    ) -> Result<(), Error> {
        // What is wrong with them, a render says.
        let (Ok(pack), Some(section)) = (&subpack.content, subpacks::section(around, name)) else {
            return Ok(());
        };
        let from = dependency.and_then(|of| Some((of.name.as_str(), of.repository.as_deref()?)));
        self.within.push(subpack.path.clone());
        self.around.extend(from);
        self.pack(pack, &section)?;
        if from.is_some() {
            self.around.pop();
        }
        self.within.pop();
        Ok(())
    }

    fn absent(
        &mut self,
        dependency: &'p Dependency,
        pack: &Pack,
        lock: &mut Option<Lock>,
    ) -> Result<(), Error> {
        let name = dependency.effective_name();
        if dependency.resolve == Resolve::Never || dependency.repository.is_none() {
            return Ok(());
        }
        if lock.is_none() {
            *lock = Lock::read(&pack.files)?;
        }
        let Some(lock) = lock else { return Ok(()) };
        let origin = Origin::of(&dependency.name, dependency.repository.as_deref())?;
        let locked = lock.entry(dependency)?.clone();
        let repository = dependency.repository.as_deref().unwrap_or_default();
        if self.around.contains(&(dependency.name.as_str(), repository)) {
            let through: Vec<&str> = self.around.iter().map(|(name, _)| *name).collect();
            let message = format!("it needs itself: {} > {}", through.join(" > "), dependency.name);
            return Err(Error::DependencyInvalid { name: name.to_owned(), message });
        }
        let missing = Missing { within: self.within.clone(), locked, origin };
        let known = |known: &Missing| {
            (&known.within, &known.locked.name, &known.locked.version)
                == (&missing.within, &missing.locked.name, &missing.locked.version)
        };
        if !self.found.iter().any(known) {
            self.found.push(missing);
        }
        if self.found.len() > subpacks::PACKS {
            return Err(Error::TooManyPacks { limit: subpacks::PACKS });
        }
        Ok(())
    }
}

/// Puts a pack that was fetched where [`missing()`] says that it belongs. All together stay within the limits of one pack.
///
/// # Errors
/// It is another pack or version than the lock says; the whole is too large.
pub fn vendor(pack: &mut Pack, missing: &Missing, found: &Pack, limits: &Limits) -> Result<(), Error> {
    let Missing { within, locked, .. } = missing;
    locked.check(found)?;
    let mut place = &mut *pack;
    for path in within {
        let inside = place.subpacks.iter_mut().find(|subpack| subpack.path == *path);
        // It was found there.
        let Some(Ok(inside)) = inside.map(|subpack| subpack.content.as_mut()) else { return Ok(()) };
        place = inside;
    }
    let path = format!("charts/{}-{}.tgz", locked.name, locked.version);
    place.subpacks.push(Subpack { path, content: Ok(found.clone()) });
    place.subpacks.sort_by(|a, b| a.path.cmp(&b.path));
    subpacks::within(pack, limits)
}
