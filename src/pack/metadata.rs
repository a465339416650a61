//! `Pack.yaml`: what a pack says about itself.

mod keys;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(test)]
pub(crate) use self::keys::SECTIONS;
use self::keys::{
    CRDS_KEYS, CRDS_UNINSTALL_KEYS, CRDS_UPGRADE_KEYS, DEPENDENCY_CRDS_KEYS, DEPENDENCY_KEYS, ENGINE_KEYS,
    MAINTAINER_KEYS, METADATA_KEYS, ROOT_KEYS, Warnings,
};
use super::definitions::{self, DefinitionWishes, DependencyDefinitions};
use super::{Error, Files, shown, values};

/// What a pack is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Can be installed.
    #[default]
    Application,
    /// Only gives templates to others.
    Library,
}

/// `metadata` of `Pack.yaml`, the published fields. Serialises to the shape in a stored release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name of the pack.
    pub name: String,
    /// Version of the pack: strict semantic versioning.
    pub version: semver::Version,
    /// One line about it.
    #[serde(default)]
    pub description: Option<String>,
    /// Version of what it runs, any text.
    #[serde(default)]
    pub app_version: Option<String>,
    /// Range of Kubernetes versions, such as `>=1.28.0`.
    #[serde(default)]
    pub kube_version: Option<String>,
    /// Home page.
    #[serde(default)]
    pub home: Option<String>,
    /// Picture.
    #[serde(default)]
    pub icon: Option<String>,
    /// Where its sources are.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Words to find it by.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Who looks after it.
    #[serde(default)]
    pub maintainers: Vec<Maintainer>,
    /// Anything else.
    #[serde(default)]
    pub annotations: std::collections::BTreeMap<String, String>,
}

/// One maintainer of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintainer {
    /// Name.
    pub name: String,
    /// E-mail address.
    #[serde(default)]
    pub email: Option<String>,
    /// Home page.
    #[serde(default)]
    pub url: Option<String>,
}

/// One entry of `dependencies`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Dependency {
    /// Name of the other pack.
    pub name: String,
    /// Range of its versions.
    pub version: String,
    /// Where it comes from: `https://…`, `http://…` or `oci://…`. Unset: it is below `charts/`.
    #[serde(default)]
    pub repository: Option<String>,
    /// Switched off when false. Default true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Dotted path in the values that switches it.
    #[serde(default)]
    pub condition: Option<String>,
    /// When it is fetched. What is vendored below `charts/` needs no fetching, so this changes no render.
    #[serde(default)]
    pub resolve: Resolve,
    /// Groups that can be switched together.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Another name inside this pack.
    #[serde(default)]
    pub alias: Option<String>,
    /// What happens to its definitions of resources.
    #[serde(default)]
    pub crds: DependencyDefinitions,
    /// The pack around it begins when this one is healthy. False: it goes beside. Default true.
    #[serde(default = "yes")]
    pub wait: bool,
}

/// When a dependency is fetched by the command that vendors it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolve {
    /// Whatever its condition says.
    Always,
    /// When its condition holds.
    #[default]
    WhenEnabled,
    /// It has to be there already.
    Never,
}

impl Dependency {
    /// What it is called inside this pack: the section of the values, and the folder in messages.
    #[must_use]
    pub fn effective_name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

fn yes() -> bool {
    true
}

pub(super) struct Definition {
    pub(super) kind: Kind,
    pub(super) metadata: Metadata,
    pub(super) strict: bool,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) definitions: DefinitionWishes,
    pub(super) warnings: Vec<String>,
}

/// Reads `Pack.yaml` of these files.
pub(super) fn read(files: &Files) -> Result<Definition, Error> {
    let root = root(files)?;
    let mut warnings = Warnings::default();
    warnings.unknown(&root, "", ROOT_KEYS);
    match root.get("apiVersion").and_then(Value::as_str) {
        Some("sherpack/v1") => {}
        Some(other) => {
            return Err(wrong(format!("`apiVersion` is `{}`, not `sherpack/v1`", shown(other, 80))));
        }
        None => return Err(wrong("`apiVersion: sherpack/v1` is missing".to_owned())),
    }
    Ok(Definition {
        kind: kind(&root)?,
        metadata: metadata(&root, &mut warnings)?,
        dependencies: dependencies(&root, &mut warnings)?,
        strict: strict(&root, &mut warnings)?,
        definitions: wishes(&root, &mut warnings)?,
        warnings: warnings.done(),
    })
}

fn wrong(message: String) -> Error {
    Error::Definition { message }
}

fn root(files: &Files) -> Result<Map<String, Value>, Error> {
    let missing = || if files.contains_key("Chart.yaml") { Error::HelmChart } else { Error::NoPackYaml };
    let text = files.get("Pack.yaml").ok_or_else(missing)?;
    match values::parse(text, "Pack.yaml") {
        Ok(Value::Object(root)) => Ok(root),
        Ok(_) => Err(wrong("it is not an object".to_owned())),
        // Says file and line itself.
        Err(
            error @ (Error::Values { .. } | Error::ValuesNotAnObject { .. } | Error::ValuesTooLarge { .. }),
        ) => Err(Error::Syntax { message: error.to_string() }),
        Err(other) => Err(other),
    }
}

