//! Rewrites the source of a template so that everything that can grow asks the budget first.
//!
//! Fuel counts instructions, but one `~` can double a string and one tag can emit a megabyte into a
//! variable. The engine has no hook there, so the source itself gets filters: `a ~ b` becomes
//! `(a )|__guard_cat( b)`, a list literal becomes `([..]|__guard_hold)`, and so on. They bind tightly, hence are valid
//! wherever the original was; nothing spans a line, so line numbers stay.
//!
//! The walk below follows the engine's grammar on its own tokens. Source that the walk does not
//! understand is refused, never left unguarded.

mod expression;
mod filters;
mod places;
mod size;

use std::borrow::Cow;

use minijinja::Error;
use minijinja::machinery::{Span, Token, parse};

use super::budget::Budget;
pub(super) use filters::register;
pub(super) use places::Places;

/// Names starting with this cannot be used by a pack.
pub(super) const PREFIX: &str = "__guard_";

/// Why a template is not accepted.
pub(super) enum Refused {
    /// The engine does not understand it.
    Engine(Error),
    /// The engine would, this crate does not let it.
    Here {
        /// Line from 1.
        line: usize,
        why: &'static str,
    },
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// A template that was rewritten.
pub(super) struct Guarded {
    pub(super) source: String,
    pub(super) places: Places,
}

/// Rewrites one template. `nested`: for `tpl`, whose fuel has to be counted separately.
///
/// # Errors
/// Too much source for the stack or the budget, or not a template.
pub(super) fn instrument(
    name: &str,
    source: &str,
    nested: bool,
    budget: &Budget,
) -> Result<Guarded, Refused> {
    // Before the engine parses it: too much would end the process.
    let tokens = size::tokens(source, budget)?;
    // Before anything is said here, so that a mistake is reported in the words of the engine.
    parse(source, name, Default::default())?;
    if let Some(error) = tokens.broken {
        return Err(error.into());
    }
    let tokens = tokens.list;
    let reserved = |token: &Token<'_>| matches!(token, Token::Ident(name) if name.starts_with(PREFIX));
    if let Some((_, span)) = tokens.iter().find(|(token, _)| reserved(token)) {
        return Err(refused(span, "names starting with `__guard_` are reserved"));
    }
    let mut walk = Walk { tokens, at: 0, edits: Vec::new(), raw: 0, loops: Vec::new(), bare: false };
    walk.template()?;
    Ok(walk.apply(source, nested))
}

fn refused(span: &Span, why: &'static str) -> Refused {
    Refused::Here { line: usize::from(span.start_line), why }
}

/// One change of the source. Variants are in the order in which they apply at one offset.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// After the text before the offset: closing parts, inner ones first.
    Close,
    /// Instead of one character.
    Replace,
    /// Before the text at the offset: opening parts, outer ones first.
    Open,
}

struct Edit {
    offset: usize,
    /// Where the expression starts that it guards.
    of: usize,
    place: Place,
    text: String,
}

struct Walk<'s> {
    tokens: Vec<(Token<'s>, Span)>,
    at: usize,
    edits: Vec<Edit>,
    /// Bytes of literal text so far.
    raw: usize,
    /// Open loops: the edit that takes the size of the body, and the bytes before it.
    loops: Vec<(usize, usize)>,
    /// The call in a `call` or `do` tag must stay a plain call.
    bare: bool,
}

type Step = Result<(), Refused>;

impl<'s> Walk<'s> {
    fn apply(mut self, source: &str, nested: bool) -> Guarded {
        let mut order: Vec<(usize, Edit)> = self.edits.drain(..).enumerate().collect();
        // At one place the later opening is the outer one: it was recorded when its end was known.
        order.sort_by(|(i, a), (j, b)| {
            (a.offset, &a.place).cmp(&(b.offset, &b.place)).then_with(|| match a.place {
                Place::Open => j.cmp(i),
                Place::Close | Place::Replace => i.cmp(j),
            })
        });
        let mut out = String::with_capacity(source.len() * 2);
        let mut places = Places::default();
        if self.raw > 0 {
            out.push_str(&format!("{{{{ {}|{PREFIX}raw }}}}", self.raw));
        }
        let mut from = 0;
        for (_, edit) in order {
            places.note(out.len(), from, None);
            out.push_str(&source[from..edit.offset]);
            places.note(out.len(), edit.offset, Some(edit.of));
            out.push_str(&edit.text);
            from = edit.offset + usize::from(edit.place == Place::Replace);
        }
        places.note(out.len(), from, None);
        let rest = &source[from..];
        if nested {
            // The engine takes one newline off the end; it has to stay the end.
            let (body, end) = rest.strip_suffix('\n').map_or((rest, ""), |body| (body, "\n"));
            out.push_str(&format!("{body}{{{{ 0|{PREFIX}end }}}}{end}"));
        } else {
            out.push_str(rest);
        }
        Guarded { source: out, places }
    }

