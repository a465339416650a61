//! One look at a pack of a repository: the index, unless it is known to be the same, and the archive that it names.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::StatusCode;

use super::index::{Index, NotInIndex, resolve};
use super::read::{MAX_BYTES, parse};
use crate::source::Error;
use crate::source::cache::digest;
use crate::source::http::{Answer, Call, Client, Credentials, Fair, Url, Validators, withhold};
use crate::source::lru::WeightedLru;
use crate::source::minisig::Beside;
use crate::source::signature::Keys;

/// Where a release names the Secret.
const SECRET: &str = "spec.pack.repository.secretRef";
/// What the digest in an index is a validator of. No URL is written so.
const IN_INDEX: &str = "index";
/// Indexes that are kept, and what they take together.
const INDEXES: usize = 256;
const BYTES: usize = 32 << 20;

/// A pack of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// Of the directory that `index.yaml` is in.
    pub repository: Url,
    pub name: String,
    /// Unset: the newest that is no pre-release.
    pub range: Option<String>,
    /// Credentials go to whatever host the index names.
    pub pass_credentials: bool,
}

/// As messages show it.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pack `{}` of {}", self.name, self.repository)?;
        self.range.iter().try_for_each(|range| write!(f, " in `{range}`"))
    }
}

impl Listed {
    /// One text for it, with all that tells it from another one.
    pub(in crate::source) fn text(&self) -> String {
        let Self { repository, name, range, pass_credentials } = self;
        let pass = if *pass_credentials { " passing credentials" } else { "" };
        format!("{}\n{name}\n{}{pass}", repository.uri(), range.as_deref().unwrap_or_default())
    }
}

/// Indexes that were read, each once for all releases of its repository.
pub(in crate::source) struct Indexes {
    kept: Mutex<WeightedLru<String, Arc<Slot>>>,
    /// Reading one takes memory and a processor.
    reading: Fair,
}

/// An index with its last look. Who waits for it waits for one look of another.
type Slot = tokio::sync::Mutex<Option<Kept>>;

struct Kept {
    index: Result<Arc<Index>, Error>,
    validators: Validators,
    /// When the look began.
    began: Instant,
    /// It has a private address.
    inside: bool,
}

impl Default for Indexes {
    fn default() -> Self {
        Self { kept: Mutex::new(WeightedLru::new(INDEXES, BYTES)), reading: Fair::new(1, 1) }
    }
}

/// Fetches a pack, on behalf of a release in `namespace`. `scope` tells apart what different credentials give.
///
/// `Unchanged` if the index names the same digest as before, which is the `ETag` of the validators then; without a digest in the
/// index, if the server says so.
///
/// # Errors
/// See the variants of [`Error`].
pub(in crate::source) async fn fetch(
    client: &Client,
    namespace: &str,
    listed: &Listed,
    (credentials, keys): (&Credentials, Option<&Arc<Keys>>),
    known: &Validators,
    (indexes, scope): (&Indexes, &str),
) -> Result<Answer, Error> {
    let mut look = Look { client, namespace, listed, credentials, keys, inside: false };
    let answer = client.within(listed, look.answer(known, (indexes, scope))).await;
    if look.inside { withhold(listed, answer) } else { answer }
}

/// The archive of a pack, for a command, which serves no namespace and keeps no index.
///
/// # Errors
/// See the variants of [`Error`].
pub async fn archive(client: &Client, listed: &Listed, credentials: &Credentials) -> Result<Vec<u8>, Error> {
    let (indexes, nothing) = (Indexes::default(), Validators::default());
    match fetch(client, "", listed, (credentials, None), &nothing, (&indexes, "")).await? {
        Answer::Fetched { bytes, .. } => Ok(bytes),
        // Nothing was known.
        Answer::Unchanged => Err(Error::NotFound { what: listed.to_string() }),
    }
}

/// All versions of a pack as the index writes them, for a command.
///
/// # Errors
/// See the variants of [`Error`].
pub async fn versions(
    client: &Client,
    listed: &Listed,
    credentials: &Credentials,
) -> Result<Vec<String>, Error> {
    let indexes = Indexes::default();
    let mut look = Look { client, namespace: "", listed, credentials, keys: None, inside: false };
    let index = client.within(listed, look.index((&indexes, ""))).await?;
    let versions = index.versions_of(&listed.name).map_err(|why| look.missing(&why))?;
    Ok(versions.into_iter().map(str::to_owned).collect())
}

struct Look<'a> {
    client: &'a Client,
    namespace: &'a str,
    listed: &'a Listed,
    credentials: &'a Credentials,
    /// One of them has to have signed the archive.
    keys: Option<&'a Arc<Keys>>,
    /// A private address was asked.
    inside: bool,
}

