//! The templates of one pack, compiled: once for a pack, however many releases and revisions use it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use minijinja::{AutoEscape, Environment, UndefinedBehavior};

use super::formatter;
use crate::pack::Pack;
use crate::pack::render::budget::{Budget, FUEL, SOURCES, Stop};
use crate::pack::render::error::explain::{Sources, TEMPLATES, explain, text};
use crate::pack::render::{Error, filters, functions, guard};

const ENDINGS: [&str; 6] = [".yaml", ".yml", ".j2", ".jinja2", ".txt", ".json"];
/// Frames of macros, includes (ten each) and loops inside each other.
const RECURSION: usize = 200;

/// Templates with the filters and functions that they call, but without anything of one render.
pub(in crate::pack::render) struct Compiled {
    engine: Environment<'static>,
    places: BTreeMap<String, guard::Places>,
    /// Names of the templates that are rendered, in path order.
    pub(in crate::pack::render) outputs: Vec<String>,
    /// Bytes that compiling took. Every render pays them: what a limit lets through must not depend on who came first.
    pub(in crate::pack::render) cost: u64,
    /// Bytes of source.
    pub(in crate::pack::render) size: u64,
}

/// Whether this file is rendered, and not only there for others.
fn is_output(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn is_helper(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|name| name.starts_with('_'))
}

/// The files that are named as helpers, and are to be rendered all the same, as `_crd.yaml` is: they define a kind of their own, and no
/// other template asks for them.
fn defining(pack: &Pack) -> BTreeSet<&str> {
    let sources = || {
        pack.files.iter().filter_map(|(path, content)| Some((path.strip_prefix(TEMPLATES)?, text(content)?)))
    };
    let mut found: BTreeSet<&str> = sources()
        .filter(|(name, source)| is_helper(name) && defines(name, source))
        .map(|(name, _)| name)
        .collect();
    if found.is_empty() {
        return found;
    }
    for (name, source) in sources() {
        // Whatever stands behind a quote: a name is always a whole text.
        for asked in source.split(['"', '\'']).skip(1).filter(|asked| *asked != name) {
            found.remove(asked);
        }
    }
    found
}

fn defines(name: &str, source: &str) -> bool {
    let kind = |line: &str| {
        let value = line.strip_prefix("kind:").map(|value| value.split(" #").next().unwrap_or(value));
        value.is_some_and(|value| value.trim().trim_matches(['"', '\'']) == "CustomResourceDefinition")
    };
    [".yaml", ".yml", ".yaml.j2", ".yml.j2"].iter().any(|ending| name.ends_with(ending))
        && source.lines().any(kind)
}

impl Compiled {
    /// Compiles every template of a pack, but not of those inside of it.
    pub(in crate::pack::render) fn of(pack: &Pack, stop: &Stop) -> Result<Self, Error> {
        let budget = Budget::new(stop);
        let mut made =
            Self { engine: settings(), places: BTreeMap::new(), outputs: Vec::new(), cost: 0, size: 0 };
        let defining = defining(pack);
        for (path, content) in pack.files.iter() {
            let Some(name) = path.strip_prefix(TEMPLATES) else { continue };
            let helper = is_helper(name);
            if !helper && !is_output(name) {
                continue;
            }
            let wrong = |line: usize, message: &str| Error::Template {
                file: path.clone(),
                line,
                message: message.to_owned(),
                excerpt: None,
            };
            let source = text(content).ok_or_else(|| wrong(0, "it is not UTF-8 text"))?;
            let guarded = guard::instrument(name, source, false, &budget);
            let guarded = guarded.map_err(|refused| match refused {
                guard::Refused::Engine(error) => {
                    explain(&error, name, &made.sources(pack), budget.exceeded())
                }
                guard::Refused::Here { line, why } => wrong(line, why),
            })?;
            made.size += content.len() as u64;
            if made.size > SOURCES {
                return Err(too_large(path));
            }
            made.places.insert(name.to_owned(), guarded.places);
            let added = made.engine.add_template_owned(name.to_owned(), guarded.source);
            added.map_err(|error| explain(&error, name, &made.sources(pack), budget.exceeded()))?;
            if !helper || defining.contains(name) {
                made.outputs.push(name.to_owned());
            }
        }
        made.cost = budget.spent();
        Ok(made)
    }

    /// An engine with the templates, to which the scope and the variables of a render are to be added.
    pub(in crate::pack::render) fn engine(&self) -> Environment<'static> {
        // Templates, filters and functions are shared, not copied.
        self.engine.clone()
    }

    pub(in crate::pack::render) fn sources<'p>(&'p self, pack: &'p Pack) -> Sources<'p> {
        Sources { pack, places: &self.places }
    }
}

/// The templates up to this file are too much.
pub(in crate::pack::render) fn too_large(file: &str) -> Error {
    let message = format!("the templates together are larger than {} MiB", SOURCES >> 20);
    Error::Limit { file: file.to_owned(), line: 0, message }
}

/// An engine without any template.
pub(in crate::pack::render) fn settings() -> Environment<'static> {
    static SETTINGS: LazyLock<Environment<'static>> = LazyLock::new(make_settings);
    SETTINGS.clone()
}

fn make_settings() -> Environment<'static> {
    let mut engine = Environment::new();
    // Undefined values remember the expression that gave them. What else the engine collects for errors (source,
    // variables) is never printed: it may hold secrets.
    engine.set_debug(true);
    engine.set_auto_escape_callback(|name| {
        let name = name.strip_suffix(".j2").or_else(|| name.strip_suffix(".jinja2")).unwrap_or(name);
        let markup = [".html", ".htm", ".xml"].iter().any(|ending| name.ends_with(ending));
        if markup { AutoEscape::Html } else { AutoEscape::None }
    });
    engine.set_recursion_limit(RECURSION);
    engine.set_fuel(Some(FUEL));
    // A field of what is missing is missing too. Whether a missing value may be used is for the budget of the pack.
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    formatter::register(&mut engine);
    filters::register(&mut engine);
    functions::register(&mut engine);
    guard::register(&mut engine);
    engine
}