    // Tokens.

    fn token(&self) -> Option<&Token<'s>> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn ident(&self) -> Option<&'s str> {
        match self.token() {
            Some(Token::Ident(name)) => Some(name),
            _ => None,
        }
    }

    fn odd(&self) -> Refused {
        let here = self.at.min(self.tokens.len().saturating_sub(1));
        let span = self.tokens.get(here).map(|(_, span)| *span).unwrap_or_default();
        refused(&span, "this expression is not understood")
    }

    fn start(&self) -> Result<usize, Refused> {
        let (_, span) = self.tokens.get(self.at).ok_or_else(|| self.odd())?;
        Ok(span.start_offset as usize)
    }

    fn end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].1.end_offset as usize)
    }

    fn skip_if(&mut self, wanted: impl Fn(&Token<'s>) -> bool) -> bool {
        let found = self.token().is_some_and(wanted);
        self.at += usize::from(found);
        found
    }

    fn skip_ident(&mut self, name: &str) -> bool {
        self.skip_if(|token| matches!(token, Token::Ident(found) if *found == name))
    }

    fn expect(&mut self, wanted: impl Fn(&Token<'s>) -> bool) -> Step {
        if self.skip_if(wanted) { Ok(()) } else { Err(self.odd()) }
    }

    /// Puts `(` before `start` and a closing part here.
    ///
    /// `(a + b)|guard` binds as a filter does, tighter than every operator: only what may have a `.`, `[` or `(` after it
    /// needs to be `(f()|guard)`.
    fn wrap(&mut self, start: usize, close: String) {
        let open = Edit { offset: start, of: start, place: Place::Open, text: "(".to_owned() };
        self.edits.extend([Edit { offset: self.end(), of: start, place: Place::Close, text: close }, open]);
    }

    // Tags.

    fn template(&mut self) -> Step {
        while let Some((token, _)) = self.tokens.get(self.at) {
            match token {
                Token::TemplateData(text) => {
                    self.raw += text.len();
                    self.at += 1;
                }
                Token::VariableStart => {
                    self.at += 1;
                    self.expr()?;
                    self.expect(|token| matches!(token, Token::VariableEnd))?;
                }
                Token::BlockStart => {
                    self.at += 1;
                    self.tag()?;
                    self.expect(|token| matches!(token, Token::BlockEnd))?;
                }
                _ => return Err(self.odd()),
            }
        }
        Ok(())
    }

    fn tag(&mut self) -> Step {
        let tag = self.ident().ok_or_else(|| self.odd())?;
        self.at += 1;
        match tag {
            "for" => self.for_tag(),
            "endfor" => {
                if let Some((edit, before)) = self.loops.pop() {
                    self.edits[edit].text = format!(")|{PREFIX}each({})", self.raw - before);
                }
                Ok(())
            }
            "if" | "elif" | "autoescape" => self.expr(),
            "set" => self.set_tag(),
            "with" => {
                while !matches!(self.token(), Some(Token::BlockEnd)) {
                    self.skip_if(|token| matches!(token, Token::Comma));
                    self.target()?;
                    self.expect(|token| matches!(token, Token::Assign))?;
                    self.expr()?;
                }
                Ok(())
            }
            "filter" => self.filters(),
            "macro" => {
                self.at += 1;
                self.parameters()
            }
            "call" => {
                if matches!(self.token(), Some(Token::ParenOpen)) {
                    self.parameters()?;
                }
                self.bare_call()
            }
            "do" => self.bare_call(),
            "include" | "import" | "from" | "extends" => {
                // The name may be a list, and a text of any length.
                let from = self.at;
                self.expr()?;
                self.look(from, self.at);
                self.rest_of_tag();
                Ok(())
            }
            "else" | "endif" | "endset" | "endwith" | "endautoescape" | "endfilter" | "endmacro"
            | "endcall" | "block" | "endblock" | "continue" | "break" => {
                self.rest_of_tag();
                Ok(())
            }
            _ => {
                self.at -= 1;
                Err(self.odd())
            }
        }
    }

    /// Names only, no expressions.
    fn rest_of_tag(&mut self) {
        while !matches!(self.token(), Some(Token::BlockEnd) | None) {
            self.at += 1;
        }
    }

    fn bare_call(&mut self) -> Step {
        self.bare = true;
        let result = self.expr();
        self.bare = false;
        result
    }

    /// Names, commas, dots and parentheses before `=`, `in` or the end.
    fn target(&mut self) -> Result<bool, Refused> {
        let mut dotted = false;
        while let Some(token) = self.token() {
            match token {
                Token::Ident("in") => break,
                Token::Dot => dotted = true,
                Token::Ident(_) | Token::Comma | Token::ParenOpen | Token::ParenClose => {}
                _ => break,
            }
            self.at += 1;
        }
        Ok(dotted)
    }

    fn for_tag(&mut self) -> Step {
        self.target()?;
        self.expect(|token| matches!(token, Token::Ident("in")))?;
        let start = self.start()?;
        self.or()?;
        // The closing part is made when the size of the body is known.
        self.wrap(start, String::new());
        self.loops.push((self.edits.len() - 2, self.raw));
        if self.skip_ident("if") {
            self.expr()?;
        }
        if self.ident() == Some("recursive") {
            let span = self.tokens[self.at].1;
            return Err(refused(&span, "recursive loops are not supported: use a macro"));
        }
        Ok(())
    }

    fn set_tag(&mut self) -> Step {
        let dotted = self.target()?;
        if matches!(self.token(), Some(Token::BlockEnd)) {
            return Ok(());
        }
        if self.skip_if(|token| matches!(token, Token::Pipe)) {
            return self.filters();
        }
        self.expect(|token| matches!(token, Token::Assign))?;
        let start = self.start()?;
        self.expr()?;
        let tuple = matches!(self.token(), Some(Token::Comma));
        while self.skip_if(|token| matches!(token, Token::Comma)) {
            if !matches!(self.token(), Some(Token::BlockEnd)) {
                self.expr()?;
            }
        }
        if tuple || dotted {
            self.wrap(start, format!(")|{PREFIX}hold"));
        }
        Ok(())
    }

    fn parameters(&mut self) -> Step {
        self.expect(|token| matches!(token, Token::ParenOpen))?;
        while !self.skip_if(|token| matches!(token, Token::ParenClose)) {
            self.skip_if(|token| matches!(token, Token::Comma));
            if self.ident().is_some() {
                self.at += 1;
                if self.skip_if(|token| matches!(token, Token::Assign)) {
                    self.expr()?;
                }
            } else if !matches!(self.token(), Some(Token::ParenClose)) {
                return Err(self.odd());
            }
        }
        Ok(())
    }

    /// `name(args) | name ..`
    fn filters(&mut self) -> Step {
        loop {
            self.dotted_name()?;
            if matches!(self.token(), Some(Token::ParenOpen)) {
                self.arguments()?;
            }
            if !self.skip_if(|token| matches!(token, Token::Pipe)) {
                return Ok(());
            }
        }
    }

    fn dotted_name(&mut self) -> Step {
        loop {
            self.expect(|token| matches!(token, Token::Ident(_)))?;
            if !self.skip_if(|token| matches!(token, Token::Dot)) {
                return Ok(());
            }
        }
    }
}

/// Takes the names of the guards out of an error message.
pub(super) fn hide(message: &str) -> Cow<'_, str> {
    if message.contains(PREFIX) { Cow::Owned(message.replace(PREFIX, "")) } else { Cow::Borrowed(message) }
}