impl Look<'_> {
    async fn answer(&mut self, known: &Validators, of: (&Indexes, &str)) -> Result<Answer, Error> {
        let Listed { repository, name, range, pass_credentials } = self.listed;
        let index = self.index(of).await?;
        let entry = index.find(name, range.as_deref()).map_err(|why| self.missing(&why))?;
        let unusable = |why: String| Error::Index { url: repository.to_string(), why };
        let wanted = entry.digest.text().map_err(|why| unusable(why.to_owned()))?;
        if wanted.is_some() && known.of.as_deref() == Some(IN_INDEX) && wanted == known.etag {
            return Ok(Answer::Unchanged);
        }
        let url = resolve(repository, &entry.url).map_err(unusable)?;
        let text = url.uri().to_string();
        let trusted = *pass_credentials || repository.trusts(&url);
        if trusted && repository.is_https() && !url.is_https() && self.credentials.identify() {
            return Err(unusable(format!("it leads from https to {url}, and credentials do not go there")));
        }
        let nobody =
            Credentials { authorities: self.credentials.authorities.clone(), ..Credentials::default() };
        let credentials = if trusted { self.credentials } else { &nobody };
        // An index without a digest leaves it to the server to tell one content from the next, of the same URL.
        let nothing = Validators::default();
        let asks = wanted.is_none() && known.of.as_deref() == Some(&text);
        let validators = if asks { known } else { &nothing };
        let call = Call {
            authorization: credentials.authorization.as_ref(),
            known: validators,
            ..self.client.call(self.namespace, &url, credentials)
        };
        let reply = self.client.send(&call, &mut self.inside).await?;
        if reply.status == StatusCode::NOT_MODIFIED && *validators != nothing {
            return Ok(Answer::Unchanged);
        }
        let reply = reply.checked(&url, self.credentials, SECRET)?;
        let validators = match wanted {
            None => Validators { of: Some(text), ..reply.validators() },
            Some(wanted) => {
                let found = digest(&reply.bytes);
                if found != wanted {
                    return Err(Error::Corrupt { url: url.to_string(), wanted, found });
                }
                Validators { etag: Some(wanted), last_modified: None, of: Some(IN_INDEX.to_owned()) }
            }
        };
        let answer = Answer::Fetched { bytes: reply.bytes, validators };
        let Some(keys) = self.keys else { return Ok(answer) };
        let beside = Beside { client: self.client, namespace: self.namespace, url: &url, credentials };
        beside.checked(keys, SECRET, answer, &mut self.inside).await
    }

    /// The index as a look shows it that began after this one did: this one's own, or that of another one.
    async fn index(&mut self, (indexes, scope): (&Indexes, &str)) -> Result<Arc<Index>, Error> {
        let came = Instant::now();
        let url = resolve(&self.listed.repository, "index.yaml")
            .map_err(|why| Error::Invalid { what: "spec.pack.repository.url".to_owned(), why })?;
        let key = format!("{scope}\n{}", url.uri());
        let slot = indexes.slot(&key);
        let mut kept = slot.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.began >= came) {
            self.inside |= kept.inside;
            return kept.index.clone();
        }
        let began = Instant::now();
        let before = kept.take();
        let (index, validators) = match self.read(indexes, &url, before).await {
            Ok((index, validators)) => (Ok(index), validators),
            Err(error) => (Err(error), Validators::default()),
        };
        let weight = index.as_ref().map_or(0, |index| index.weight());
        *kept = Some(Kept { index: index.clone(), validators, began, inside: self.inside });
        indexes.weighs(key, &slot, weight);
        index
    }

    async fn read(
        &mut self,
        indexes: &Indexes,
        url: &Url,
        before: Option<Kept>,
    ) -> Result<(Arc<Index>, Validators), Error> {
        let before = before.and_then(|kept| Some((kept.index.ok()?, kept.validators)));
        let nothing = Validators::default();
        let call = Call {
            authorization: self.credentials.authorization.as_ref(),
            known: before.as_ref().map_or(&nothing, |(_, validators)| validators),
            onward: Some(&self.listed.repository),
            what: "index",
            limit: MAX_BYTES as u64,
            ..self.client.call(self.namespace, url, self.credentials)
        };
        let reply = self.client.send(&call, &mut self.inside).await?;
        let known = *call.known != nothing;
        if let Some(before) = before.filter(|_| known && reply.status == StatusCode::NOT_MODIFIED) {
            return Ok(before);
        }
        let reply = reply.checked(url, self.credentials, SECRET)?;
        let validators = reply.validators();
        let turn = indexes.reading.acquire(self.namespace, 1).await;
        let read = tokio::task::spawn_blocking(move || {
            let parsed = parse(&reply.bytes);
            // Until here the bytes take their share of memory and of the processors, even if the look has given up.
            drop((reply, turn));
            parsed
        })
        .await;
        let index = |why: String| Error::Index { url: url.to_string(), why };
        let parsed = read.map_err(|error| index(error.to_string()))?;
        Ok((Arc::new(parsed.map_err(|error| index(error.to_string()))?), validators))
    }

    fn missing(&self, why: &NotInIndex) -> Error {
        let (what, why) = (self.listed.repository.to_string(), why.to_string());
        Error::NoVersion { what, why }
    }
}

impl Indexes {
    fn slot(&self, key: &str) -> Arc<Slot> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = kept.get(key) {
            return Arc::clone(slot);
        }
        let slot = Arc::default();
        kept.put(key.to_owned(), Arc::clone(&slot), 0);
        slot
    }

    /// What was read may put others out.
    fn weighs(&self, key: String, slot: &Arc<Slot>, weight: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(key, Arc::clone(slot), weight);
    }
}
