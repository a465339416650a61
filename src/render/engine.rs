//! Sets the template engine up, runs it over the files of a pack, and words its errors.

use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Value, json};

use super::budget::{Budget, FILE, FUEL, SOURCES, TOTAL};
use super::{Error, Input, convert, filters, functions, guard, text};
use crate::pack::Pack;

const TEMPLATES: &str = "templates/";
const ENDINGS: [&str; 6] = [".yaml", ".yml", ".j2", ".jinja2", ".txt", ".json"];
/// Frames of macros, includes (ten each) and loops inside each other.
const RECURSION: usize = 200;

/// One rendered template.
pub(super) struct Text {
    /// Path in the pack.
    pub(super) file: String,
    pub(super) text: String,
}

/// What all packs of one render share: their purse.
pub(super) struct Session {
    budget: Arc<Budget>,
    fuel: Cell<u64>,
    total: Cell<u64>,
    sources: Cell<u64>,
}

/// Whether this template holds the notes: its name up to the first dot is `notes`, in any case.
pub(super) fn is_notes(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    stem.eq_ignore_ascii_case("notes") && name.len() > stem.len()
}

/// Whether this file is rendered, and not only there for others.
fn is_output(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn is_helper(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|name| name.starts_with('_'))
}

impl Session {
    pub(super) fn new(input: &Input<'_>) -> Self {
        Self {
            budget: Arc::new(Budget::new(input.stop)),
            fuel: Cell::new(FUEL),
            total: Cell::new(0),
            sources: Cell::new(0),
        }
    }

    /// Renders every template of the pack, in path order.
    pub(super) fn texts(&self, pack: &Pack, input: &Input<'_>, values: &Value) -> Result<Vec<Text>, Error> {
        let budget = Arc::clone(&self.budget);
        let mut engine = environment(pack.strict, &budget);
        let root = root(pack, input, values);
        engine.add_global("__root", root.clone());
        let mut outputs = Vec::new();
        for (path, content) in pack.files.iter() {
            let Some(name) = path.strip_prefix(TEMPLATES) else {
                continue;
            };
            let helper = is_helper(name);
            if !helper && !is_output(name) {
                continue;
            }
            let wrong =
                |message: &str| Error::Template { file: path.clone(), line: 0, message: message.to_owned() };
            let source = std::str::from_utf8(content).map_err(|_| wrong("it is not UTF-8 text"))?;
            let source = source.strip_prefix('\u{feff}').unwrap_or(source);
            let guarded =
                guard::instrument(name, source, false, &budget).map_err(|refused| match refused {
                    guard::Refused::Engine(error) => explain(&error, name, &budget),
                    guard::Refused::Here { line, why } => {
                        Error::Template { file: path.clone(), line, message: why.to_owned() }
                    }
                })?;
            self.sources.set(self.sources.get() + content.len() as u64);
            if self.sources.get() > SOURCES {
                let message = format!("the templates together are larger than {} MiB", SOURCES >> 20);
                return Err(Error::Limit { file: path.clone(), line: 0, message });
            }
            engine
                .add_template_owned(name.to_owned(), guarded)
                .map_err(|error| explain(&error, name, &budget))?;
            if !helper {
                outputs.push(name);
            }
        }
        let mut texts = Vec::new();
        for name in outputs {
            engine.set_fuel(Some(self.fuel.get()));
            let base = format!("{}/templates", pack.metadata.name);
            let context = minijinja::context! {
                template => json_value(&json!({"name": format!("{base}/{name}"), "basePath": base})),
                ..root.clone()
            };
            let mut out =
                Capped { text: Vec::new(), left: FILE.min(TOTAL - self.total.get()), exceeded: false };
            let result = engine
                .get_template(name)
                .and_then(|template| template.render_captured_to(context, &mut out))
                .map(|captured| captured.state().fuel_levels().map_or(0, |(_, remaining)| remaining));
            match result {
                Ok(remaining) => self.fuel.set(remaining),
                Err(_) if out.exceeded => {
                    let message = format!(
                        "the output is larger than {} MiB for one template or {} MiB for all",
                        FILE >> 20,
                        TOTAL >> 20
                    );
                    return Err(Error::Limit { file: format!("{TEMPLATES}{name}"), line: 0, message });
                }
                Err(error) => return Err(explain(&error, name, &budget)),
            }
            self.total.set(self.total.get() + out.text.len() as u64);
            // The engine writes whole strings only.
            let text = String::from_utf8_lossy(&out.text).into_owned();
            texts.push(Text { file: format!("{TEMPLATES}{name}"), text });
        }
        Ok(texts)
    }
}

