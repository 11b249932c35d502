//! SSH public keys as they stand in an `authorized_keys` file: whether one can log in.

use ssh_key::public::KeyData;

/// Least bits of an RSA key that logs in, as with OpenSSH.
pub const LEAST_RSA_BITS: u32 = 1024;
/// Least bits of an RSA key that people should have today (NIST SP 800-57).
pub const GOOD_RSA_BITS: u32 = 2048;
/// Most bits of an RSA key by which anything is verified.
const MOST_RSA_BITS: u32 = 8192;

/// The types of keys that log in.
const TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// A key that can log in.
///
/// ```
/// use kite_core::public_key::{PublicKey, PublicKeyError};
///
/// let text = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut";
/// let key = PublicKey::parse(&format!(" {text}  ann@laptop "))?;
/// assert_eq!(key.as_str(), format!("{text} ann@laptop"));
/// assert!(matches!(PublicKey::parse(""), Err(PublicKeyError::Empty)));
/// # Ok::<(), PublicKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    line: String,
    /// Where the key begins in it, behind its options.
    key_at: usize,
    rsa_bits: Option<u32>,
    presence: Presence,
}

/// What a token that keeps a key has to say of the moment of signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Somebody has touched it.
    pub touched: bool,
    /// Somebody has given it a PIN or a finger.
    pub verified: bool,
}

impl Default for Presence {
    /// That it was touched, as with OpenSSH.
    fn default() -> Self {
        Self {
            touched: true,
            verified: false,
        }
    }
}

/// Why a text is no key that can log in. Each says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// There is nothing.
    #[error("is empty: write a public key such as \"ssh-ed25519 AAAA… ann@laptop\"")]
    Empty,
    /// There is more than one line.
    #[error("has {0} lines: write each key by itself, in one line")]
    Lines(usize),
    /// It is, or contains, a private key.
    #[error(
        "is not a public key but what has to stay secret: write the content of the file that ends \
         in .pub, and make a new key, as this one has been sent"
    )]
    Private,
    /// Another format, as from `PuTTY` or `ssh-keygen -e`.
    #[error(
        "is a key in another format: write it in OpenSSH's, which \"ssh-keygen -i\" or PuTTYgen \
         shows and which begins with its type, such as ssh-ed25519"
    )]
    Format,
    /// The first word is not a type of keys that log in.
    #[error("begins with {word:?}, which is no type of key that can log in: write one of {types}")]
    Type {
        /// The word.
        word: String,
        /// Those that do.
        types: String,
    },
    /// Something stands before the key that means nothing here, and may be meant to keep
    /// somebody out.
    #[error(
        "has {option:?} before its type, which is not supported: of options only \
         verify-required and no-touch-required are, once each, before keys of users whose type \
         begins with sk-"
    )]
    Option {
        /// The option.
        option: String,
    },
    /// There is only a type.
    #[error("has only the key's type: write the whole line")]
    OnlyType,
    /// What comes after the type is no key of that type: it lacks something, or has
    /// something that does not belong to it.
    #[error("is not a whole key of type {0}: write the whole line, from its type to its end")]
    Broken(String),
    /// The key is of another type than the line says.
    #[error("says {said} and is a key of type {is}: write the line as it stands in the file")]
    OtherType {
        /// What the line says.
        said: String,
        /// What the key is.
        is: String,
    },
    /// An RSA key that is too short to be safe, or longer than anybody reads.
    #[error(
        "is an RSA key of {0} bits, and it has to have {GOOD_RSA_BITS} to {MOST_RSA_BITS}: write \
         another key, best of type ssh-ed25519"
    )]
    Size(u32),
}