fn kind(root: &Map<String, Value>) -> Result<Kind, Error> {
    match root.get("kind") {
        None | Some(Value::Null) => Ok(Kind::Application),
        Some(Value::String(kind)) if kind == "application" => Ok(Kind::Application),
        Some(Value::String(kind)) if kind == "library" => Ok(Kind::Library),
        Some(other) => {
            let kind = shown(&other.to_string(), 80);
            Err(wrong(format!("`kind` is {kind}, not `application` or `library`")))
        }
    }
}

fn metadata(root: &Map<String, Value>, warnings: &mut Warnings) -> Result<Metadata, Error> {
    let Some(metadata) = root.get("metadata") else {
        return Err(wrong("`metadata` with `name` and `version` is missing".to_owned()));
    };
    if let Some(map) = metadata.as_object() {
        warnings.unknown(map, "metadata.", METADATA_KEYS);
        let maintainers = map.get("maintainers").and_then(Value::as_array);
        for (index, item) in maintainers.into_iter().flatten().enumerate() {
            if let Some(map) = item.as_object() {
                warnings.unknown(map, &format!("metadata.maintainers[{index}]."), MAINTAINER_KEYS);
            }
        }
    }
    let metadata =
        read_metadata(metadata.clone()).map_err(|message| wrong(format!("`metadata`: {message}")))?;
    check_name(&metadata.name).map_err(wrong)?;
    Ok(metadata)
}

fn dependencies(root: &Map<String, Value>, warnings: &mut Warnings) -> Result<Vec<Dependency>, Error> {
    let list = match root.get("dependencies") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(list) => list,
    };
    for (index, item) in list.as_array().into_iter().flatten().enumerate() {
        if let Some(map) = item.as_object() {
            warnings.unknown(map, &format!("dependencies[{index}]."), DEPENDENCY_KEYS);
            if let Some(crds) = map.get("crds").and_then(Value::as_object) {
                warnings.unknown(crds, &format!("dependencies[{index}].crds."), DEPENDENCY_CRDS_KEYS);
            }
        }
    }
    let dependencies: Vec<Dependency> =
        serde_json::from_value(list.clone()).map_err(|error| wrong(format!("`dependencies`: {error}")))?;
    for (index, dependency) in dependencies.iter().enumerate() {
        let name = dependency.effective_name();
        check_name(name).map_err(|_| {
            let name = shown(name, 80);
            wrong(format!("`dependencies[{index}]` is called `{name}`, which is no name of a pack"))
        })?;
        if name == "global" {
            let message = format!("`dependencies[{index}]` is called `global`, which all packs share");
            return Err(wrong(message));
        }
    }
    Ok(dependencies)
}

/// Whether what is missing in the values is an error.
fn strict(root: &Map<String, Value>, warnings: &mut Warnings) -> Result<bool, Error> {
    match root.get("engine") {
        None | Some(Value::Null) => Ok(true),
        Some(Value::Object(engine)) => {
            warnings.unknown(engine, "engine.", ENGINE_KEYS);
            match engine.get("strict") {
                None | Some(Value::Null) => Ok(true),
                Some(Value::Bool(strict)) => Ok(*strict),
                Some(_) => Err(wrong("`engine.strict` is not true or false".to_owned())),
            }
        }
        Some(_) => Err(wrong("`engine` is not an object".to_owned())),
    }
}

fn wishes(root: &Map<String, Value>, warnings: &mut Warnings) -> Result<DefinitionWishes, Error> {
    if let Some(crds) = root.get("crds").and_then(Value::as_object) {
        warnings.unknown(crds, "crds.", CRDS_KEYS);
        for (key, known) in [("upgrade", CRDS_UPGRADE_KEYS), ("uninstall", CRDS_UNINSTALL_KEYS)] {
            if let Some(inner) = crds.get(key).and_then(Value::as_object) {
                warnings.unknown(inner, &format!("crds.{key}."), known);
            }
        }
    }
    definitions::read(root.get("crds"))
}

/// `appVersion: 1.10` is a number in YAML, and most people forget the quotes.
fn read_metadata(mut metadata: Value) -> Result<Metadata, String> {
    for key in ["appVersion", "kubeVersion"] {
        if let Some(number @ Value::Number(_)) = metadata.get_mut(key) {
            *number = Value::String(number.to_string());
        }
    }
    for key in ["sources", "keywords", "maintainers", "annotations"] {
        if metadata.get(key).is_some_and(Value::is_null) {
            metadata.as_object_mut().map(|map| map.remove(key));
        }
    }
    serde_json::from_value(metadata).map_err(|error| error.to_string())
}

