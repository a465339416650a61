//! The packs below `charts/`: reading them within the limits of the whole, and which of them take part.

pub mod lock;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Dependency, Error, Files, Limits, Pack, alone, archive, clean, values, version};

/// Packs inside packs.
pub const DEPTH: usize = 10;
/// Packs in a pack, at any depth.
pub(super) const PACKS: usize = 200;
/// Scalars, lists and objects of all values, definitions and schemas together: they take far more memory than their text.
const FIELDS: usize = 300_000;
const FOLDER: &str = "charts/";
const ARCHIVES: [&str; 2] = [".tgz", ".tar.gz"];

/// One directory or archive below `charts/`.
#[derive(Clone, Debug, PartialEq)]
pub struct Subpack {
    /// Path in the pack around it: `charts/redis`, `charts/redis-1.0.0.tgz`.
    pub path: String,
    /// The pack, or why it is none.
    pub content: Result<Pack, Error>,
}

impl Subpack {
    /// Name of the directory, or of the archive without its ending.
    fn stem(&self) -> &str {
        let name = self.path.strip_prefix(FOLDER).unwrap_or(&self.path);
        ARCHIVES.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
    }

    fn is_archive(&self) -> bool {
        ARCHIVES.iter().any(|ending| self.path.ends_with(ending))
    }
}

/// A pack that takes part in the render of the pack around it.
#[derive(Clone, Copy, Debug)]
pub struct Instance<'p> {
    /// Alias, or name: its section in the values around it.
    pub name: &'p str,
    /// The pack.
    pub pack: &'p Pack,
    /// How the pack around it declares it, if it does.
    pub dependency: Option<&'p Dependency>,
}

/// What is left of the limits for a pack and all packs inside of it.
pub(super) struct Allowance {
    limits: Limits,
    bytes: u64,
    entries: usize,
    fields: usize,
    packs: usize,
}

impl Allowance {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            bytes: limits.unpacked,
            entries: limits.entries,
            fields: FIELDS,
            packs: PACKS + 1,
        }
    }

    /// Makes a pack and those inside of it. What they hold is counted at each level at which it is held.
    pub(super) fn pack(&mut self, files: Files, depth: usize) -> Result<Pack, Error> {
        self.take(&files)?;
        let mut pack = alone(files)?;
        self.count_fields(&pack)?;
        let (directories, archives, others) = sort(&pack.files);
        pack.warnings.extend(others.into_iter().take(20).map(|path| {
            format!("{path} is no pack: neither a directory nor an archive (.tgz, .tar.gz), it is ignored")
        }));
        for (path, files) in directories {
            let content = self.inside(depth, |allowance| allowance.pack(files, depth + 1))?;
            pack.subpacks.push(Subpack { path, content });
        }
        for path in archives {
            let bytes = pack.files.get(&path).map(Vec::as_slice).unwrap_or_default();
            let content = self.inside(depth, |allowance| {
                let limits =
                    Limits { unpacked: allowance.bytes, entries: allowance.entries, ..allowance.limits };
                // The error names the limit of the whole, not what is left of it.
                let files = archive::unpack(bytes, &limits).map_err(|error| allowance.whole(error))?;
                allowance.pack(files, depth + 1)
            })?;
            pack.subpacks.push(Subpack { path, content });
        }
        pack.subpacks.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(pack)
    }

    fn take(&mut self, files: &Files) -> Result<(), Error> {
        let Limits { unpacked, entries, path, .. } = self.limits;
        self.packs = self.packs.checked_sub(1).ok_or(Error::TooManyPacks { limit: PACKS })?;
        self.entries =
            self.entries.checked_sub(files.len()).ok_or(Error::TooManyEntries { limit: entries })?;
        for (name, content) in files {
            clean(name, path)?;
            self.bytes = self
                .bytes
                .checked_sub(content.len() as u64)
                .ok_or(Error::TooLarge { what: "unpacked pack", limit: unpacked })?;
        }
        Ok(())
    }

    /// What a pack in memory takes, with those inside of it.
    fn hold(&mut self, pack: &Pack, depth: usize) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(Error::TooDeep { limit: DEPTH });
        }
        self.take(&pack.files)?;
        self.count_fields(pack)?;
        let packs = pack.subpacks.iter().filter_map(|subpack| subpack.content.as_ref().ok());
        packs.into_iter().try_for_each(|inside| self.hold(inside, depth + 1))
    }

    fn count_fields(&mut self, pack: &Pack) -> Result<(), Error> {
        let schema = pack.schema.as_ref().map_or(0, super::Schema::nodes);
        let fields = values::nodes(&pack.values) + schema;
        self.fields = self.fields.checked_sub(fields).ok_or(Error::TooManyFields { limit: FIELDS })?;
        Ok(())
    }

    fn whole(&self, error: Error) -> Error {
        match error {
            Error::TooLarge { what, .. } if what != "archive" => {
                Error::TooLarge { what, limit: self.limits.unpacked }
            }
            Error::TooManyEntries { .. } => Error::TooManyEntries { limit: self.limits.entries },
            other => other,
        }
    }

    /// What is wrong with a pack inside concerns only who needs it; a limit concerns the whole.
    fn inside(
        &mut self,
        depth: usize,
        read: impl FnOnce(&mut Self) -> Result<Pack, Error>,
    ) -> Result<Result<Pack, Error>, Error> {
        if depth >= DEPTH {
            return Err(Error::TooDeep { limit: DEPTH });
        }
        match read(self) {
            Err(
                error @ (Error::TooLarge { .. }
                | Error::TooManyEntries { .. }
                | Error::TooManyFields { .. }
                | Error::TooManyPacks { .. }
                | Error::TooDeep { .. }),
            ) => Err(error),
            content => Ok(content),
        }
    }
}

