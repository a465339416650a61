//! Text from a format, for the function `printf` and the filter `format`.

use minijinja::{Error, Value};

use super::{quote, to_float, to_int};
use crate::pack::render::budget::{Budget, wrong};
use crate::pack::render::text;

/// Verbs of Go: `%s %v %d %f %q %x %%`, with `-` and `0`, a width and a precision.
///
/// The function `printf` takes more than the filter `format`, as the published engine does: a `%` at the end, arguments that
/// no verb asks for, `%d` and `%f` of anything, and `%f` with as many digits as there are; every other verb is `%v`.
pub(in crate::pack::render) fn printf(
    format: &str,
    args: &[Value],
    filter: bool,
    budget: &Budget,
) -> Result<String, Error> {
    for arg in args {
        budget.defined(arg)?;
    }
    budget.steps(1 + format.len() as u64 / 64)?;
    let mut out = String::new();
    let mut args = args.iter();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !matches!(c, '-' | '+' | '.' | '0'..='9'));
        let (spec, tail) = rest.split_at(end.unwrap_or(rest.len()));
        let mut tail = tail.chars();
        let Some(verb) = tail.next() else {
            if filter {
                return Err(wrong("the format ends inside a verb"));
            }
            out.push('%');
            out.push_str(spec);
            rest = "";
            break;
        };
        rest = tail.as_str();
        if verb == '%' {
            out.push('%');
            continue;
        }
        let value = args.next().ok_or_else(|| wrong("there are fewer arguments than verbs"))?;
        let spec = Spec::read(spec, verb)?;
        let text = spec.text(value, filter, budget)?;
        budget.string((text.len() + spec.width) as u64)?;
        spec.pad(&text, &mut out);
    }
    out.push_str(rest);
    if filter && args.next().is_some() {
        return Err(wrong("there are more arguments than verbs"));
    }
    Ok(out)
}

/// A verb, and how its text is to look.
struct Spec<'f> {
    verb: char,
    /// What stands between `%` and the verb.
    flags: &'f str,
    width: usize,
    precision: Option<usize>,
}

impl<'f> Spec<'f> {
    fn read(flags: &'f str, verb: char) -> Result<Self, Error> {
        let sizes = flags.trim_start_matches(['-', '+', '0']);
        let (width, precision) = sizes.split_once('.').unwrap_or((sizes, ""));
        let number = |text: &str| match text.parse::<usize>() {
            Ok(number) if number <= 999 => Ok(Some(number)),
            Err(_) if text.is_empty() => Ok(None),
            _ => Err(wrong(format!("`{text}` is not a width up to 999"))),
        };
        let (width, precision) = (number(width)?.unwrap_or(0), number(precision)?);
        Ok(Self { verb, flags, width, precision })
    }

    /// A value as the verb wants it, with its sign, before it is brought to its width.
    fn text(&self, value: &Value, filter: bool, budget: &Budget) -> Result<String, Error> {
        let precision = self.precision;
        let text = match self.verb {
            's' | 'v' => match precision {
                Some(precision) => text::of(value, budget)?.chars().take(precision).collect(),
                None => text::of(value, budget)?.into_owned(),
            },
            'd' if filter || value.is_integer() => to_int(value)?.to_string(),
            'f' if filter || precision.is_some() => {
                format!("{:.*}", precision.unwrap_or(6), to_float(value)?)
            }
            'f' if value.is_integer() => to_float(value)?.to_string(),
            'q' if filter => quote(&text::of(value, budget)?, budget)?,
            'x' if filter => format!("{:x}", to_int(value)?),
            _ if !filter => text::of(value, budget)?.into_owned(),
            't' => text::of(value, budget)?.into_owned(),
            other => return Err(wrong(format!("the verb `%{other}` is not known"))),
        };
        let signed = self.flags.contains('+') && self.verb == 'd' && !text.starts_with('-');
        Ok(if signed { format!("+{text}") } else { text })
    }

    /// Writes a text with what is missing to the width: behind it, as zeros in it, or before it.
    fn pad(&self, text: &str, out: &mut String) {
        let missing = self.width.saturating_sub(text.chars().count());
        if self.flags.starts_with('-') {
            out.push_str(text);
            out.push_str(&" ".repeat(missing));
        } else if self.flags.starts_with('0') && matches!(self.verb, 'd' | 'f' | 'x') {
            let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
            out.push_str(sign);
            out.push_str(&"0".repeat(missing));
            out.push_str(digits);
        } else {
            out.push_str(&" ".repeat(missing));
            out.push_str(text);
        }
    }
}
