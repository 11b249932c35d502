//! Many mutations in one build: each changed function has its broken bodies
//! beside its own, and the environment says which of them runs.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use proc_macro2::Span;
use syn::{Block, ImplItem, Item, ReturnType, Signature, TraitItem, Type};

use crate::{catalogue::Mutation, suite::VARIABLE};

/// `original` with all `mutations` of it in it, each asleep until [`VARIABLE`]
/// names it; and those that cannot be put to sleep.
pub fn all_of<'a>(
    original: &str,
    mutations: &[&'a Mutation],
) -> anyhow::Result<(String, Vec<&'a Mutation>)> {
    let bodies = bodies(original)?;
    let mut broken: Vec<Vec<(&str, String)>> = vec![Vec::new(); bodies.len()];
    let mut left = Vec::new();
    for mutation in mutations {
        let text = mutation.apply(original)?;
        match changed(original, &bodies, &text).context(mutation.name)? {
            Some(changed) => {
                for (body, text) in changed {
                    broken[body].push((mutation.name, text));
                }
            }
            None => left.push(*mutation),
        }
    }
    let mut text = original.to_owned();
    // From the end, so that places before stay where they are.
    for (body, broken) in bodies.iter().zip(broken).rev() {
        if broken.is_empty() {
            continue;
        }
        let mut switched = String::from("{ ");
        for (name, broken) in broken {
            switched.extend(["if ", &is_on(name), " ", &broken, " else "]);
        }
        switched.push_str(&original[body.place.clone()]);
        switched.push_str(" }");
        text.replace_range(body.place.clone(), &switched);
    }
    Ok((text, left))
}

/// An expression that is true when the mutation is to be carried out.
fn is_on(name: &str) -> String {
    format!(
        "{{ static ON: ::std::sync::LazyLock<bool> = ::std::sync::LazyLock::new(|| \
         ::std::env::var({VARIABLE:?}).is_ok_and(|name| name == {name:?})); *ON }}"
    )
}

/// The bodies in which `text` differs, by their number; none if it differs
/// elsewhere, or in a function that can have only one body.
fn changed(
    original: &str,
    bodies: &[Body],
    text: &str,
) -> anyhow::Result<Option<Vec<(usize, String)>>> {
    let others = self::bodies(text)?;
    if others.len() != bodies.len() || outside(original, bodies) != outside(text, &others) {
        return Ok(None);
    }
    let changed: Vec<(usize, String)> = bodies
        .iter()
        .zip(&others)
        .enumerate()
        .filter(|(_, (one, other))| original[one.place.clone()] != text[other.place.clone()])
        .map(|(number, (_, other))| (number, text[other.place.clone()].to_owned()))
        .collect();
    ensure!(!changed.is_empty(), "nothing is changed");
    let can_have_two = changed.iter().all(|(number, _)| bodies[*number].is_plain);
    Ok(can_have_two.then_some(changed))
}

/// What is no function's body.
fn outside(text: &str, bodies: &[Body]) -> String {
    let mut from = 0;
    let mut outside = String::new();
    for body in bodies {
        outside.push_str(&text[from..body.place.start]);
        from = body.place.end;
    }
    outside + &text[from..]
}

/// The body of a function that is in no other.
#[derive(Debug)]
struct Body {
    /// From its opening brace to behind its closing one.
    place: Range<usize>,
    /// Whether another body can stand beside it: what is returned must be of a
    /// type that has a name.
    is_plain: bool,
}

fn bodies(text: &str) -> anyhow::Result<Vec<Body>> {
    let file = syn::parse_file(text).context("parse the file")?;
    let mut bodies = Vec::new();
    of_items(&file.items, &mut bodies);
    bodies.sort_by_key(|body| body.place.start);
    Ok(bodies)
}

fn of_items(items: &[Item], bodies: &mut Vec<Body>) {
    for item in items {
        match item {
            Item::Fn(item) => bodies.push(body(&item.sig, &item.block)),
            Item::Impl(item) => bodies.extend(item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(method) => Some(body(&method.sig, &method.block)),
                _ => None,
            })),
            Item::Trait(item) => bodies.extend(item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(method) => Some(body(&method.sig, method.default.as_ref()?)),
                _ => None,
            })),
            Item::Mod(module) => {
                let items = module.content.iter().map(|(_, items)| items);
                items.for_each(|items| of_items(items, bodies));
            }
            _ => {}
        }
    }
}

fn body(signature: &Signature, block: &Block) -> Body {
    let braces = block.brace_token.span;
    let at = |span: Span| span.byte_range();
    let is_named = match &signature.output {
        ReturnType::Default => true,
        ReturnType::Type(_, returned) => !matches!(**returned, Type::ImplTrait(_)),
    };
    Body {
        place: at(braces.open()).start..at(braces.close()).end,
        is_plain: is_named && signature.constness.is_none(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::suite::Suite;

    fn mutation(name: &'static str, edits: &'static [(&str, &str)]) -> Mutation {
        Mutation {
            name,
            what: "",
            file: "",
            edits,
            first: (Suite::Lib, ""),
        }
    }

    const CODE: &str = "const N: u8 = 1;
impl A { fn a(&self) -> u8 { let é = N; é } }
fn b() -> impl Iterator { [2].into_iter() }
mod m { async fn c() { d(3).await } }
";

    #[test]
    fn a_function_gets_its_broken_bodies_beside_its_own() {
        let one = mutation("one", &[("let é = N; é", "7")]);
        let two = mutation("two", &[("; é }", "; é + 1 }"), ("d(3)", "d(4)")]);
        let (text, left) = all_of(CODE, &[&one, &two]).unwrap();
        assert!(left.is_empty());
        syn::parse_file(&text).unwrap();
        assert!(text.contains("{ 7 } else if"), "{text}");
        assert!(text.contains("{ let é = N; é + 1 } else { let é = N; é } }"));
        assert!(text.contains("{ d(4).await } else { d(3).await } }"));
        // Those that change nothing here are not heard of here.
        assert_eq!(text.matches("\"two\"").count(), 2);
    }

    #[test]
    fn what_cannot_be_switched_is_told() {
        let outside = mutation("outside", &[("= 1;", "= 2;")]);
        let unnamed = mutation("unnamed", &[("[2]", "[3]")]);
        let (text, left) = all_of(CODE, &[&outside, &unnamed]).unwrap();
        assert_eq!(text, CODE);
        let left: Vec<_> = left.into_iter().map(|it| it.name).collect();
        assert_eq!(left, ["outside", "unnamed"]);
    }
}
