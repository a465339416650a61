mod directions;
mod evidence;
mod kinds;
mod properties;
mod random;
mod whole;
mod wording;

use serde_json::Value;

use super::{Analysis, Definition, analyze};

pub(super) fn of(old: &Value, new: &Value) -> Analysis {
    analyze(&Definition::from_value(old).unwrap(), &Definition::from_value(new).unwrap())
}
