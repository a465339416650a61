//! The tokens of webhooks: the files of a directory, as a Secret is mounted. The name of a file is a namespace, or `_all`.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::operator::server::reread::Reread;

/// The file with the token for all namespaces.
const ALL: &str = "_all";
/// Files that are read.
const FILES: usize = 1000;
/// Characters of a token. What is shorter could be guessed.
const SHORTEST: usize = 32;
const LONGEST: usize = 256;

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    /// `None`: all.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Namespace(namespace) => Some(namespace),
        }
    }
}

/// Compared by their hashes, so that the time it takes tells nothing of them.
type Known = HashMap<[u8; 32], Scope>;

/// The tokens in a directory.
pub(in crate::operator) struct Tokens {
    directory: PathBuf,
    known: Reread<Arc<Known>>,
}

impl Tokens {
    /// Those that are there now.
    ///
    /// # Errors
    /// The directory cannot be read. The text names it.
    pub(in crate::operator) fn of(directory: &Path) -> Result<Self, String> {
        let known =
            read(directory).map_err(|error| format!("{} cannot be read: {error}", directory.display()))?;
        Ok(Self { directory: directory.to_owned(), known: Reread::new(Arc::new(known)) })
    }

    /// What the token is for; `None`: no file has it.
    pub(super) async fn scope(&self, token: &str) -> Option<Scope> {
        let known = match self.known.recent(Instant::now()) {
            Some(known) => known,
            None => self.read_again().await,
        };
        known.get(&hash(token)).cloned()
    }

    async fn read_again(&self) -> Arc<Known> {
        let directory = self.directory.clone();
        let read = tokio::task::spawn_blocking(move || read(&directory)).await;
        let known = read.map_err(io::Error::other).flatten().unwrap_or_else(|error| {
            tracing::warn!(directory = %self.directory.display(), %error, "the tokens of webhooks cannot be read: none counts");
            Known::default()
        });
        let known = Arc::new(known);
        self.known.put(Arc::clone(&known));
        known
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn read(directory: &Path) -> io::Result<Known> {
    let mut known = Known::new();
    for entry in std::fs::read_dir(directory)?.take(FILES) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A mounted Secret has its files behind links to such a directory.
        if name.starts_with('.') {
            continue;
        }
        match token(&entry.path()) {
            Ok(token) => {
                let scope = if name == ALL { Scope::All } else { Scope::Namespace(name) };
                known.insert(hash(&token), scope);
            }
            Err(why) => {
                tracing::warn!(file = %entry.path().display(), why, "a token of webhooks is not used");
            }
        }
    }
    Ok(known)
}

fn token(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let limit = 2 * LONGEST as u64;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(limit).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let token = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if !(SHORTEST..=LONGEST).contains(&token.len()) || !token.chars().all(fits) {
        return Err(format!(
            "it is not {SHORTEST} to {LONGEST} letters, digits and characters of -._~: as `openssl rand -hex 32` makes it"
        ));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_a_token_for_the_namespace_that_it_is_called_after() {
        let directory = std::env::temp_dir().join(format!("sherpack-webhook-tokens-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("..data")).unwrap();
        let (apps, all) = ("a".repeat(32), "0-._~".repeat(8));
        let files = [("apps", format!("{apps}\n")), ("_all", all.clone()), ("short", "b".repeat(31))];
        for (name, text) in files.into_iter().chain([("odd", format!("{}/", "c".repeat(32)))]) {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let tokens = Tokens::of(&directory).unwrap();
        assert_eq!(tokens.scope(&apps).await, Some(Scope::Namespace("apps".to_owned())));
        assert_eq!(tokens.scope(&all).await, Some(Scope::All));
        for unknown in [String::new(), "b".repeat(31), format!("{}/", "c".repeat(32)), "a".repeat(33)] {
            assert_eq!(tokens.scope(&unknown).await, None, "{unknown}");
        }
        std::fs::remove_file(directory.join("apps")).unwrap();
        assert!(tokens.scope(&apps).await.is_some(), "it is read again after a while");
        assert_eq!(tokens.read_again().await.len(), 1);
        assert_eq!(tokens.scope(&apps).await, None);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(tokens.read_again().await.is_empty());
        assert!(Tokens::of(&directory).err().unwrap().contains("sherpack-webhook-tokens"));
    }
}
