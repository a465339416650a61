//! Reads the annotations of one object. A value that means nothing is an error, never a default.

use std::time::Duration;

use super::Error;
use crate::api::duration;
use crate::manifest::{Object, ObjectId};

/// The value of the first of `keys` that is set, and that key: ours comes before Helm's.
pub(super) fn first<'a>(object: &'a Object, keys: &[&'static str]) -> Option<(&'static str, &'a str)> {
    keys.iter().find_map(|key| object.annotation(key).map(|value| (*key, value)))
}

/// The parts of a comma list, without blanks around them; what is empty counts too.
pub(super) fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

pub(super) fn integer(object: &Object, keys: &[&'static str]) -> Result<i32, Error> {
    let Some((key, value)) = first(object, keys) else { return Ok(0) };
    value.trim().parse().map_err(|_| wrong(&object.id, key, value, "an integer in quotes"))
}

pub(super) fn count(object: &Object, key: &'static str) -> Result<u32, Error> {
    let Some((key, value)) = first(object, &[key]) else { return Ok(0) };
    let wanted = "a whole number from 0 to 100 in quotes";
    let number: Option<u32> = value.trim().parse().ok();
    number.filter(|number| *number <= 100).ok_or_else(|| wrong(&object.id, key, value, wanted))
}

pub(super) fn time(object: &Object, key: &'static str) -> Result<Option<Duration>, Error> {
    let Some((key, value)) = first(object, &[key]) else { return Ok(None) };
    let time = duration::parse(value.trim()).ok().filter(|time| !time.is_zero());
    time.map(Some).ok_or_else(|| wrong(&object.id, key, value, "a duration of more than zero, such as 5m"))
}

pub(super) fn truth(object: &Object, key: &'static str) -> Result<bool, Error> {
    match first(object, &[key]) {
        None => Ok(false),
        Some((_, value)) if value.trim().eq_ignore_ascii_case("true") => Ok(true),
        Some((_, value)) if value.trim().eq_ignore_ascii_case("false") => Ok(false),
        Some((key, value)) => Err(wrong(&object.id, key, value, "\"true\" or \"false\"")),
    }
}

pub(super) fn wrong(object: &ObjectId, key: &'static str, value: &str, wanted: &'static str) -> Error {
    let shown: String = value.chars().take(60).collect();
    Error::Annotation { object: object.to_string(), key, value: shown, wanted }
}
