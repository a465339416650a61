//! Rewrites the source of a template so that everything that can grow asks the budget first.
//!
//! Fuel counts instructions, but one `~` can double a string and one tag can emit a megabyte into a
//! variable. The engine has no hook there, so the source itself gets calls: `a ~ b` becomes
//! `__guard_cat(a , b)`, a list literal becomes `__guard_hold([..])`, and so on. Calls are primary
//! expressions, hence valid wherever the original was; nothing spans a line, so line numbers stay.
//!
//! The walk below follows the engine's grammar on its own tokens. Source that the walk does not
//! understand is refused, never left unguarded.

use std::borrow::Cow;

use minijinja::machinery::{Span, Token, parse, tokenize};
use minijinja::{Error, ErrorKind};

/// Names starting with this cannot be used by a pack.
pub(super) const PREFIX: &str = "__guard_";

/// Rewrites one template. `nested`: for `tpl`, whose fuel has to be counted separately.
pub(super) fn instrument(name: &str, source: &str, nested: bool) -> Result<String, Error> {
    // First, so that a mistake is reported in the words of the engine.
    parse(source, name, Default::default())?;
    let mut tokens = Vec::new();
    for token in tokenize(source, false, Default::default()) {
        let (token, span) = token?;
        if matches!(token, Token::Ident(name) if name.starts_with(PREFIX)) {
            return Err(refused(name, &span, "names starting with `__guard_` are reserved"));
        }
        tokens.push((token, span));
    }
    let mut walk = Walk { name, tokens, at: 0, edits: Vec::new(), raw: 0, loops: Vec::new(), bare: false };
    walk.template()?;
    Ok(walk.apply(source, nested))
}

fn refused(name: &str, span: &Span, why: &str) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("{why} (in {name}:{})", span.start_line))
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
    place: Place,
    text: String,
}

struct Walk<'s> {
    name: &'s str,
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

type Step = Result<(), Error>;

