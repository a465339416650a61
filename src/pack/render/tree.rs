//! Renders a pack with the packs inside of it.
//!
//! Owns what a pack inside sees of the values around it, the order, and that everything together stays within the limits
//! of one release.

mod definitions;
mod layers;

use std::collections::BTreeMap;
use std::sync::PoisonError;

use serde_json::{Map, Value};

use super::{Error, Input, Rendered, Shipped, engine};
use crate::manifest;
use crate::pack::schema::{Fuel, Refusal};
use crate::pack::subpacks::Instance;
use crate::pack::values::Merged;
use crate::pack::{self, DefinitionWishes, Kind, Pack, subpacks, values, version};
use layers::Layers;

/// Scalars, lists and maps of the values of all packs, and of all documents. What they come from is bounded, but they take
/// far more memory than their text. Below what the manifest may have when it is read again.
const NODES: usize = 140_000;
/// Packs that take part. One pack may take part under several names, and so may those inside of it.
const INSTANCES: usize = 200;
/// Objects of one release. What the operator remembers of each stays in memory as long as the release does.
pub(super) const OBJECTS: usize = 5_000;
/// What holding values to their schemas may cost, in visits of rules and values.
const FUEL: u64 = 10_000_000;

/// Renders a pack and what is inside of it, on the calling thread.
pub(super) fn render(pack: &Pack, input: &Input<'_>) -> Result<Rendered, Error> {
    let is_asked = || input.stop.is_asked();
    let mut tree = Tree {
        input,
        session: engine::Session::new(input),
        fuel: Fuel { left: FUEL, stop: &is_asked },
        objects: Vec::new(),
        origins: Vec::new(),
        notes: None,
        definitions: Vec::new(),
        wishes: BTreeMap::new(),
        layers: Layers::default(),
        value_nodes: 0,
        document_nodes: 0,
        instances: 0,
    };
    let values = tree.pack(pack, input.values, &Place::of(pack));
    let values = values.inspect_err(|_| {
        if let Some(made) = input.secrets.made {
            *made.lock().unwrap_or_else(PoisonError::into_inner) = tree.session.secrets();
        }
    })?;
    let Tree { session, objects, origins, notes, definitions, wishes, layers, .. } = tree;
    let layers = layers.done(origins.iter().chain(definitions.iter().map(|shipped| &shipped.file)));
    Ok(Rendered { objects, origins, notes, values, definitions, wishes, layers, secrets: session.secrets() })
}

/// Where a pack stands.
#[derive(Debug, Default)]
struct Place {
    /// `charts/db/`; empty for the outermost.
    files: String,
    /// `db.`; empty for the outermost.
    values: String,
    /// What it says of its definitions, and the packs around it.
    definitions: DefinitionWishes,
}

impl Place {
    fn is_outermost(&self) -> bool {
        self.files.is_empty()
    }

    fn of(pack: &Pack) -> Self {
        Self { definitions: pack.definitions.clone(), ..Self::default() }
    }

    fn inside(&self, instance: &Instance<'_>) -> Self {
        let name = instance.name;
        Self {
            files: format!("{}charts/{name}/", self.files),
            values: format!("{}{name}.", self.values),
            definitions: self
                .definitions
                .inside(&instance.pack.definitions, instance.dependency.map(|dependency| &dependency.crds)),
        }
    }

    /// An error of a pack inside names its files by their path from the outermost.
    fn name(&self, mut error: Error) -> Error {
        if let Error::Template { file, .. } | Error::Limit { file, .. } | Error::Lookup { file, .. } =
            &mut error
        {
            file.insert_str(0, &self.files);
        }
        error
    }
}

struct Tree<'i, 's> {
    input: &'i Input<'i>,
    session: engine::Session,
    fuel: Fuel<'s>,
    objects: Vec<Value>,
    origins: Vec<String>,
    notes: Option<String>,
    definitions: Vec<Shipped>,
    wishes: BTreeMap<String, DefinitionWishes>,
    layers: Layers,
    value_nodes: usize,
    document_nodes: usize,
    instances: usize,
}

