//! Values as releases refer to them: read and parsed once while nothing changes.

use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::Value;

use crate::api::{ReferenceKind, ValuesFrom};
use crate::cluster::{Cluster, Contents, Reference, Unread};
use crate::pack;
use crate::pack::layers::{self, Content, Layer, Misfit};
use crate::reconcile::context::packs::decoded;
use crate::reconcile::context::values::Place;
use crate::reconcile::inputs::Inputs;
use crate::reconcile::{Context, Error};
use crate::release::ReleaseKey;
use crate::source;
use crate::source::values::{Parsed, content, parse};
use crate::watch::Seen;

/// Objects of one release that are read at a time.
const AT_ONCE: usize = 8;
/// A text longer than this takes so long to parse that it does not belong on an async thread.
const LONG: usize = 32 << 10;

impl Inputs<'_> {
    /// Everything that the user says of values, the weakest first. Read anew when `read_anyway`.
    pub(in crate::reconcile) async fn layers(&mut self, read_anyway: bool) -> Result<Vec<Layer>, Error> {
        let read = self.read_layers(read_anyway).await;
        let from_secrets = self.scope.settings.values_from.iter().zip(&read);
        let from_secrets = from_secrets.filter(|(from, _)| from.kind == ReferenceKind::Secret);
        let from_secrets: Vec<&Layer> =
            from_secrets.filter_map(|(_, layer)| layer.as_ref().ok()?.as_ref()).collect();
        self.secrets.read(&from_secrets);
        let mut layers = Vec::with_capacity(read.len() + 1);
        for layer in read {
            layers.extend(layer?);
        }
        if self.scope.settings.values.as_object().is_some_and(|values| !values.is_empty()) {
            layers.push(Layer {
                origin: format!("SherpackRelease/{}#spec.values", self.scope.key),
                field: "spec.values".to_owned(),
                content: Content::Values(Arc::new(self.scope.settings.values.clone())),
            });
        }
        Ok(layers)
    }

    /// One for each entry of `spec.valuesFrom`.
    async fn read_layers(&self, read_anyway: bool) -> Vec<Result<Option<Layer>, Error>> {
        let one = tokio::sync::Mutex::new(());
        let mut reads = Vec::with_capacity(self.scope.settings.values_from.len());
        for (number, from) in self.scope.settings.values_from.iter().enumerate() {
            reads.push(self.layer(number, from, read_anyway, &one));
        }
        stream::iter(reads).buffered(AT_ONCE).collect().await
    }

    async fn layer(
        &self,
        number: usize,
        from: &ValuesFrom,
        read_anyway: bool,
        one: &tokio::sync::Mutex<()>,
    ) -> Result<Option<Layer>, Error> {
        let field = format!("spec.valuesFrom[{number}]");
        let reference = Reference::new(from.kind, &self.scope.key.namespace, &from.name);
        let read = match self
            .scope
            .ctx
            .values_in(self.scope.cluster, &reference, from, &field, read_anyway)
            .await?
        {
            Read::Long(unparsed) => {
                // The pass has one turn: what is parsed in it is parsed one after the other.
                let _one = one.lock().await;
                Some(self.scope.ctx.parse_long(self.scope.key, unparsed).await?)
            }
            Read::Parsed(parsed) => parsed,
        };
        let Some(parsed) = read else { return Ok(None) };
        let content = content(&reference, parsed, from, &field)?;
        let Reference { kind, namespace, name } = &reference;
        let origin = format!("{}/{namespace}/{name}#{}", kind.as_str(), from.key);
        Ok(content.map(|content| Layer { origin, field, content }))
    }
}

/// The values of the user, all layers on each other.
pub(in crate::reconcile) fn user_values(layers: &[Layer]) -> Result<Value, source::Error> {
    layers::lay(layers).map_err(|(number, misfit)| {
        let (file, field) =
            layers.get(number).map(|layer| (layer.origin.clone(), layer.field.clone())).unwrap_or_default();
        let error = match misfit {
            Misfit::Path(message) => pack::Error::ValuesPath { file, message },
            Misfit::TooLarge(nodes) => {
                let message = format!("with it the values have more than {nodes} fields and items");
                pack::Error::Values { file, message }
            }
        };
        source::Error::Values { field, error }
    })
}

/// What was found of an entry of `spec.valuesFrom`.
enum Read {
    /// `None` when it is optional and not there.
    Parsed(Option<Parsed>),
    Long(Box<Unparsed>),
}

/// A text whose parsing takes a turn.
struct Unparsed {
    place: Place,
    contents: Contents,
    from: ValuesFrom,
    field: String,
}

impl Context {
    /// What an object holds under the key.
    async fn values_in(
        &self,
        reader: &Cluster,
        reference: &Reference,
        from: &ValuesFrom,
        field: &str,
        read_anyway: bool,
    ) -> Result<Read, Error> {
        let text = from.target_path.is_some();
        let account = reader.account().cloned();
        // That there is nothing is for those to know who may read it.
        let may_believe = account.is_none() && !read_anyway;
        let place = Place { account, reference: reference.clone(), key: from.key.clone(), text };
        match self.references.seen(reference) {
            Seen::Absent if from.optional && may_believe => return Ok(Read::Parsed(None)),
            Seen::At(version) if !read_anyway => {
                if let Some(parsed) = self.values.get(&place, version) {
                    return Ok(Read::Parsed(Some(parsed)));
                }
            }
            Seen::At(_) | Seen::Absent | Seen::Unknown => {}
        }
        let (what, field) = (format!("the {reference}"), field.to_owned());
        let contents = match self.read(reader, reference).await {
            Ok(Some(contents)) => contents,
            Ok(None) if from.optional => return Ok(Read::Parsed(None)),
            Ok(None) => return Err(source::Error::ValuesNotFound { what, field }.into()),
            Err(Unread { forbidden: true, message }) => {
                return Err(Error::ReadForbidden { what: format!("{field}: {what}"), message });
            }
            Err(Unread { message, .. }) => {
                return Err(source::Error::ValuesUnreachable { what, field, message }.into());
            }
        };
        let version = contents.version;
        if contents.get(&from.key).is_some_and(|text| text.len() > LONG) {
            if let Some(parsed) = self.values.get(&place, version) {
                return Ok(Read::Parsed(Some(parsed)));
            }
            return Ok(Read::Long(Box::new(Unparsed { place, contents, from: from.clone(), field })));
        }
        let parsed = parse(reference, &contents, from, &field)?;
        self.values.put(place, version, parsed.clone());
        Ok(Read::Parsed(Some(parsed)))
    }

    /// Parses a long text, if it is this release's turn.
    async fn parse_long(&self, key: &ReleaseKey, unparsed: Box<Unparsed>) -> Result<Parsed, Error> {
        let turn = self.packs.turn(key).await?;
        let Unparsed { place, contents, from, field } = *unparsed;
        let (reference, version) = (place.reference.clone(), contents.version);
        let parsed = decoded(turn, move || parse(&reference, &contents, &from, &field)).await??;
        self.values.put(place, version, parsed.clone());
        Ok(parsed)
    }
}