/// Whether a pack and those inside of it stay within the limits of one pack.
pub(super) fn within(pack: &Pack, limits: &Limits) -> Result<(), Error> {
    Allowance::new(limits).hold(pack, 0)
}

/// What stands below `charts/`: directories with their files, archives, and the rest.
fn sort(files: &Files) -> (BTreeMap<String, Files>, Vec<String>, Vec<String>) {
    let (mut directories, mut archives, mut others) =
        (BTreeMap::<String, Files>::new(), Vec::new(), Vec::new());
    for (path, content) in files.range(FOLDER.to_owned()..) {
        let Some(below) = path.strip_prefix(FOLDER) else { break };
        match below.split_once('/') {
            Some((directory, inner)) => {
                let files = directories.entry(format!("{FOLDER}{directory}")).or_default();
                files.insert(inner.to_owned(), content.clone());
            }
            None if ARCHIVES.iter().any(|ending| below.ends_with(ending)) => archives.push(path.clone()),
            None => others.push(path.clone()),
        }
    }
    (directories, archives, others)
}

/// The packs that take part for these values of the pack around them, in the order of their names.
///
/// A dependency finds its pack by alias or name: that of the directory, or that in its `Pack.yaml`. One pack may serve several
/// dependencies. What no dependency finds takes part too, as the published Sherpack has it, under the name of its directory.
/// A pack that is switched off may be broken or missing.
///
/// # Errors
/// A pack that is switched on is missing, broken or of another version, or two are called the same.
pub fn enabled<'p>(pack: &'p Pack, merged: &Value) -> Result<Vec<Instance<'p>>, Error> {
    let mut found: Vec<Instance<'p>> = Vec::new();
    for dependency in wanted(pack, merged) {
        let (_, content) = choose(dependency, pack)?;
        found.push(Instance {
            name: dependency.effective_name(),
            pack: content,
            dependency: Some(dependency),
        });
    }
    for (subpack, name) in undeclared(pack) {
        let content = subpack.content.as_ref().map_err(|error| Error::DependencyInvalid {
            name: subpack.stem().to_owned(),
            message: format!("{}: {error}", subpack.path),
        })?;
        found.push(Instance { name, pack: content, dependency: None });
    }
    found.sort_by_key(|instance| instance.name);
    if let Some(twice) = found.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(Error::DependencyInvalid {
            name: twice[0].name.to_owned(),
            message: "two packs below charts/ are called so: give one an alias".to_owned(),
        });
    }
    Ok(found)
}

/// The dependencies that these values switch on.
pub(super) fn wanted<'p>(pack: &'p Pack, merged: &Value) -> impl Iterator<Item = &'p Dependency> {
    pack.dependencies.iter().filter(|dependency| is_on(dependency, merged))
}

/// The pack below `charts/` that a dependency takes; if none can be used, the first that it means. `None`: it means none.
pub(super) fn vendored<'p>(dependency: &Dependency, pack: &'p Pack) -> Option<&'p Subpack> {
    match choose(dependency, pack) {
        Ok((subpack, _)) => Some(subpack),
        Err(_) => candidates(dependency, &pack.subpacks).first().map(|index| &pack.subpacks[*index]),
    }
}

/// Whether a pack below `charts/` is meant by the dependency, whatever its version.
#[must_use]
pub fn is_vendored(dependency: &Dependency, pack: &Pack) -> bool {
    vendored(dependency, pack).is_some()
}

/// The packs below `charts/` that no dependency means, and what they are called.
pub(super) fn undeclared(pack: &Pack) -> impl Iterator<Item = (&Subpack, &str)> {
    let mut declared = vec![false; pack.subpacks.len()];
    for dependency in &pack.dependencies {
        candidates(dependency, &pack.subpacks).iter().for_each(|index| declared[*index] = true);
    }
    let others = pack.subpacks.iter().zip(declared).filter(|(_, declared)| !declared);
    others.map(|(subpack, _)| match &subpack.content {
        Ok(content) if subpack.is_archive() => (subpack, content.metadata.name.as_str()),
        _ => (subpack, subpack.stem()),
    })
}