impl PublicKey {
    /// Reads a key. White space around and between its parts does not matter.
    ///
    /// # Errors
    /// A [`PublicKeyError`] that says what else the text is, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, PublicKeyError> {
        let text = text.trim();
        if text.contains("PRIVATE KEY") {
            return Err(PublicKeyError::Private);
        }
        if text.starts_with("---") || text.starts_with("PuTTY-") {
            return Err(PublicKeyError::Format);
        }
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        match lines {
            0 => return Err(PublicKeyError::Empty),
            1 => {}
            several => return Err(PublicKeyError::Lines(several)),
        }
        let (options, text) = options(text)?;
        let (type_, rest) = word(text);
        if !TYPES.contains(&type_) {
            return Err(PublicKeyError::Type {
                word: type_.chars().take(64).collect(),
                types: TYPES.join(", "),
            });
        }
        let (data, comment) = word(rest);
        if data.is_empty() {
            return Err(PublicKeyError::OnlyType);
        }
        let broken = || PublicKeyError::Broken(type_.to_owned());
        let is = type_of(data).ok_or_else(broken)?;
        if is != type_ {
            return Err(PublicKeyError::OtherType {
                said: type_.to_owned(),
                is,
            });
        }
        // Control characters would be the terminal's of whoever looks at the key.
        let comment: String = comment
            .chars()
            .map(|it| if it.is_control() { ' ' } else { it })
            .collect();
        let bare = format!("{type_} {data} {comment}").trim_end().to_owned();
        let key = ssh_key::PublicKey::from_openssh(&bare).map_err(|_| broken())?;
        let rsa_bits = match key.key_data() {
            KeyData::Rsa(key) => Some(bits(key.n().as_positive_bytes().unwrap_or_default())),
            _ => None,
        };
        let (line, presence) = match options {
            None => (bare.clone(), Presence::default()),
            Some((words, presence)) if type_.starts_with("sk-") => {
                (format!("{words} {bare}"), presence)
            }
            Some((words, _)) => {
                return Err(PublicKeyError::Option {
                    option: words.to_owned(),
                });
            }
        };
        let key = Self {
            key_at: line.len() - bare.len(),
            line,
            rsa_bits,
            presence,
        };
        key.at_least(LEAST_RSA_BITS)
    }

    /// Reads a key that somebody begins to use now, so that one may ask for more.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse), and [`PublicKeyError::Size`] for an RSA key below
    /// [`GOOD_RSA_BITS`].
    pub fn parse_new(text: &str) -> Result<Self, PublicKeyError> {
        Self::parse(text)?.at_least(GOOD_RSA_BITS)
    }

    fn at_least(self, least: u32) -> Result<Self, PublicKeyError> {
        match self.rsa_bits {
            Some(bits) if !(least..=MOST_RSA_BITS).contains(&bits) => {
                Err(PublicKeyError::Size(bits))
            }
            _ => Ok(self),
        }
    }

    /// The key in one line with its options, its parts divided by one space.
    pub fn as_str(&self) -> &str {
        &self.line
    }

    /// The same without options.
    pub fn key(&self) -> &str {
        self.line.get(self.key_at..).unwrap_or_default()
    }

    /// It, where options mean nothing.
    ///
    /// # Errors
    /// [`PublicKeyError::Option`] if it has some.
    pub fn without_options(self) -> Result<Self, PublicKeyError> {
        match self.line.get(..self.key_at).map(str::trim_end) {
            Some(option) if !option.is_empty() => Err(PublicKeyError::Option {
                option: option.to_owned(),
            }),
            _ => Ok(self),
        }
    }

    /// What its options ask of the token that keeps it; without meaning for other keys.
    pub fn presence(&self) -> Presence {
        self.presence
    }

    /// The line without what its owner calls the key.
    fn unnamed(&self) -> &str {
        let name = word(word(self.key()).1).1.len();
        let end = self.line.len() - name;
        self.line.get(..end).unwrap_or(&self.line).trim_end()
    }
}

/// A line without what its owner calls the key, as that can be changed: by it one tells
/// whether two lines are the same key. Of what is no key, its first two words.
pub fn unnamed(line: &str) -> String {
    if let Ok(key) = PublicKey::parse(line) {
        return key.unnamed().to_owned();
    }
    let words: Vec<_> = line.split_whitespace().take(2).collect();
    words.join(" ")
}

/// Options of a key, and what they ask for.
type Options<'a> = (&'a str, Presence);

/// What of a text stands before a key, if something does; and the key.
fn options(text: &str) -> Result<(Option<Options<'_>>, &str), PublicKeyError> {
    let (first, rest) = word(text);
    let is_type = |word: &str| TYPES.contains(&word);
    // Options may have spaces within quotes: what has a type behind them begins with some.
    if is_type(first) || !rest.split_whitespace().any(is_type) {
        return Ok((None, text));
    }
    let mut presence = Presence::default();
    for option in first.split(',') {
        match option {
            "verify-required" if !presence.verified => presence.verified = true,
            "no-touch-required" if presence.touched => presence.touched = false,
            other => {
                let option = other.chars().take(64).collect();
                return Err(PublicKeyError::Option { option });
            }
        }
    }
    Ok((Some((first, presence)), rest))
}

/// The first word of a text without space before it, and what comes after it.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// The type that a key says itself that it is of.
fn type_of(data: &str) -> Option<String> {
    use ssh_key::encoding::{Base64Reader, Decode as _};
    let mut reader = Base64Reader::new(data.as_bytes()).ok()?;
    let text = String::decode(&mut reader).ok()?;
    let is_name = |it: char| it.is_ascii_graphic();
    (text.len() <= 64 && text.chars().all(is_name)).then_some(text)
}

/// The bits of a number.
fn bits(bytes: &[u8]) -> u32 {
    let all = u32::try_from(bytes.len()).map_or(u32::MAX, |it| it.saturating_mul(8));
    all.saturating_sub(bytes.first().map_or(0, |it| it.leading_zeros()))
}

#[cfg(test)]
#[path = "public_key_tests.rs"]
mod tests;
