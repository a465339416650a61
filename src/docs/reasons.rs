//! `reasons.md`: each reason with its cause and the way out. Reasons of errors are read from the `error.rs` of each folder.

use std::collections::BTreeMap;
use std::fs;

use syn::{Expr, ExprLit, ImplItem, Item, Lit, Pat};

use super::{Constant, constants, prose, root};
use crate::cli::way_out;

/// Folders with errors of their own.
const ERRORS: [&str; 7] =
    ["manifest", "pack", "pack/render", "source", "storage", "cluster", "reconcile/context"];

/// The reasons of `api/reasons.rs`.
fn known() -> Vec<Constant> {
    let text = fs::read_to_string(root().join("src/api/reasons.rs")).unwrap();
    // The types of conditions stand before.
    let (_, reasons) = text.split_once("// ---- work").unwrap();
    constants(reasons)
}

fn doc_of(attributes: &[syn::Attribute]) -> String {
    let lines =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| {
            let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
            let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
            Some(text.value())
        });
    prose(&lines.collect::<Vec<_>>().join(" "))
}

/// What a variant is said to be: its doc comment, or else its message.
fn text_of(variant: &syn::Variant) -> String {
    let doc = doc_of(&variant.attrs);
    let message = || {
        let of = variant.attrs.iter().find(|attribute| attribute.path().is_ident("error"))?;
        let mut tokens = of.meta.require_list().ok()?.tokens.clone().into_iter();
        let text: syn::LitStr = syn::parse_str(&tokens.next()?.to_string()).ok()?;
        Some(format!("`{}`", super::cell(&text.value().replace('`', "'"))))
    };
    if doc.is_empty() { message().unwrap_or_default() } else { doc }
}

/// Variants that a pattern names.
fn variants(pattern: &Pat, found: &mut Vec<String>) {
    let last = |path: &syn::Path| path.segments.last().map(|part| part.ident.to_string());
    match pattern {
        Pat::Or(either) => either.cases.iter().for_each(|case| variants(case, found)),
        Pat::Struct(of) => found.extend(last(&of.path)),
        Pat::TupleStruct(of) => found.extend(last(&of.path)),
        Pat::Path(of) => found.extend(last(&of.path)),
        _ => {}
    }
}

/// The reasons that an expression may give: it is one, or a choice between several.
fn given(expression: &Expr, constants: &[Constant]) -> Vec<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => vec![text.value()],
        Expr::Path(path) => {
            let name = path.path.segments.last().map(|part| part.ident.to_string());
            let found = constants.iter().find(|of| Some(&of.name) == name.as_ref());
            found.map(|of| of.value.clone()).into_iter().collect()
        }
        Expr::Match(table) => table.arms.iter().flat_map(|arm| given(&arm.body, constants)).collect(),
        Expr::Block(block) => match block.block.stmts.last() {
            Some(syn::Stmt::Expr(last, None)) => given(last, constants),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Reasons of the errors of one folder, each with the doc comments of the variants that have it.
fn of_errors(folder: &str, constants: &[Constant], all: &mut BTreeMap<String, Vec<String>>) {
    let file =
        syn::parse_file(&fs::read_to_string(root().join(format!("src/{folder}/error.rs"))).unwrap()).unwrap();
    let mut docs = BTreeMap::new();
    for item in &file.items {
        let Item::Enum(of) = item else { continue };
        docs.extend(of.variants.iter().map(|variant| (variant.ident.to_string(), text_of(variant))));
    }
    for item in &file.items {
        let Item::Impl(block) = item else { continue };
        for method in &block.items {
            let ImplItem::Fn(method) = method else { continue };
            if method.sig.ident != "reason" {
                continue;
            }
            let Some(syn::Stmt::Expr(Expr::Match(table), _)) = method.block.stmts.last() else { continue };
            for arm in &table.arms {
                let mut found = Vec::new();
                variants(&arm.pat, &mut found);
                let texts =
                    found.iter().filter_map(|name| docs.get(name)).filter(|text| !text.is_empty()).cloned();
                let texts: Vec<String> = texts.collect();
                for reason in given(&arm.body, constants) {
                    all.entry(reason).or_default().extend(texts.iter().cloned());
                }
            }
        }
    }
}

pub(super) fn page() -> String {
    let constants = known();
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Constant { value, doc, .. } in &constants {
        all.entry(value.clone()).or_default().push(doc.clone());
    }
    for folder in ERRORS {
        of_errors(folder, &constants, &mut all);
    }
    let mut body = String::from(
        "One word for each cause, the same in the condition, the Event and the label `reason` of the metrics. `sherpack-operator status \
         RELEASE` names the section of a release that is not Ready, and ends with the command that helps next.\n",
    );
    for (reason, mut texts) in all {
        texts.dedup();
        body.push_str(&format!("\n### {reason}\n\n"));
        for text in texts {
            body.push_str(&format!("{text}\n\n"));
        }
        body.push_str(&format!(
            "Way out: {}.\n",
            way_out(&reason).unwrap_or("read the message of the condition")
        ));
    }
    super::page("Reasons", "the constants and errors that carry them", &body)
}
