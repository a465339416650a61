//! Regular expressions of Go, as far as a look at their parts tells that they are none.
//!
//! Not compiled: our own engines know another language. What passes here may still be refused, such as an unknown class of Unicode;
//! what does not pass is refused.

use std::iter::Peekable;
use std::str::Chars;

/// Most repetitions that Go takes.
const REPEAT: u32 = 1000;
/// What may stand after a backslash, beside what is neither letter nor digit.
const ESCAPES: &str = "nrtfvadDsSwWbBAzpPQECx";

/// Whether Go may take it.
pub(super) fn is_plausible(pattern: &str) -> bool {
    Scan { chars: pattern.chars().peekable(), open: 0 }.all().is_some()
}

struct Scan<'p> {
    chars: Peekable<Chars<'p>>,
    open: usize,
}

/// What the last thing was, seen from what follows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing that could be repeated.
    Nothing,
    Thing,
    Repeated,
}

impl Scan<'_> {
    /// `None`: refused.
    fn all(&mut self) -> Option<()> {
        let mut last = Last::Nothing;
        while let Some(c) = self.chars.next() {
            last = match c {
                '\\' => self.escape(last)?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.open = self.open.checked_sub(1)?;
                    Last::Thing
                }
                '*' | '+' | '?' => self.repeated(last)?,
                '{' => match self.counts() {
                    None => Last::Thing,
                    Some((least, most)) => {
                        let fits = least <= REPEAT && most.is_none_or(|most| most <= REPEAT && least <= most);
                        fits.then_some(())?;
                        self.repeated(last)?
                    }
                },
                '|' => Last::Nothing,
                _ => Last::Thing,
            };
        }
        (self.open == 0).then_some(())
    }

    fn repeated(&mut self, last: Last) -> Option<Last> {
        (last == Last::Thing).then_some(())?;
        // Lazy.
        self.chars.next_if_eq(&'?');
        Some(Last::Repeated)
    }

    fn escape(&mut self, last: Last) -> Option<Last> {
        let c = self.chars.next()?;
        match c {
            // Octal, or a reference back, which Go does not have.
            '1'..='7' => self.chars.peek()?.is_digit(8).then_some(Last::Thing),
            '0' => Some(Last::Thing),
            '8' | '9' => None,
            'Q' => {
                let mut any = last;
                while let Some(c) = self.chars.next() {
                    if c == '\\' && self.chars.next_if_eq(&'E').is_some() {
                        break;
                    }
                    any = Last::Thing;
                }
                Some(any)
            }
            'E' => Some(last),
            c if c.is_ascii_alphabetic() && !ESCAPES.contains(c) => None,
            c if !c.is_ascii() => None,
            _ => Some(Last::Thing),
        }
    }

    fn group(&mut self) -> Option<Last> {
        self.open += 1;
        if self.chars.next_if_eq(&'?').is_some() {
            match self.chars.next()? {
                // They look around.
                '=' | '!' => return None,
                '<' if self.chars.peek().is_none_or(|c| ['=', '!'].contains(c)) => return None,
                _ => {}
            }
        }
        Some(Last::Nothing)
    }

    fn class(&mut self) -> Option<Last> {
        self.chars.next_if_eq(&'^');
        let mut first = true;
        let mut from: Option<char> = None;
        loop {
            let c = self.chars.next()?;
            match c {
                // In the first place it is one of the characters.
                ']' if !first => return Some(Last::Thing),
                '\\' => {
                    let c = self.chars.next()?;
                    (!c.is_ascii_alphabetic() || ESCAPES.contains(c)).then_some(())?;
                    from = None;
                }
                '[' if self.chars.next_if_eq(&':').is_some() => {
                    while self.chars.next()? != ':' {}
                    from = None;
                }
                '-' if !first && from.is_some() && self.chars.peek().is_some_and(|c| *c != ']') => {
                    let to = self.chars.next()?;
                    if to == '\\' {
                        self.chars.next()?;
                    } else {
                        (from? <= to).then_some(())?;
                    }
                    from = None;
                }
                c => from = Some(c),
            }
            first = false;
        }
    }

    /// `{2}`, `{2,}` or `{2,3}`, the first brace being read; anything else is text.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let mut ahead = self.chars.clone();
        let inner: String = ahead.by_ref().take_while(|c| *c != '}').take(16).collect();
        let number = |text: &str| {
            (!text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()))
                .then(|| text.parse().unwrap_or(u32::MAX))
        };
        let (least, most) = match inner.split_once(',') {
            None => number(&inner).map(|least| (least, Some(least)))?,
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        // The closing brace must be there.
        let length = inner.chars().count();
        if self.chars.clone().nth(length) != Some('}') {
            return None;
        }
        for _ in 0..=length {
            self.chars.next();
        }
        Some((least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::is_plausible;

    #[test]
    fn what_go_takes_passes() {
        let good = [
            "",
            "a",
            "a{1,2}",
            "(?i)a",
            r"\d+",
            "[[]",
            "[]a]",
            "(?P<n>a)",
            "(?<n>a)",
            "x{",
            "x{a}",
            r"\Qa\E",
            "[[:alpha:]]",
            "(?:a)+?",
            "^*",
            r"\pL",
            r"\z",
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "[a-]",
            "[-a]",
            r"[\w-.]",
            "a{0,1000}",
            "a??",
            r"^(\d{4})-(0[1-9]|1[0-2])$",
            "a|",
            "()",
            "[^]]",
            r"\.",
            r"[\]]",
            "é*",
        ];
        for pattern in good {
            assert!(is_plausible(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_go_refuses_does_not() {
        let bad = [
            "(", "a)", "[a", "a**", "*a", "(?=a)", "(?!a)", "(?<!a)b", r"\1", "a|*", r"a\", "a{2}{3}", "a+*",
            "[b-a]", "a{1001}", r"\k<n>", r"\Z", "a{3,2}", "(*)", "a{2}*",
        ];
        for pattern in bad {
            assert!(!is_plausible(pattern), "{pattern}");
        }
    }
}
