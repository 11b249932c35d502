//! What was asked for on the command line.

/// What this process is.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The benchmark.
    Main,
    /// The API server with the rest of the cluster, on a socket.
    Server,
    /// Kite's controllers, against the API server at this address.
    Controller(String),
    /// Plain caches of what the controllers watch, from this address.
    Caches(String),
}

impl Role {
    /// The arguments that give a process this role.
    pub fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Main => Vec::new(),
            Self::Server => vec!["--server"],
            Self::Controller(url) => vec!["--controller", url],
            Self::Caches(url) => vec!["--caches", url],
        }
    }
}

pub struct Options {
    pub role: Role,
    pub vms: usize,
    pub users: usize,
    parts: Vec<String>,
}

impl Options {
    pub fn from_arguments() -> Self {
        let mut options = Self {
            role: Role::Main,
            vms: 1000,
            users: 0,
            parts: Vec::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.unwrap_or_else(|| panic!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--vms" => options.vms = value().parse().expect("--vms takes a number"),
                "--users" => options.users = value().parse().expect("--users takes a number"),
                "--server" => options.role = Role::Server,
                "--controller" => options.role = Role::Controller(value()),
                "--caches" => options.role = Role::Caches(value()),
                // Cargo adds it.
                "--bench" => {}
                part if !part.starts_with('-') => options.parts.push(part.to_owned()),
                other => panic!("{other} is no option: see the head of benches/reconcile/main.rs"),
            }
        }
        if options.users == 0 {
            options.users = options.vms.div_ceil(10);
        }
        options
    }

    /// Whether `part` was chosen; all are, if none was named.
    pub fn is_on(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|chosen| chosen == part)
    }
}
