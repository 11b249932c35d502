//! Paths of fields as errors write them: `spec.list[0].name`.

/// The path of a member.
pub(super) fn member(at: &str, name: &str) -> String {
    if at.is_empty() {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    }
}

/// The path of an element.
pub(super) fn element(at: &str, index: usize) -> String {
    format!("{at}[{index}]")
}

/// The path itself; `<nil>` for the object as a whole.
pub(super) fn of(at: &str) -> String {
    if at.is_empty() {
        "<nil>".to_owned()
    } else {
        at.to_owned()
    }
}
