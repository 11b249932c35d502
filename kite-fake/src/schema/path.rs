//! Paths of fields as errors write them: `spec.list[0].name`.

use std::fmt;

/// Where a walk through an object is. A step costs nothing: the text is made
/// for those who have something to tell of the place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    /// The object as a whole.
    Root,
    /// A named member: `spec.name`.
    Member(&'a Path<'a>, &'a str),
    /// An entry of a map, where errors tell entries from members: `labels[name]`.
    Entry(&'a Path<'a>, &'a str),
    /// An element of a list: `list[0]`.
    Element(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The path of a member.
    pub(super) fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// The path of an entry of a map.
    pub(super) fn entry(&'a self, name: &'a str) -> Self {
        Self::Entry(self, name)
    }

    /// The path of an element.
    pub(super) fn element(&'a self, index: usize) -> Self {
        Self::Element(self, index)
    }

    /// Whether this is the object as a whole.
    pub(super) fn is_root(&self) -> bool {
        match self {
            Self::Root => true,
            Self::Member(above, name) => name.is_empty() && above.is_root(),
            Self::Entry(..) | Self::Element(..) => false,
        }
    }

    /// The path itself; `<nil>` for the object as a whole.
    pub(super) fn or_nil(&self) -> String {
        if self.is_root() {
            "<nil>".to_owned()
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(above, name) if above.is_root() => f.write_str(name),
            Self::Member(above, name) => write!(f, "{above}.{name}"),
            Self::Entry(above, name) => write!(f, "{above}[{name}]"),
            Self::Element(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_the_server_writes_them() {
        let spec = Path::Root.member("spec");
        let list = spec.member("list");
        let element = list.element(2);
        let labels = element.member("labels");
        assert_eq!(
            labels.entry("a.b/c").to_string(),
            "spec.list[2].labels[a.b/c]"
        );
        assert_eq!(
            (Path::Root.or_nil(), spec.or_nil()),
            ("<nil>".into(), "spec".into())
        );
    }
}