/// The values of the pack around that a pack inside gets: its section, and `global` unless the section has its own. `None`: what is
/// there is no object.
pub(super) fn section(around: &Value, name: &str) -> Option<Value> {
    let mut section = match around.get(name) {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(section)) => section.clone(),
        Some(_) => return None,
    };
    if let Some(global) = around.get("global")
        && !section.contains_key("global")
    {
        section.insert("global".to_owned(), global.clone());
    }
    Some(Value::Object(section))
}

/// A file by the path that a render gives it: packs below `charts/` are called there by alias or name, also those in archives.
#[must_use]
pub fn file<'p>(pack: &'p Pack, path: &str) -> Option<&'p [u8]> {
    if let Some(content) = pack.files.get(path) {
        return Some(content);
    }
    let (name, inner) = path.strip_prefix(FOLDER)?.split_once('/')?;
    let dependency = pack.dependencies.iter().find(|dependency| dependency.effective_name() == name);
    let declared = dependency.map(|dependency| candidates(dependency, &pack.subpacks)).unwrap_or_default();
    let declared = declared.into_iter().filter_map(|index| pack.subpacks.get(index));
    let called = |subpack: &&Subpack| subpack.content.as_ref().is_ok_and(|pack| pack.metadata.name == name);
    let packs = declared.chain(pack.subpacks.iter().filter(called));
    packs.filter_map(|subpack| subpack.content.as_ref().ok()).find_map(|pack| file(pack, inner))
}

/// Those that the dependency means: called by the alias, else by the name, else having it in their `Pack.yaml`.
fn candidates(dependency: &Dependency, subpacks: &[Subpack]) -> Vec<usize> {
    let name = dependency.name.as_str();
    let alias = dependency.alias.as_deref();
    let own = |subpack: &Subpack| subpack.content.as_ref().ok().map(|pack| pack.metadata.name.clone());
    // Only its file says what a broken archive is called.
    let broken = |subpack: &Subpack| {
        let rest = subpack.stem().strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        subpack.content.is_err() && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let ranks: [&dyn Fn(&Subpack) -> bool; 3] = [
        &|subpack| !subpack.is_archive() && Some(subpack.stem()) == alias,
        &|subpack| !subpack.is_archive() && subpack.stem() == name,
        &|subpack| {
            own(subpack).is_some_and(|own| own == name || Some(own.as_str()) == alias)
                || subpack.is_archive() && (subpack.stem() == name || Some(subpack.stem()) == alias)
                || broken(subpack)
        },
    ];
    ranks
        .iter()
        .map(|fits| (0..subpacks.len()).filter(|index| fits(&subpacks[*index])).collect::<Vec<_>>())
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

fn choose<'p>(dependency: &Dependency, pack: &'p Pack) -> Result<(&'p Subpack, &'p Pack), Error> {
    let name = || dependency.effective_name().to_owned();
    let candidates = candidates(dependency, &pack.subpacks);
    if candidates.is_empty() {
        let message = format!(
            "no directory or archive below charts/ is `{}` {}, and no Pack.lock says where it is: run `sherpack-operator dependency update`, or switch it off",
            dependency.name, dependency.version
        );
        return Err(Error::DependencyMissing { name: name(), message });
    }
    let mut wrong = Vec::new();
    for subpack in candidates.into_iter().map(|index| &pack.subpacks[index]) {
        match &subpack.content {
            Ok(content) => {
                let version = content.metadata.version.to_string();
                let fits = version::matches(&dependency.version, &version).map_err(|message| {
                    Error::DependencyInvalid { name: name(), message: format!("Pack.yaml: {message}") }
                })?;
                if fits {
                    return Ok((subpack, content));
                }
                wrong
                    .push(format!("{} is version {version}, {} is wanted", subpack.path, dependency.version));
            }
            Err(error) => wrong.push(format!("{}: {error}", subpack.path)),
        }
    }
    let message = wrong.into_iter().take(3).collect::<Vec<_>>().join("; ");
    Err(Error::DependencyInvalid { name: name(), message })
}

/// Whether the values want it. The condition decides: of several the first that is set; else the tags, of which one that is
/// true is enough. A condition of which nothing is set is not met, as published.
fn is_on(dependency: &Dependency, merged: &Value) -> bool {
    if !dependency.enabled {
        return false;
    }
    let condition = dependency.condition.as_deref().unwrap_or_default();
    let paths = || condition.split(',').map(str::trim).filter(|path| !path.is_empty());
    let at = |path: &str| path.split('.').try_fold(merged, |value, key| value.get(key));
    if let Some(value) = paths().find_map(at) {
        return is_true(value);
    }
    let tags: Vec<bool> =
        dependency.tags.iter().filter_map(|tag| merged.get("tags")?.get(tag)).map(is_true).collect();
    if tags.is_empty() { paths().next().is_none() } else { tags.contains(&true) }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !matches!(text.as_str(), "" | "false" | "0"),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

#[cfg(test)]
#[path = "subpacks_tests.rs"]
mod tests;
