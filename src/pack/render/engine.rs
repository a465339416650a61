//! Sets the template engine up, runs it over the files of a pack, and words its errors.

pub(super) mod compiled;
pub(super) mod files;
mod formatter;

use std::io::Write;
use std::sync::{Arc, Mutex};

use minijinja::Environment;
use serde_json::json;

use self::compiled::Compiled;
use self::files::FilesOf;
use super::budget::{Budget, FILE, TOTAL};
use super::error::explain::{Sources, TEMPLATES, explain, message};
use super::generate::Generators;
use super::lookup::Lookups;
use super::scope::Scope;
use super::{Error, Input, Secrets, convert};
use crate::pack::Pack;
use crate::pack::values::Merged;

/// One rendered template.
pub(super) struct Text {
    /// Path in the pack.
    pub(super) file: String,
    pub(super) text: String,
}

/// What all packs of one render share: the purse, what was generated, and what was looked up.
pub(super) struct Session {
    budget: Budget,
    generators: Arc<Generators>,
    lookups: Arc<Lookups>,
}

/// Whether this template holds the notes: its name up to the first dot is `notes`, in any case.
pub(super) fn is_notes(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    stem.eq_ignore_ascii_case("notes") && name.len() > stem.len()
}

impl Session {
    pub(super) fn new(input: &Input<'_>) -> Self {
        Self {
            budget: Budget::new(input.stop),
            generators: Arc::new(Generators::new(input.now, input.seed, input.secrets)),
            lookups: Arc::new(Lookups::new(input.lookup)),
        }
    }

    /// The purse for one pack.
    pub(super) fn budget(&self, strict: bool) -> Arc<Budget> {
        Arc::new(self.budget.of_pack(strict))
    }

    /// What `generate_secret` gave and gave before.
    pub(super) fn secrets(&self) -> Secrets {
        self.generators.secrets()
    }

    /// Renders every template of the pack, in path order.
    pub(super) fn texts(
        &self,
        pack: &Pack,
        input: &Input<'_>,
        values: &Merged<'_>,
    ) -> Result<Vec<Text>, Error> {
        let budget = self.budget(pack.strict);
        let compiled = pack.compiled.get_or(|| Compiled::of(pack, input.stop))?;
        if budget.source(compiled.size).is_none() {
            return Err(compiled::too_large("templates"));
        }
        budget.bytes(compiled.cost).map_err(|error| Error::Limit {
            file: "templates".to_owned(),
            line: 0,
            message: message(&error),
        })?;
        let mut engine = self.equipped(compiled.engine(), &budget);
        // Globals, so that imported macros see them too.
        for (name, value) in root(pack, input, values) {
            engine.add_global(name, value);
        }
        engine.add_global("files", FilesOf::of(pack, &budget));
        let sources = compiled.sources(pack);
        let base = format!("{}/templates", pack.metadata.name);
        let base_path = minijinja::Value::from(base.as_str());
        let mut texts = Vec::with_capacity(compiled.outputs.len());
        for name in &compiled.outputs {
            let place = [("basePath", base_path.clone()), ("name", [&*base, "/", &**name].concat().into())];
            engine.add_global("template", convert::from_fields(place));
            let text = self.text(&mut engine, name, &budget, &sources)?;
            texts.push(Text { file: format!("{TEMPLATES}{name}"), text });
        }
        Ok(texts)
    }

    fn text(
        &self,
        engine: &mut Environment<'static>,
        name: &str,
        budget: &Budget,
        sources: &Sources<'_>,
    ) -> Result<String, Error> {
        engine.set_fuel(Some(budget.fuel()));
        let mut out = Capped { text: Vec::new(), left: budget.output(), exceeded: false };
        let result = engine
            .get_template(name)
            .and_then(|template| template.render_captured_to(minijinja::context! {}, &mut out))
            .map(|captured| captured.state().fuel_levels().map_or(0, |(_, remaining)| remaining));
        match result {
            Ok(remaining) => budget.set_fuel(remaining),
            Err(_) if out.exceeded => {
                let message = format!(
                    "the output is larger than {} MiB for one template or {} MiB for all",
                    FILE >> 20,
                    TOTAL >> 20
                );
                return Err(Error::Limit { file: format!("{TEMPLATES}{name}"), line: 0, message });
            }
            Err(error) => return Err(self.refused(explain(&error, name, sources, self.budget.exceeded()))),
        }
        budget.pay_output(out.text.len() as u64);
        // The engine writes whole strings only.
        Ok(String::from_utf8(out.text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Puts what belongs to this render of one pack into an engine.
    pub(super) fn equipped(
        &self,
        mut engine: Environment<'static>,
        budget: &Arc<Budget>,
    ) -> Environment<'static> {
        let scope = Scope {
            budget: Arc::clone(budget),
            generators: Arc::clone(&self.generators),
            lookups: Arc::clone(&self.lookups),
            patterns: Mutex::default(),
        };
        scope.enter(&mut engine);
        engine
    }

    /// An error of the templates is that of a lookup when one was refused.
    fn refused(&self, error: Error) -> Error {
        match (error, self.lookups.refused()) {
            (Error::Template { file, line, .. }, Some(refusal)) => {
                let (class, reason) = (refusal.class, refusal.reason);
                Error::Lookup { file, line, message: refusal.message, class, reason }
            }
            (error, _) => error,
        }
    }
}

fn root(pack: &Pack, input: &Input<'_>, values: &Merged<'_>) -> [(&'static str, minijinja::Value); 4] {
    let Input { release_name, namespace, revision, is_upgrade, capabilities, .. } = input;
    let kube = capabilities.kube_version.trim_start_matches('v');
    let mut parts = kube.split(['.', '-', '+']);
    let release = json!({
        "name": release_name,
        "namespace": namespace,
        "revision": revision,
        "isInstall": !is_upgrade,
        "isUpgrade": is_upgrade,
        "service": "Sherpack",
    });
    let metadata = json!({
        "name": pack.metadata.name,
        "version": pack.metadata.version.to_string(),
        "appVersion": pack.metadata.app_version,
    });
    let capabilities = json!({
        "kubeVersion": {
            "version": format!("v{kube}"),
            "major": parts.next().unwrap_or_default(),
            "minor": parts.next().unwrap_or_default(),
        },
        "apiVersions": capabilities.api_versions,
    });
    [
        ("values", convert::from_merged(values)),
        ("release", convert::from_json(&release)),
        ("pack", convert::from_json(&metadata)),
        ("capabilities", convert::from_json(&capabilities)),
    ]
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
