//! From a record to the objects that hold it: how large it may be, what is cut off, and what is sealed.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{
    Error, HEAD_VALUE, MAX_PRIVATE_BYTES, MAX_RECORD_BYTES,
    blob::{self, Compression, MAX_JSON_BYTES, MAX_JSON_NODES},
    bytes_of, mac,
    mac_key::MacKey,
    parts::{self, Large, MAX_PARTS, Stream, Streams},
    stem,
};
use crate::{
    api::names,
    release::{Private, Record},
};

/// A private part above this size stands in parts, if the record needs parts at all.
const PRIVATE_INLINE_BYTES: usize = 250_000;

/// Where and how a record is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::storage) struct Shape {
    /// Namespace of the stored object; `None`: that of the record.
    pub(in crate::storage) namespace: Option<String>,
    /// Value of the label that names the driver.
    pub(in crate::storage) driver: &'static str,
    pub(in crate::storage) compression: Compression,
    pub(in crate::storage) large: Large,
    /// Most bytes of one object; `None`: everything always stands in one.
    pub(in crate::storage) limit: Option<usize>,
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub(in crate::storage) struct Encoded {
    pub(in crate::storage) main: Secret,
    /// To be created before `main` is written.
    pub(in crate::storage) parts: Vec<Secret>,
}

/// Makes the Secret of one revision, to be created or to replace the one that is there.
///
/// It stands in the namespace that the record names. With `private` it carries the sealed private part; without,
/// it is a record as any tool would write it. `head` marks the newest record.
///
/// # Errors
/// [`Error::RecordTooLarge`] if it does not fit into one Secret; [`Error::Encode`] if the record cannot be serialised.
pub fn encode(
    record: &Record,
    private: Option<&Private>,
    compression: Compression,
    key: &MacKey,
    head: bool,
) -> Result<Secret, Error> {
    let shape = Shape {
        namespace: None,
        driver: names::DRIVER_SECRETS,
        compression,
        large: Large::Chunked,
        limit: Some(MAX_RECORD_BYTES),
    };
    let Encoded { main, parts } = shape.encode(record, private, key, head, false)?;
    if parts.is_empty() {
        return Ok(main);
    }
    let name = main.metadata.name.clone().unwrap_or_default();
    let size = bytes_of(parts.iter().chain([&main]));
    Err(Error::RecordTooLarge {
        record: format!("{}/{name}", record.namespace),
        size,
        limit: MAX_RECORD_BYTES,
    })
}

impl Shape {
    /// Makes the objects of one revision.
    ///
    /// `fresh` says that the record will be written again with more in it: what its objects are like, how the operation
    /// ended. Then room is kept for that, so that a record that could be created can be finished too.
    ///
    /// # Errors
    /// [`Error::RecordTooLarge`] if it is more than a reader takes; [`Error::Encode`] if it cannot be serialised.
    pub(in crate::storage) fn encode(
        &self,
        record: &Record,
        private: Option<&Private>,
        key: &MacKey,
        head: bool,
        fresh: bool,
    ) -> Result<Encoded, Error> {
        let namespace = self.namespace.as_deref().unwrap_or(&record.namespace);
        let name = Record::key_of(&stem(namespace, &record.namespace, &record.name), record.version);
        let revision = Revision { shape: self, record, private, key, namespace, name, fresh };
        revision.objects(revision.streams()?, head)
    }

    fn is_over(&self, streams: &Streams) -> bool {
        let private = streams.private.as_ref().map_or(0, Vec::len);
        streams.release.len() + private > self.limit.unwrap_or(usize::MAX)
    }
}

/// One revision on its way into objects.
struct Revision<'r> {
    shape: &'r Shape,
    record: &'r Record,
    private: Option<&'r Private>,
    key: &'r MacKey,
    /// Where the main object stands, and how it is called.
    namespace: &'r str,
    name: String,
    fresh: bool,
}