impl<'s> Walk<'s> {
    fn apply(mut self, source: &str, nested: bool) -> String {
        let mut order: Vec<(usize, Edit)> = self.edits.drain(..).enumerate().collect();
        // At one place the later opening is the outer one: it was recorded when its end was known.
        order.sort_by(|(i, a), (j, b)| {
            (a.offset, &a.place).cmp(&(b.offset, &b.place)).then_with(|| match a.place {
                Place::Open => j.cmp(i),
                Place::Close | Place::Replace => i.cmp(j),
            })
        });
        let mut out = String::with_capacity(source.len() * 2);
        if self.raw > 0 {
            out.push_str(&format!("{{{{ {PREFIX}raw({}) }}}}", self.raw));
        }
        let mut from = 0;
        for (_, edit) in order {
            out.push_str(&source[from..edit.offset]);
            out.push_str(&edit.text);
            from = edit.offset + usize::from(edit.place == Place::Replace);
        }
        let rest = &source[from..];
        if nested {
            // The engine takes one newline off the end; it has to stay the end.
            let (body, end) = rest.strip_suffix('\n').map_or((rest, ""), |body| (body, "\n"));
            out.push_str(&format!("{body}{{{{ {PREFIX}end() }}}}{end}"));
        } else {
            out.push_str(rest);
        }
        out
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

    fn odd(&self) -> Error {
        let span = self.tokens.get(self.at).or(self.tokens.last()).map(|(_, span)| *span).unwrap_or_default();
        refused(self.name, &span, "this expression is not understood")
    }

    fn start(&self) -> Result<usize, Error> {
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

    /// Puts `function(` .. `)` around what stands between `start` and here.
    fn wrap(&mut self, function: &str, start: usize) {
        let open = Edit { offset: start, place: Place::Open, text: format!("{PREFIX}{function}(") };
        let close = Edit { offset: self.end(), place: Place::Close, text: ")".to_owned() };
        self.edits.extend([close, open]);
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
                    self.edits[edit].text = format!(", {})", self.raw - before);
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
                self.expr()?;
                self.rest_of_tag();
                Ok(())
            }
            "else" | "endif" | "endset" | "endwith" | "endautoescape" | "endfilter" | "endmacro" | "endcall" | "block"
            | "endblock" | "continue" | "break" => {
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
    fn target(&mut self) -> Result<bool, Error> {
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
        self.wrap("each", start);
        // The closing part is completed when the size of the body is known.
        self.loops.push((self.edits.len() - 2, self.raw));
        if self.skip_ident("if") {
            self.expr()?;
        }
        if self.ident() == Some("recursive") {
            let span = self.tokens[self.at].1;
            return Err(refused(self.name, &span, "recursive loops are not supported: use a macro"));
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
        if tuple {
            let end = self.end();
            self.edits.extend([
                Edit { offset: end, place: Place::Close, text: "))".to_owned() },
                Edit { offset: start, place: Place::Open, text: format!("{PREFIX}hold((") },
            ]);
        } else if dotted {
            self.wrap("hold", start);
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

    // Expressions, from the loosest binding to the tightest.

    fn expr(&mut self) -> Step {
        self.or()?;
        while self.skip_ident("if") {
            self.or()?;
            if self.skip_ident("else") {
                self.expr()?;
            }
        }
        Ok(())
    }

    fn or(&mut self) -> Step {
        loop {
            while self.skip_ident("not") {}
            self.compare()?;
            if !self.skip_ident("or") && !self.skip_ident("and") {
                return Ok(());
            }
        }
    }

    fn compare(&mut self) -> Step {
        self.sum()?;
        loop {
            let symbol = self.skip_if(|token| {
                matches!(token, Token::Eq | Token::Ne | Token::Lt | Token::Lte | Token::Gt | Token::Gte | Token::Ident("in"))
            });
            if !symbol {
                if !self.skip_ident("not") {
                    return Ok(());
                }
                self.expect(|token| matches!(token, Token::Ident("in")))?;
            }
            self.sum()?;
        }
    }

    fn sum(&mut self) -> Step {
        let start = self.start()?;
        self.concatenation()?;
        loop {
            if self.skip_if(|token| matches!(token, Token::Plus)) {
                self.concatenation()?;
                self.wrap("sum", start);
            } else if self.skip_if(|token| matches!(token, Token::Minus)) {
                self.concatenation()?;
            } else {
                return Ok(());
            }
        }
    }

    fn concatenation(&mut self) -> Step {
        let start = self.start()?;
        self.product()?;
        while matches!(self.token(), Some(Token::Tilde)) {
            self.operator_to_comma()?;
            self.product()?;
            self.wrap("cat", start);
        }
        Ok(())
    }

    fn product(&mut self) -> Step {
        let start = self.start()?;
        self.power()?;
        loop {
            if matches!(self.token(), Some(Token::Mul)) {
                self.operator_to_comma()?;
                self.power()?;
                self.wrap("mul", start);
            } else if self.skip_if(|token| matches!(token, Token::Div | Token::FloorDiv | Token::Mod)) {
                self.power()?;
            } else {
                return Ok(());
            }
        }
    }

    fn operator_to_comma(&mut self) -> Step {
        let offset = self.start()?;
        self.edits.push(Edit { offset, place: Place::Replace, text: ",".to_owned() });
        self.at += 1;
        Ok(())
    }

    fn power(&mut self) -> Step {
        self.unary()?;
        while self.skip_if(|token| matches!(token, Token::Pow)) {
            self.unary()?;
        }
        Ok(())
    }

    fn unary(&mut self) -> Step {
        self.operand()?;
        loop {
            if self.skip_if(|token| matches!(token, Token::Pipe)) {
                self.dotted_name()?;
                if matches!(self.token(), Some(Token::ParenOpen)) {
                    self.arguments()?;
                }
            } else if self.skip_ident("is") {
                self.skip_ident("not");
                self.dotted_name()?;
                if matches!(self.token(), Some(Token::ParenOpen)) {
                    self.arguments()?;
                } else if self.is_test_operand() {
                    self.operand()?;
                }
            } else {
                return Ok(());
            }
        }
    }

    /// `x is divisibleby 3`: whether the next token is the `3`.
    fn is_test_operand(&self) -> bool {
        match self.token() {
            Some(Token::Ident(name)) => !matches!(*name, "and" | "or" | "else" | "is"),
            Some(token) => matches!(
                token,
                Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) | Token::Plus
                    | Token::Minus | Token::BracketOpen | Token::BraceOpen
            ),
            None => false,
        }
    }

    fn operand(&mut self) -> Step {
        while self.skip_if(|token| matches!(token, Token::Minus)) {}
        let start = self.start()?;
        let bare = std::mem::take(&mut self.bare);
        self.primary()?;
        loop {
            match self.token() {
                Some(Token::Dot) => {
                    self.at += 1;
                    self.expect(|token| matches!(token, Token::Ident(_) | Token::Int(_) | Token::Int128(_)))?;
                }
                Some(Token::BracketOpen) => {
                    self.at += 1;
                    if self.subscript()? {
                        self.wrap("hold", start);
                    }
                }
                Some(Token::ParenOpen) => {
                    self.arguments()?;
                    if !bare {
                        self.wrap("call", start);
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// After `[`: true for a slice.
    fn subscript(&mut self) -> Result<bool, Error> {
        let mut slice = false;
        while !self.skip_if(|token| matches!(token, Token::BracketClose)) {
            if self.skip_if(|token| matches!(token, Token::Colon)) {
                slice = true;
            } else {
                self.expr()?;
            }
        }
        Ok(slice)
    }

    fn primary(&mut self) -> Step {
        let start = self.start()?;
        let close: fn(&Token<'_>) -> bool = match self.token() {
            Some(Token::Str(_) | Token::String(_)) => {
                while self.skip_if(|token| matches!(token, Token::Str(_) | Token::String(_))) {}
                return Ok(());
            }
            Some(Token::Ident(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_)) => {
                self.at += 1;
                return Ok(());
            }
            Some(Token::ParenOpen) => |token| matches!(token, Token::ParenClose),
            Some(Token::BracketOpen) => |token| matches!(token, Token::BracketClose),
            Some(Token::BraceOpen) => |token| matches!(token, Token::BraceClose),
            _ => return Err(self.odd()),
        };
        let group = matches!(self.token(), Some(Token::ParenOpen));
        self.at += 1;
        let mut literal = !group;
        let mut empty = true;
        while !self.skip_if(close) {
            empty = false;
            self.expr()?;
            // Both separators end an item; the engine has checked which one belongs where.
            literal |= self.skip_if(|token| matches!(token, Token::Comma | Token::Colon));
        }
        if literal && !empty {
            self.wrap("hold", start);
        }
        Ok(())
    }

    fn arguments(&mut self) -> Step {
        self.expect(|token| matches!(token, Token::ParenOpen))?;
        let bare = std::mem::take(&mut self.bare);
        while !self.skip_if(|token| matches!(token, Token::ParenClose)) {
            self.skip_if(|token| matches!(token, Token::Comma));
            if matches!(self.token(), Some(Token::ParenClose)) {
                continue;
            }
            self.skip_if(|token| matches!(token, Token::Mul | Token::Pow));
            if self.ident().is_some() && matches!(self.tokens.get(self.at + 1), Some((Token::Assign, _))) {
                self.at += 2;
            }
            self.expr()?;
        }
        self.bare = bare;
        Ok(())
    }
}

/// Takes the names of the guards out of an error message.
pub(super) fn hide(message: &str) -> Cow<'_, str> {
    if message.contains(PREFIX) { Cow::Owned(message.replace(PREFIX, "")) } else { Cow::Borrowed(message) }
}
