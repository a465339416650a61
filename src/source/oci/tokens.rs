//! Tokens of registries, until they end. Losing one costs a request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use serde::Deserialize;

use crate::source::lru::WeightedLru;

/// Tokens that are kept, and their bytes together.
const TOKENS: usize = 1000;
const BYTES: usize = 4 << 20;
/// A token that does not say how long it is good for is good for so long, by the registries' token specification.
const LIFETIME: Duration = Duration::from_mins(1);
/// Nor is it used for longer than this, so that a server that changes its mind is asked again.
const LIFETIME_MAX: Duration = Duration::from_mins(60);
/// It is not used up to its last second: clocks differ, and a request takes time.
const MARGIN: Duration = Duration::from_secs(10);

/// What a token server answers.
#[derive(Deserialize)]
pub(super) struct Answer {
    token: Option<String>,
    access_token: Option<String>,
    /// In seconds. Some servers write it as a text.
    expires_in: Option<serde_json::Value>,
}

/// A token that was asked for.
#[derive(Clone)]
pub(super) struct Token {
    /// Value of `Authorization`, marked as sensitive.
    pub authorization: HeaderValue,
    until: Instant,
}

impl Answer {
    /// The token that was given at `now`, if there is one.
    pub(super) fn token(self, now: Instant) -> Option<Token> {
        let text = [self.token, self.access_token].into_iter().flatten().find(|text| !text.is_empty())?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {text}")).ok()?;
        authorization.set_sensitive(true);
        let seconds = self
            .expires_in
            .as_ref()
            .and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        let lifetime = seconds.map_or(LIFETIME, Duration::from_secs).min(LIFETIME_MAX);
        let until = now + lifetime.saturating_sub(MARGIN);
        Some(Token { authorization, until })
    }
}

/// One for each source.
pub(in crate::source) struct Tokens(Mutex<WeightedLru<String, Token>>);

impl Default for Tokens {
    fn default() -> Self {
        Self(Mutex::new(WeightedLru::new(TOKENS, BYTES)))
    }
}

impl Tokens {
    pub(super) fn get(&self, source: &str, now: Instant) -> Option<HeaderValue> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(source).filter(|token| token.until > now).map(|token| token.authorization.clone())
    }

    pub(super) fn put(&self, source: &str, token: Token) {
        let weight = source.len() + token.authorization.len();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(source.to_owned(), token, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, now: Instant) -> Option<Token> {
        serde_json::from_str::<Answer>(text).unwrap().token(now)
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        let now = Instant::now();
        let tokens = Tokens::default();
        for (text, seconds) in [
            (r#"{"token": "t"}"#, 50),
            (r#"{"access_token": "t", "expires_in": 300}"#, 290),
            (r#"{"token": "t", "access_token": "u", "expires_in": 20}"#, 10),
            (r#"{"token": "t", "access_token": null, "expires_in": "20"}"#, 10),
            (r#"{"token": "t", "expires_in": 18446744073709551615}"#, 3590),
        ] {
            tokens.put("a", answer(text, now).unwrap());
            let at = |seconds| tokens.get("a", now + Duration::from_secs(seconds));
            assert_eq!(at(seconds - 1).unwrap(), "Bearer t");
            assert!(at(seconds - 1).unwrap().is_sensitive());
            assert_eq!(at(seconds), None, "{text}");
            assert_eq!(tokens.get("b", now), None);
        }
    }

    #[test]
    fn what_is_no_token_is_none() {
        let now = Instant::now();
        assert!(answer("{}", now).is_none());
        assert!(answer(r#"{"token": "", "access_token": ""}"#, now).is_none());
        assert!(answer(r#"{"token": "a\nb"}"#, now).is_none());
    }
}