impl Revision<'_> {
    fn subject(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn unserialisable(&self, source: std::io::Error) -> Error {
        Error::Encode { record: self.subject(), source }
    }

    fn within(&self, size: usize, limit: usize) -> Result<(), Error> {
        if size <= limit {
            Ok(())
        } else {
            Err(Error::RecordTooLarge { record: self.subject(), size, limit })
        }
    }

    fn few_nodes(&self, json: &[u8]) -> Result<(), Error> {
        if blob::nodes(json) > MAX_JSON_NODES {
            return Err(Error::RecordTooMany { record: self.subject(), limit: MAX_JSON_NODES });
        }
        Ok(())
    }

    /// What is to be stored; the manifest stands apart only if the whole is too large.
    fn streams(&self) -> Result<Streams, Error> {
        let mut streams = Streams { release: self.text(self.record)?, ..Streams::default() };
        streams.private = self.sealed(&streams)?;
        let separate = self.shape.large == Large::SeparateManifests && !self.record.manifest.is_empty();
        if separate && self.shape.is_over(&streams) {
            let manifest = self.packed(self.record.manifest.as_bytes())?;
            streams.manifest = Some(manifest);
            streams.release = self.text(&Record { manifest: String::new(), ..self.record.clone() })?;
            streams.private = self.sealed(&streams)?;
        }
        Ok(streams)
    }

    fn packed(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        blob::pack(bytes, self.shape.compression).map_err(|source| self.unserialisable(source))
    }

    fn text(&self, record: &Record) -> Result<Vec<u8>, Error> {
        let json = serde_json::to_vec(record).map_err(|error| self.unserialisable(error.into()))?;
        self.within(json.len(), if self.fresh { MAX_JSON_BYTES - (1 << 20) } else { MAX_JSON_BYTES })?;
        self.few_nodes(&json)?;
        self.packed(&json)
    }

    fn sealed(&self, streams: &Streams) -> Result<Option<Vec<u8>>, Error> {
        let Some(private) = self.private else { return Ok(None) };
        let (namespace, name) = (self.namespace, &self.name);
        let sealed =
            mac::seal(namespace, name, &streams.release, streams.manifest.as_deref(), private, self.key)
                .map_err(|error| self.unserialisable(error.into()))?;
        self.within(sealed.len(), if self.fresh { MAX_PRIVATE_BYTES / 2 } else { MAX_PRIVATE_BYTES })?;
        self.few_nodes(&sealed)?;
        Ok(Some(sealed))
    }

    /// Puts as much as fits into the main object and cuts the rest into parts.
    fn objects(&self, mut streams: Streams, head: bool) -> Result<Encoded, Error> {
        let shape = self.shape;
        let mut main = self.main(head);
        let mut parts = Vec::new();
        let mut cut = |main: &mut Secret, stream, text: &[u8]| {
            parts.extend(parts::cut(main, stream, text, shape.compression.label()));
        };
        if let Some(manifest) = &streams.manifest {
            cut(&mut main, Stream::Manifest, manifest);
        }
        if shape.is_over(&streams)
            && let Some(private) = streams.private.take_if(|private| private.len() > PRIVATE_INLINE_BYTES)
        {
            cut(&mut main, Stream::Private, &private);
        }
        let data = if shape.is_over(&streams) {
            cut(&mut main, Stream::Release, &streams.release);
            None
        } else {
            Some((names::DATA_RELEASE, streams.release))
        };
        let inline = data.into_iter().chain(streams.private.map(|private| (names::DATA_PRIVATE, private)));
        main.data
            .get_or_insert_default()
            .extend(inline.map(|(key, bytes)| (key.to_owned(), ByteString(bytes))));
        // A few bytes more make a part more: the same room as for the text.
        if parts.len() > if self.fresh { MAX_PARTS - 2 } else { MAX_PARTS } {
            let (size, limit) = (bytes_of(&parts), MAX_PARTS * parts::PART_BYTES);
            return Err(Error::RecordTooLarge { record: self.subject(), size, limit });
        }
        Ok(Encoded { main, parts })
    }

    /// The main object, still without data.
    fn main(&self, head: bool) -> Secret {
        let Shape { driver, compression, .. } = self.shape;
        Secret {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.to_owned()),
                labels: Some(labels(self.record, driver, *compression, head)),
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            type_: Some(names::RECORD_TYPE.to_owned()),
            ..Secret::default()
        }
    }
}

fn labels(record: &Record, driver: &str, compression: Compression, head: bool) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        (names::MANAGED_BY, names::MANAGED_BY_SHERPACK),
        (names::RELEASE_NAME, &record.name),
        (names::RELEASE_VERSION, &record.version.to_string()),
        (names::RELEASE_NAMESPACE, &record.namespace),
        (names::STORAGE_DRIVER, driver),
        (names::COMPRESSION, compression.label()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    if head {
        labels.insert(names::HEAD.to_owned(), HEAD_VALUE.to_owned());
    }
    labels
}