impl Tree<'_, '_> {
    /// Renders what is inside, then the pack itself. Gives its values with the sections of what is inside.
    fn pack(&mut self, pack: &Pack, over: &Value, place: &Place) -> Result<Value, Error> {
        self.instances += 1;
        if self.instances > INSTANCES {
            let message = format!("more than {INSTANCES} packs take part");
            return Err(Error::Limit { file: format!("{}Pack.yaml", place.files), line: 0, message });
        }
        fits_cluster(pack, self.input, place)?;
        let mut merged = Merged::of(&pack.values, over).to_value();
        self.value_nodes += values::nodes(&merged);
        if self.value_nodes > NODES {
            let message = format!("they have more than {NODES} fields and items");
            return Err(Error::Limit { file: "values".to_owned(), line: 0, message });
        }
        self.hold(pack, &merged, place)?;
        let mut sections = Map::new();
        let (mut after, mut beside) = (Vec::new(), Vec::new());
        let instances = subpacks::enabled(pack, &merged).map_err(|error| nested(error, place))?;
        if !instances.is_empty() {
            // A null is still to remove a default of a pack inside.
            let around = values::overlay(pack.values.clone(), over.clone());
            for instance in instances.into_iter().filter(|instance| instance.pack.kind != Kind::Library) {
                let section = section(&around, instance.name, place)?;
                let inside = place.inside(&instance);
                let mut seen = self.pack(instance.pack, &section, &inside)?;
                let waits = instance.dependency.is_none_or(|dependency| dependency.wait);
                if waits { &mut after } else { &mut beside }.push(inside.files);
                if let Some(seen) = seen.as_object_mut()
                    && seen.get("global") == merged.get("global")
                {
                    seen.remove("global");
                }
                sections.insert(instance.name.to_owned(), seen);
            }
        }
        self.layers.add(&place.files, &after, &beside);
        self.wishes.insert(place.files.clone(), place.definitions.clone());
        for shipped in definitions::of(pack, &place.files)? {
            self.count_nodes(std::slice::from_ref(&shipped.body), &shipped.file)?;
            let file = shipped.file.clone();
            self.definitions.push(shipped);
            self.count_objects(&file)?;
        }
        self.documents(pack, &merged, place)?;
        if let Some(shown) = merged.as_object_mut() {
            shown.extend(sections);
        }
        Ok(merged)
    }

    /// Holds the values to the schema.
    fn hold(&mut self, pack: &Pack, merged: &Value, place: &Place) -> Result<(), Error> {
        let Some(schema) = &pack.schema else { return Ok(()) };
        let file = format!("{}{}", place.files, schema.file());
        match schema.check(merged, &mut self.fuel) {
            Ok(()) => Ok(()),
            Err(Refusal::Limit(message)) => Err(Error::Limit { file, line: 0, message }),
            Err(Refusal::Violations(found, more)) => {
                let mut texts: Vec<String> = found
                    .iter()
                    .map(|violation| {
                        let path = format!("{}{}", place.values, violation.path);
                        match path.trim_end_matches('.') {
                            "" => format!("the values: {}", violation.wants),
                            path => format!("`{path}` {}", violation.wants),
                        }
                    })
                    .collect();
                texts.extend((more > 0).then(|| format!("and {more} more")));
                Err(pack::Error::Violations { file, message: texts.join("; ") }.into())
            }
        }
    }

    fn documents(&mut self, pack: &Pack, merged: &Value, place: &Place) -> Result<(), Error> {
        let texts =
            self.session.texts(pack, self.input, &Merged::One(merged)).map_err(|error| place.name(error))?;
        for text in texts {
            let file = format!("{}{}", place.files, text.file);
            if engine::is_notes(&text.file) {
                if place.is_outermost() {
                    self.notes.get_or_insert_default().push_str(&text.text);
                }
                continue;
            }
            let documents = manifest::yaml::parse_documents(&text.text, &file)?;
            self.count_nodes(&documents, &file)?;
            self.origins.extend(documents.iter().map(|_| file.clone()));
            self.objects.extend(documents);
            self.count_objects(&file)?;
        }
        Ok(())
    }
}

impl Tree<'_, '_> {
    fn count_objects(&self, file: &str) -> Result<(), Error> {
        if self.objects.len() + self.definitions.len() > OBJECTS {
            let message = format!(
                "all templates together make more than {OBJECTS} objects; install them as several releases"
            );
            return Err(Error::Limit { file: file.to_owned(), line: 0, message });
        }
        Ok(())
    }

    fn count_nodes(&mut self, documents: &[Value], file: &str) -> Result<(), Error> {
        self.document_nodes += documents.iter().map(values::nodes).sum::<usize>();
        if self.document_nodes > NODES {
            let message = format!("all documents together have more than {NODES} fields and items");
            return Err(Error::Limit { file: file.to_owned(), line: 0, message });
        }
        Ok(())
    }
}

fn fits_cluster(pack: &Pack, input: &Input<'_>, place: &Place) -> Result<(), Error> {
    let Some(range) = &pack.metadata.kube_version else { return Ok(()) };
    let found = &input.capabilities.kube_version;
    if version::matches(range, found).map_err(|message| Error::KubeVersionRange {
        message: if place.is_outermost() { message } else { format!("{}: {message}", place.files) },
    })? {
        return Ok(());
    }
    Err(Error::KubeVersion { pack: pack.metadata.name.clone(), range: range.clone(), found: found.clone() })
}

/// The values of the pack around that a pack inside gets.
fn section(around: &Value, name: &str, place: &Place) -> Result<Value, Error> {
    subpacks::section(around, name).ok_or_else(|| {
        let message = format!(
            "`{}{name}` is not an object: it holds the values of the pack {}charts/{name}",
            place.values, place.files
        );
        pack::Error::Values { file: "values".to_owned(), message }.into()
    })
}

fn nested(error: pack::Error, place: &Place) -> Error {
    let at = |name: String| if place.is_outermost() { name } else { format!("{}charts/{name}", place.files) };
    match error {
        pack::Error::DependencyMissing { name, message } => {
            pack::Error::DependencyMissing { name: at(name), message }
        }
        pack::Error::DependencyInvalid { name, message } => {
            pack::Error::DependencyInvalid { name: at(name), message }
        }
        other => other,
    }
    .into()
}
