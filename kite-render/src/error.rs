//! Why an object could not be rendered.

use kite_core::crd::OsFamily;

/// Why an object could not be rendered. Each is permanent: only an edit helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// An object as it comes from the API server always has this field.
    #[error("{kind} {name:?} has no {field}: render from an object that was read from the cluster")]
    Missing {
        /// Kind of the object.
        kind: &'static str,
        /// Its name, as far as it has one.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// A name from which no valid names can be derived.
    #[error(
        "metadata.name {name:?} of {kind} cannot be used: choose at most {most} lower-case \
         letters, digits and dashes, beginning and ending with a letter or digit"
    )]
    Name {
        /// Kind of the object.
        kind: &'static str,
        /// The name.
        name: String,
        /// Most characters.
        most: usize,
    },
    /// What sets up guests of this family is not cloud-init.
    #[error("guests of the family {0:?} are not set up by cloud-init")]
    NotCloudInit(OsFamily),
    /// A login name that guests of this family cannot have.
    #[error(
        "spec.sshId {ssh_id:?} cannot be the name of a user of {os:?}, which {problem}: create \
         the VM with another sshId"
    )]
    LoginName {
        /// Family of the guest.
        os: OsFamily,
        /// The name.
        ssh_id: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A key Secret lacks a part or holds something that is no key.
    #[error(
        "Secret {secret}: key {key:?} {problem}; delete the Secret to have new keys made (the \
         guest learns them when it is made anew)"
    )]
    KeySecret {
        /// Namespace and name of the Secret.
        secret: String,
        /// The key in its data.
        key: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// User data could not be written as YAML.
    #[error("cloud-init user data: {0}")]
    Yaml(String),
}