/// The name ends up in labels and in archive names.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if name.len() <= 63 && name.chars().all(plain) && edge(name.chars().next()) && edge(name.chars().last()) {
        return Ok(());
    }
    Err(format!(
        "`metadata.name` is `{}`: at most 63 letters, digits, `-`, `_` or `.`, a letter or digit at both ends",
        shown(name, 80)
    ))
}

#[cfg(test)]
mod tests {
    use super::keys::WARNINGS;
    use super::*;
    use crate::pack::tests::{MINIMAL, files};

    fn definition(text: &str) -> Result<Definition, Error> {
        read(&files(&[("Pack.yaml", text)]))
    }

    #[test]
    fn the_defaults_are_a_strict_application() {
        let pack = definition("apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.2.3}\n").unwrap();
        assert_eq!((pack.kind, pack.strict), (Kind::Application, true));
        assert_eq!(pack.metadata.version, semver::Version::new(1, 2, 3));
        assert!(
            pack.warnings.is_empty()
                && pack.definitions == DefinitionWishes::default()
                && pack.dependencies.is_empty()
        );
    }

    #[test]
    fn everything_published_is_read() {
        let text = format!(
            "{}{}",
            "apiVersion: sherpack/v1\nkind: library\nengine: {strict: false}\ncrds: {install: false}\n",
            "metadata:\n  name: web\n  version: 1.0.0-rc.1\n  appVersion: 1.5\n  kubeVersion: '>=1.28.0'\n  \
             maintainers: [{name: a, email: a@b.c}]\n  annotations: {a: b}\n\
             dependencies: [{name: redis, version: ^7, repository: 'https://x', condition: redis.enabled}]\n"
        );
        let pack = definition(&text).unwrap();
        assert_eq!((pack.kind, pack.strict), (Kind::Library, false));
        assert_eq!(pack.metadata.app_version.as_deref(), Some("1.5"));
        assert!(pack.dependencies[0].enabled);
        assert_eq!(pack.definitions.install, Some(false));
        assert_eq!(pack.warnings, Vec::<String>::new());
    }

    #[test]
    fn unknown_keys_are_warnings_that_name_the_path() {
        let text =
            format!("{MINIMAL}replicas: 3\nengine: {{strct: true}}\ncrds: {{upgrade: {{force: true}}}}\n");
        assert_eq!(
            definition(&text).unwrap().warnings,
            [
                "Pack.yaml: unknown key `replicas` is ignored",
                "Pack.yaml: unknown key `engine.strct` is ignored",
                "Pack.yaml: unknown key `crds.upgrade.force` is ignored"
            ]
        );
    }

    #[test]
    fn what_would_be_a_flood_of_warnings_is_counted() {
        let keys: String = (0..40).map(|index| format!("u{index}: 1\n")).collect();
        let warnings = definition(&format!("{MINIMAL}{keys}engine: {{a: 1, b: 2}}\n")).unwrap().warnings;
        assert_eq!(warnings.len(), WARNINGS + 1);
        assert_eq!(warnings[WARNINGS], "Pack.yaml: and 22 more unknown keys");
    }

    #[test]
    fn a_wrong_definition_names_the_field() {
        for (text, part) in [
            ("", "apiVersion"),
            ("- a", "not an object"),
            ("a: [", "Pack.yaml:1"),
            ("apiVersion: v2\nmetadata: {name: a, version: 1.0.0}", "`apiVersion` is `v2`"),
            ("apiVersion: sherpack/v1", "`metadata`"),
            ("apiVersion: sherpack/v1\nkind: chart\nmetadata: {name: a, version: 1.0.0}", "`kind`"),
            ("apiVersion: sherpack/v1\nmetadata: {version: 1.0.0}", "name"),
            ("apiVersion: sherpack/v1\nmetadata: {name: a, version: '1.0'}", "`metadata`"),
            ("apiVersion: sherpack/v1\nmetadata: {name: 'a/b', version: 1.0.0}", "`metadata.name`"),
            (
                "apiVersion: sherpack/v1\nengine: {strict: 1}\nmetadata: {name: a, version: 1.0.0}",
                "engine.strict",
            ),
            (
                "apiVersion: sherpack/v1\ndependencies: [{name: a, version: '1', repository: x, alias: a/b}]\nmetadata: {name: a, version: 1.0.0}",
                "`dependencies[0]`",
            ),
            (
                "apiVersion: sherpack/v1\ndependencies: [{name: a, version: '1', repository: x, resolve: often}]\nmetadata: {name: a, version: 1.0.0}",
                "often",
            ),
            (
                "apiVersion: sherpack/v1\ndependencies: [{name: a}]\nmetadata: {name: a, version: 1.0.0}",
                "dependencies",
            ),
        ] {
            let error = definition(text).map(|_| ()).unwrap_err();
            assert_eq!(error.reason(), "PackInvalid", "{text}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
