//! The grammar of expressions, from the loosest binding to the tightest.

use minijinja::machinery::Token;

use super::{Edit, PREFIX, Place, Step, Walk};

impl Walk<'_> {
    pub(super) fn expr(&mut self) -> Step {
        self.or()?;
        while self.skip_ident("if") {
            self.or()?;
            if self.skip_ident("else") {
                self.expr()?;
            }
        }
        Ok(())
    }

    pub(super) fn or(&mut self) -> Step {
        loop {
            while self.skip_ident("not") {}
            self.compare()?;
            if !self.skip_ident("or") && !self.skip_ident("and") {
                return Ok(());
            }
        }
    }

    pub(super) fn compare(&mut self) -> Step {
        let first = self.at;
        self.sum()?;
        let mut operand = first;
        loop {
            let end = self.at;
            let symbol = self.skip_if(|token| {
                matches!(
                    token,
                    Token::Eq
                        | Token::Ne
                        | Token::Lt
                        | Token::Lte
                        | Token::Gt
                        | Token::Gte
                        | Token::Ident("in")
                )
            });
            if !symbol {
                if !self.skip_ident("not") {
                    break;
                }
                self.expect(|token| matches!(token, Token::Ident("in")))?;
            }
            self.look(operand, end);
            operand = self.at;
            self.sum()?;
        }
        if operand != first {
            self.look(operand, self.at);
        }
        Ok(())
    }

    /// Comparing and looking up read all of an operand, and are one instruction whatever its size.
    pub(super) fn look(&mut self, from: usize, to: usize) {
        let (Some((token, first)), Some((_, last))) = (self.tokens.get(from), self.tokens.get(to - 1)) else {
            return;
        };
        let literal = matches!(token, Token::Str(_) | Token::Int(_) | Token::Float(_));
        if to - from == 1 && literal {
            return;
        }
        let (start, end) = (first.start_offset as usize, last.end_offset as usize);
        self.edits.extend([
            Edit { offset: end, of: start, place: Place::Close, text: format!(")|{PREFIX}look") },
            Edit { offset: start, of: start, place: Place::Open, text: "(".to_owned() },
        ]);
    }

    pub(super) fn sum(&mut self) -> Step {
        let start = self.start()?;
        self.concatenation()?;
        loop {
            if self.skip_if(|token| matches!(token, Token::Plus)) {
                self.concatenation()?;
                self.wrap(start, format!(")|{PREFIX}sum"));
            } else if self.skip_if(|token| matches!(token, Token::Minus)) {
                self.concatenation()?;
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn concatenation(&mut self) -> Step {
        let start = self.start()?;
        self.product()?;
        let mut parts = 1;
        while matches!(self.token(), Some(Token::Tilde)) {
            // All parts at once, so that nothing is made on the way.
            let text = if parts == 1 { format!(")|{PREFIX}cat(") } else { ",".to_owned() };
            self.replace_operator(start, text)?;
            self.product()?;
            parts += 1;
        }
        if parts > 1 {
            self.wrap(start, ")".to_owned());
        }
        Ok(())
    }

    pub(super) fn product(&mut self) -> Step {
        let start = self.start()?;
        self.power()?;
        loop {
            if matches!(self.token(), Some(Token::Mul)) {
                self.replace_operator(start, format!(")|{PREFIX}mul("))?;
                self.power()?;
                self.wrap(start, ")".to_owned());
            } else if self.skip_if(|token| matches!(token, Token::Div | Token::FloorDiv | Token::Mod)) {
                self.power()?;
            } else {
                return Ok(());
            }
        }
    }

    fn replace_operator(&mut self, of: usize, text: String) -> Step {
        let offset = self.start()?;
        self.edits.push(Edit { offset, of, place: Place::Replace, text });
        self.at += 1;
        Ok(())
    }

    pub(super) fn power(&mut self) -> Step {
        self.unary()?;
        while self.skip_if(|token| matches!(token, Token::Pow)) {
            self.unary()?;
        }
        Ok(())
    }

    pub(super) fn unary(&mut self) -> Step {
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
    pub(super) fn is_test_operand(&self) -> bool {
        match self.token() {
            Some(Token::Ident(name)) => !matches!(*name, "and" | "or" | "else" | "is"),
            Some(token) => matches!(
                token,
                Token::Str(_)
                    | Token::String(_)
                    | Token::Int(_)
                    | Token::Int128(_)
                    | Token::Float(_)
                    | Token::Plus
                    | Token::Minus
                    | Token::BracketOpen
                    | Token::BraceOpen
            ),
            None => false,
        }
    }

    pub(super) fn operand(&mut self) -> Step {
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
                Some(Token::BracketOpen) => self.subscript(start)?,
                Some(Token::ParenOpen) => {
                    self.arguments()?;
                    if !bare {
                        self.wrap(start, format!("|{PREFIX}call)"));
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// `x[i]` stays, `x[a:b:c]` becomes a filter with the arguments `a, b, c`, with `none` for what is left out: the
    /// engine's own slices stay lazy, and panic on some bounds.
    pub(super) fn subscript(&mut self, start: usize) -> Step {
        let open = self.start()?;
        self.at += 1;
        let mut slice = false;
        let mut empty = true;
        loop {
            let offset = self.start()?;
            let (separator, text) = match self.token() {
                Some(Token::Colon) => (true, ","),
                Some(Token::BracketClose) => (false, "))"),
                _ => {
                    let from = self.at;
                    self.expr()?;
                    self.look(from, self.at);
                    empty = false;
                    continue;
                }
            };
            self.at += 1;
            slice |= separator;
            if !slice {
                return Ok(());
            }
            if empty {
                self.edits.push(Edit { offset, of: start, place: Place::Close, text: "none".to_owned() });
            }
            self.edits.push(Edit { offset, of: start, place: Place::Replace, text: text.to_owned() });
            empty = true;
            if !separator {
                break;
            }
        }
        let call = format!("|{PREFIX}slice(");
        self.edits.push(Edit { offset: open, of: start, place: Place::Replace, text: call });
        self.edits.push(Edit { offset: start, of: start, place: Place::Open, text: "(".to_owned() });
        Ok(())
    }

    pub(super) fn primary(&mut self) -> Step {
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
            self.wrap(start, format!("|{PREFIX}hold)"));
        }
        Ok(())
    }

    pub(super) fn arguments(&mut self) -> Step {
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
