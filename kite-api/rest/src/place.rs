//! Places inside of a body, such as `quota.cpu` or `sshPublicKeys[1]`: what is wrong there
//! is taken out before the API server is shown the rest.

use std::collections::BTreeSet;

use serde_json::Value;

/// The field of which `sshPublicKeys[1]` or `quota.cpu` is a part.
pub fn base(place: &str) -> &str {
    place.split(['[', '.']).next().unwrap_or(place)
}

/// Whether a place is another, or inside of it.
pub(super) fn is_within(place: &str, other: &str) -> bool {
    let rest = place.strip_prefix(other).filter(|_| !other.is_empty());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}

/// The outermost list that a place is in, and the number of the item.
fn item(place: &str) -> Option<(&str, usize, &str)> {
    let (list, rest) = place.split_once('[')?;
    let (n, rest) = rest.split_once(']')?;
    Some((list, n.parse().ok()?, rest))
}

/// Takes what stands at `wrong` places out of the value of the field `name`; of lists
/// whole items. `None` if nothing is left.
pub(super) fn without<'a>(
    mut value: Value,
    name: &str,
    wrong: impl Iterator<Item = &'a str>,
) -> Option<Value> {
    // The last items first, for the others would be other ones.
    let mut items = BTreeSet::new();
    for place in wrong.filter(|place| base(place) == name) {
        if let Some((list, n, _)) = item(place) {
            items.insert((n, list));
        } else {
            let inner = place[name.len()..].strip_prefix('.')?;
            let (above, last) = inner.rsplit_once('.').unwrap_or(("", inner));
            let above = find(&mut value, above)?;
            // What is missing makes no sense of the rest.
            above.as_object_mut()?.remove(last)?;
        }
    }
    for (n, list) in items.into_iter().rev() {
        let inner = list[name.len()..].trim_start_matches('.');
        let list = find(&mut value, inner)?.as_array_mut()?;
        if n < list.len() {
            list.remove(n);
        }
        // That a list may be empty is not what was asked for.
        if list.is_empty() {
            return None;
        }
    }
    Some(value)
}

fn find<'a>(value: &'a mut Value, place: &str) -> Option<&'a mut Value> {
    let mut names = place.split('.').filter(|name| !name.is_empty());
    names.try_fold(value, |inner, name| inner.get_mut(name))
}

/// Where a place of a value [`without`] what is wrong was before.
pub(super) fn before<'a>(place: &str, wrong: impl Iterator<Item = &'a str>) -> String {
    let Some((list, n, rest)) = item(place) else {
        return place.to_owned();
    };
    let taken = wrong.filter_map(item).filter(|(it, ..)| *it == list);
    let taken: BTreeSet<_> = taken.map(|(_, n, _)| n).collect();
    let n = (0..).filter(|it| !taken.contains(it)).nth(n).unwrap_or(n);
    format!("{list}[{n}]{rest}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_taken_out_and_the_rest_found_again() {
        let of = |value: Value, wrong: &[&str]| without(value, "it", wrong.iter().copied());
        let quota = json!({"cpu": "x", "vms": 1, "of": {"a": 1, "b": 2}});
        let rest = json!({"vms": 1, "of": {"b": 2}});
        assert_eq!(of(quota, &["it.cpu", "it.of.a", "other.b"]), Some(rest));
        assert_eq!(of(json!(1), &["it"]), None);
        assert_eq!(of(json!({"cpu": 1}), &["it.vms"]), None);

        let wrong = ["it[1]", "it[3].x", "it[3].y", "other[0]"];
        assert_eq!(of(json!([0, 1, 2, 3, 4]), &wrong), Some(json!([0, 2, 4])));
        for (place, was) in [
            ("it[0].z", "it[0].z"),
            ("it[1]", "it[2]"),
            ("it[2]", "it[4]"),
        ] {
            assert_eq!(before(place, wrong.into_iter()), was);
        }
        assert_eq!(of(json!([0]), &["it[0]"]), None);
        let inner = json!({"list": [1, 2]});
        assert_eq!(of(inner, &["it.list[0]"]), Some(json!({"list": [2]})));
        assert_eq!(
            before("it.list[0]", ["it.list[0]"].into_iter()),
            "it.list[1]"
        );
        assert_eq!(before("it", wrong.into_iter()), "it");
    }
}
