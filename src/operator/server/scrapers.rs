//! Who may read the metrics with `--metrics-auth=token`: whom the API server knows by a bearer token and allows to get
//! `/metrics`, as controller-runtime's filter for metrics does it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use kube::Client;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::cluster::{Visitor, describe, may_get};

/// The path that is asked for, as a `nonResourceURL`.
pub(super) const METRICS: &str = "/metrics";
/// How long an answer of the API server holds.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
const DENIED_FOR: Duration = Duration::from_secs(10);
/// Tokens whose answers are remembered.
const KNOWN: usize = 256;
/// Questions to the API server at a time: a client that sends ever new tokens keeps no more of it busy.
const QUESTIONS: usize = 2;

type Hash = [u8; 32];

/// Asks for each token, and remembers the answer for a short time.
pub struct Scrapers {
    client: Client,
    known: Mutex<Known>,
    questions: Semaphore,
    /// The API server did not answer the last question, which was told.
    told: AtomicBool,
}

impl Scrapers {
    #[must_use]
    pub fn new(client: Client) -> Self {
        let (known, told) = (Mutex::default(), AtomicBool::new(false));
        Self { client, known, questions: Semaphore::new(QUESTIONS), told }
    }

    /// Whether a request with these headers is answered; else status and text of the refusal.
    ///
    /// # Errors
    /// What the client is told.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
        let Some(token) = bearer(headers) else {
            return Err((StatusCode::UNAUTHORIZED, "send a bearer token\n".to_owned()));
        };
        let hash: Hash = Sha256::digest(token).into();
        if let Some(visitor) = self.lock().of(&hash, Instant::now()) {
            return judged(visitor);
        }
        // It is never closed.
        let _turn = self.questions.acquire().await;
        // Another request with this token may have been answered meanwhile.
        if let Some(visitor) = self.lock().of(&hash, Instant::now()) {
            return judged(visitor);
        }
        match may_get(&self.client, token, METRICS).await {
            Ok(visitor) => {
                self.told.store(false, Ordering::Relaxed);
                self.lock().learn(hash, visitor.clone(), Instant::now());
                judged(visitor)
            }
            Err(error) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error = describe(&error),
                        "no client may read the metrics: the API server does not say whose token it is; the operator needs the verb `create` on tokenreviews and subjectaccessreviews"
                    );
                }
                Err((StatusCode::SERVICE_UNAVAILABLE, "the API server does not say who asks\n".to_owned()))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn judged(visitor: Visitor) -> Result<(), (StatusCode, String)> {
    match visitor {
        Visitor::Allowed => Ok(()),
        Visitor::Unknown => Err((StatusCode::UNAUTHORIZED, "the token is not known\n".to_owned())),
        Visitor::Denied { user } => {
            let text = format!(
                "`{user}` may not get the path {METRICS}: bind it to a role such as metrics-reader\n"
            );
            Err((StatusCode::FORBIDDEN, text))
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Answers by the hash of the token, each with the moment until which it holds.
#[derive(Default)]
struct Known(HashMap<Hash, (Visitor, Instant)>);

impl Known {
    fn of(&self, hash: &Hash, now: Instant) -> Option<Visitor> {
        self.0.get(hash).filter(|(_, until)| now < *until).map(|(visitor, _)| visitor.clone())
    }

    fn learn(&mut self, hash: Hash, visitor: Visitor, now: Instant) {
        self.0.retain(|_, (_, until)| now < *until);
        if self.0.len() >= KNOWN {
            // Refusals hold shorter: a client that is refused again and again pushes out its like.
            let first = self.0.iter().min_by_key(|(_, (_, until))| *until).map(|(hash, _)| *hash);
            first.and_then(|hash| self.0.remove(&hash));
        }
        let holds = if visitor == Visitor::Allowed { ALLOWED_FOR } else { DENIED_FOR };
        self.0.insert(hash, (visitor, now + holds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> Hash {
        Sha256::digest(number.to_be_bytes()).into()
    }

    #[test]
    fn answers_hold_for_a_while_and_refusals_shorter() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.learn(hash(1), Visitor::Allowed, now);
        known.learn(hash(2), Visitor::Unknown, now);
        assert_eq!(known.of(&hash(1), now), Some(Visitor::Allowed));
        assert_eq!(known.of(&hash(2), now), Some(Visitor::Unknown));
        assert_eq!(known.of(&hash(3), now), None);
        assert_eq!(known.of(&hash(2), now + DENIED_FOR), None);
        assert_eq!(known.of(&hash(1), now + DENIED_FOR), Some(Visitor::Allowed));
        assert_eq!(known.of(&hash(1), now + ALLOWED_FOR), None);
    }

    #[test]
    fn ever_new_tokens_take_no_more_room_and_push_out_only_their_like() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.learn(hash(0), Visitor::Allowed, now);
        for number in 1..1000 {
            known.learn(hash(number), Visitor::Unknown, now + Duration::from_millis(number));
        }
        assert_eq!(known.0.len(), KNOWN);
        let later = now + Duration::from_secs(2);
        assert_eq!(known.of(&hash(0), later), Some(Visitor::Allowed));
        assert_eq!(known.of(&hash(999), later), Some(Visitor::Unknown));
    }

    #[test]
    fn only_a_bearer_token_is_one() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer ", None),
            ("Basic abc", None),
            ("abc", None),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(bearer(&headers), token, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
