//! Source that is too much for the engine is refused before the engine sees it.
//!
//! The engine bounds how deep brackets and blocks nest, but its parser and compiler also recurse along chains
//! (`a.b.c`, `x | f | g`, `not not x`, `1 if 1 else 1 if ..`, `elif`), and the end of the stack ends the process.
//! Compiled, a tag takes many times the memory of its text.

use minijinja::Error;
use minijinja::machinery::{Span, Token, tokenize};

use super::{Refused, refused};
use crate::pack::render::budget::Budget;

/// Bytes of one template.
pub(in crate::pack::render) const SOURCE: usize = 1 << 20;
/// Tokens of one tag. The stack of the render thread bears chains of 200,000.
const TAG: usize = 2_000;
/// `elif` of all `if` that are open at one place. The stack bears 300,000.
const BRANCHES: usize = 5_000;

pub(super) struct Tokens<'s> {
    pub(super) list: Vec<(Token<'s>, Span)>,
    /// The mistake that ended them. The parser meets it too, and words it better.
    pub(super) broken: Option<Error>,
}

/// The tokens of a template that is small enough, paid for.
pub(super) fn tokens<'s>(source: &'s str, budget: &Budget) -> Result<Tokens<'s>, Refused> {
    if source.len() > SOURCE {
        return Err(budget.over(format!("a template is larger than {} MiB", SOURCE >> 20)).into());
    }
    let mut list: Vec<(Token<'s>, Span)> = Vec::new();
    let mut tag = 0;
    // For each open `if` its `elif` so far, and their sum.
    let mut ifs: Vec<usize> = Vec::new();
    let mut branches = 0;
    for token in tokenize(source, false, Default::default()) {
        let (token, span) = match token {
            Ok(token) => token,
            Err(error) => return Ok(Tokens { list, broken: Some(error) }),
        };
        if let (Some((Token::BlockStart, _)), Token::Ident(name)) = (list.last(), &token) {
            match *name {
                "if" => ifs.push(0),
                "elif" => {
                    branches += 1;
                    ifs.last_mut().into_iter().for_each(|own| *own += 1);
                }
                "endif" => branches -= ifs.pop().unwrap_or(0).min(branches),
                _ => {}
            }
        }
        if branches > BRANCHES {
            return Err(refused(&span, "there are more than 5000 `elif` in one place"));
        }
        tag = match token {
            Token::VariableStart | Token::BlockStart | Token::TemplateData(_) => 0,
            _ => tag + 1,
        };
        if tag > TAG {
            return Err(refused(&span, "one tag is longer than 2000 words and signs"));
        }
        budget.token()?;
        list.push((token, span));
    }
    Ok(Tokens { list, broken: None })
}