pub(super) fn environment(strict: bool, budget: &Arc<Budget>) -> Environment<'static> {
    // Only what is registered here exists: nothing that the engine adds later comes in unbounded.
    let mut engine = Environment::new();
    engine.remove_global("debug");
    // Undefined values remember the expression that gave them. What else the engine collects for errors (source,
    // variables) is never printed: it may hold secrets.
    engine.set_debug(true);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_recursion_limit(RECURSION);
    engine.set_fuel(Some(FUEL));
    engine.set_undefined_behavior(if strict {
        UndefinedBehavior::SemiStrict
    } else {
        UndefinedBehavior::Chainable
    });
    text::register_formatter(&mut engine, budget);
    filters::register(&mut engine, budget);
    functions::register(&mut engine, budget);
    engine
}

fn json_value(value: &Value) -> minijinja::Value {
    convert::from_json(value)
}

fn root(pack: &Pack, input: &Input<'_>, values: &Value) -> minijinja::Value {
    let Input { release_name, namespace, revision, is_upgrade, values: _, capabilities, stop: _ } = input;
    let kube = capabilities.kube_version.trim_start_matches('v');
    let mut parts = kube.split(['.', '-', '+']);
    let context = json!({
        "values": values,
        "release": {
            "name": release_name,
            "namespace": namespace,
            "revision": revision,
            "isInstall": !is_upgrade,
            "isUpgrade": is_upgrade,
            "service": "Sherpack",
        },
        "pack": {
            "name": pack.metadata.name,
            "version": pack.metadata.version.to_string(),
            "appVersion": pack.metadata.app_version,
        },
        "capabilities": {
            "kubeVersion": {
                "version": format!("v{kube}"),
                "major": parts.next().unwrap_or_default(),
                "minor": parts.next().unwrap_or_default(),
            },
            "apiVersions": capabilities.api_versions,
        },
    });
    json_value(&context)
}

/// Words an error: where it happened first, and what.
fn explain(error: &minijinja::Error, template: &str, budget: &Budget) -> Error {
    // Includes, imports and blocks wrap the error of the inner template: the innermost says most.
    let mut innermost = error;
    let mut place = (template.to_owned(), 0);
    let mut next: Option<&minijinja::Error> = Some(error);
    while let Some(current) = next {
        innermost = current;
        if let (Some(name), Some(line)) = (current.name(), current.line()) {
            place = (name.to_owned(), line);
        }
        next = std::error::Error::source(current).and_then(|source| source.downcast_ref());
    }
    let message = match (innermost.kind(), innermost.detail()) {
        (ErrorKind::OutOfFuel, _) => {
            format!("the templates run more than {FUEL} instructions: an endless loop?")
        }
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    let message: String = guard::hide(&message).chars().take(2000).collect();
    let (file, line) = (format!("{TEMPLATES}{}", place.0), place.1);
    if budget.exceeded() || innermost.kind() == ErrorKind::OutOfFuel || message.contains("recursion limit") {
        Error::Limit { file, line, message }
    } else {
        Error::Template { file, line, message }
    }
}

/// Takes at most `left` bytes.
struct Capped {
    text: Vec<u8>,
    left: u64,
    exceeded: bool,
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.text.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            None => {
                self.exceeded = true;
                Err(std::io::Error::other("output limit"))
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_name_is_notes() {
        for file in ["templates/NOTES.txt", "templates/notes.txt.j2", "templates/Notes.j2"] {
            assert!(is_notes(file), "{file}");
        }
        for file in
            ["templates/release-notes.yaml", "templates/notes-configmap.yaml", "templates/notes/a.yaml"]
        {
            assert!(!is_notes(file), "{file}");
        }
    }
}
