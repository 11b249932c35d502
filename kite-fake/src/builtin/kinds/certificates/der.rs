//! The little of DER that the rules for certificates look at: how elements are nested, and
//! the organizations of a subject. A crate for X.509 would cost more crates than the rest of
//! the certificates' rules costs lines.

/// `SEQUENCE`, with the bit that says that it has parts.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The first element of a context of its own: attributes, or a version.
const FIRST: u8 = 0xa0;

/// `2.5.4.10`: the organization in a name.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const TRUNCATED: &str = "asn1: syntax error: data truncated";

/// What one request for a certificate says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The organizations of its subject, which are groups to an API server.
    pub(super) organizations: Vec<String>,
}

/// One element.
#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// Where its content begins in what was read.
    at: usize,
}

/// Elements that follow one another.
struct Reader<'a> {
    rest: &'a [u8],
    read: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            read: 0,
        }
    }

    /// The elements of an element.
    fn within(element: Element<'a>) -> Self {
        Self {
            rest: element.content,
            read: 0,
        }
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> Result<u8, String> {
        let (first, rest) = self
            .rest
            .split_first()
            .ok_or("asn1: syntax error: truncated tag or length")?;
        self.rest = rest;
        self.read += 1;
        Ok(*first)
    }

    /// The next element, whatever it is.
    fn next(&mut self) -> Result<Element<'a>, String> {
        if self.rest.is_empty() {
            return Err("asn1: syntax error: sequence truncated".to_owned());
        }
        let tag = self.byte()?;
        let first = self.byte()?;
        let length = match first {
            0..0x80 => usize::from(first),
            0x80 => {
                return Err("asn1: syntax error: indefinite length found (not DER)".to_owned());
            }
            _ => self.long_length(first & 0x7f)?,
        };
        let (content, rest) = self.rest.split_at_checked(length).ok_or(TRUNCATED)?;
        let element = Element {
            tag,
            content,
            at: self.read,
        };
        self.rest = rest;
        self.read += length;
        Ok(element)
    }

    /// A length of several bytes, which must need them.
    fn long_length(&mut self, bytes: u8) -> Result<usize, String> {
        let mut length: usize = 0;
        for _ in 0..bytes {
            let byte = self.byte()?;
            if length >= 1 << 23 {
                return Err("asn1: structure error: length too large".to_owned());
            }
            length = length << 8 | usize::from(byte);
            if length == 0 {
                return Err("asn1: structure error: superfluous leading zeros in length".to_owned());
            }
        }
        if length < 0x80 {
            return Err("asn1: structure error: non-minimal length".to_owned());
        }
        Ok(length)
    }

    /// The next element, which must have a tag; `kind` is the Go type that would hold it.
    fn expect(&mut self, tag: u8, kind: &str) -> Result<Element<'a>, String> {
        let found = self.next()?;
        if found.tag == tag {
            return Ok(found);
        }
        Err(format!(
            "asn1: structure error: tags don't match ({} vs {{class:{} tag:{} length:{} isCompound:{}}}) \
             {{optional:false explicit:false application:false private:false defaultValue:<nil> \
             tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {kind} @{}",
            tag & 0x1f,
            found.tag >> 6,
            found.tag & 0x1f,
            found.content.len(),
            found.tag & 0x20 != 0,
            found.at,
        ))
    }
}

/// Reads a request for a certificate (PKCS#10).
///
/// # Errors
/// What is wrong with it, as Go's `crypto/x509` says it.
pub(super) fn request(bytes: &[u8]) -> Result<Request, String> {
    let mut outer = Reader::new(bytes);
    let whole = outer.expect(SEQUENCE, "certificateRequest")?;
    if !outer.is_at_end() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    let mut parts = Reader::within(whole);
    let info = parts.expect(SEQUENCE, "tbsCertificateRequest")?;
    let mut info = Reader::within(info);
    info.expect(INTEGER, "int")?;
    let subject = info.next()?;
    key(info.expect(SEQUENCE, "publicKeyInfo")?)?;
    while !info.is_at_end() {
        info.expect(FIRST, "")?;
    }
    algorithm(parts.expect(SEQUENCE, "AlgorithmIdentifier")?)?;
    parts.expect(BIT_STRING, "BitString")?;
    Ok(Request {
        organizations: organizations(subject)?,
    })
}

fn algorithm(found: Element<'_>) -> Result<(), String> {
    Reader::within(found)
        .expect(OBJECT_IDENTIFIER, "ObjectIdentifier")
        .map(|_| ())
}

/// A public key: how it is to be read, and the key.
fn key(found: Element<'_>) -> Result<(), String> {
    let mut parts = Reader::within(found);
    algorithm(parts.expect(SEQUENCE, "AlgorithmIdentifier")?)?;
    parts.expect(BIT_STRING, "BitString").map(|_| ())
}

fn organizations(subject: Element<'_>) -> Result<Vec<String>, String> {
    if subject.tag != SEQUENCE {
        return Err("x509: invalid RDNSequence: invalid attribute".to_owned());
    }
    let mut names = Reader::within(subject);
    let mut found = Vec::new();
    while !names.is_at_end() {
        let mut set = Reader::within(names.expect(SET, "RelativeDistinguishedNameSET")?);
        while !set.is_at_end() {
            let pair = set.expect(SEQUENCE, "AttributeTypeAndValue")?;
            let mut pair = Reader::within(pair);
            let name = pair.expect(OBJECT_IDENTIFIER, "ObjectIdentifier")?;
            let value = pair.next()?;
            if name.content == ORGANIZATION {
                found.push(String::from_utf8_lossy(value.content).into_owned());
            }
        }
    }
    Ok(found)
}

/// Whether bytes have the form of certificates, one after another.
///
/// # Errors
/// What is wrong with them, as Go's `crypto/x509` says it.
pub(super) fn certificates(bytes: &[u8]) -> Result<usize, String> {
    let mut all = Reader::new(bytes);
    let mut count = 0;
    let wrong = |what: &str| format!("x509: malformed {what}");
    while !all.is_at_end() {
        let whole = all.expect(SEQUENCE, "").map_err(|_| wrong("certificate"))?;
        let mut parts = Reader::within(whole);
        let tbs = parts
            .expect(SEQUENCE, "")
            .map_err(|_| wrong("tbs certificate"))?;
        let mut tbs = Reader::within(tbs);
        if tbs.rest.first() == Some(&FIRST) {
            tbs.next().map_err(|_| wrong("version"))?;
        }
        tbs.expect(INTEGER, "")
            .map_err(|_| wrong("serial number"))?;
        tbs.expect(SEQUENCE, "")
            .map_err(|_| wrong("signature algorithm identifier"))?;
        parts
            .expect(SEQUENCE, "")
            .map_err(|_| wrong("algorithm identifier"))?;
        for name in ["issuer", "validity", "subject", "spki"] {
            tbs.expect(SEQUENCE, "").map_err(|_| wrong(name))?;
        }
        parts
            .expect(BIT_STRING, "")
            .map_err(|_| wrong("signature"))?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn element(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        let content = parts.concat();
        let mut out = vec![tag, u8::try_from(content.len()).unwrap()];
        out.extend(content);
        out
    }

    fn pair(name: &[u8], value: &str) -> Vec<u8> {
        let name = element(OBJECT_IDENTIFIER, &[name.to_vec()]);
        let value = element(0x0c, &[value.as_bytes().to_vec()]);
        element(SET, &[element(SEQUENCE, &[name, value])])
    }

    fn written(subject: &[Vec<u8>]) -> Vec<u8> {
        let algorithm = element(SEQUENCE, &[element(OBJECT_IDENTIFIER, &[vec![0x2a, 0x03]])]);
        let bits = element(BIT_STRING, &[vec![0, 1]]);
        let key = element(SEQUENCE, &[algorithm.clone(), bits.clone()]);
        let version = element(INTEGER, &[vec![0]]);
        let info = element(
            SEQUENCE,
            &[
                version,
                element(SEQUENCE, subject),
                key,
                element(FIRST, &[]),
            ],
        );
        element(SEQUENCE, &[info, algorithm, bits])
    }

    #[test]
    fn a_subject_has_its_organizations() {
        let subject = [
            pair(&[0x55, 0x04, 0x03], "jane"),
            pair(ORGANIZATION, "dev"),
            pair(ORGANIZATION, "ops"),
        ];
        let found = request(&written(&subject)).unwrap();
        assert_eq!(found.organizations, ["dev", "ops"]);
    }

    #[test]
    fn what_is_no_request_is_told_as_go_tells_it() {
        let mut more = written(&[]);
        more.push(0);
        assert_eq!(
            request(&more).unwrap_err(),
            "asn1: syntax error: trailing data"
        );
        assert_eq!(
            request(b"").unwrap_err(),
            "asn1: syntax error: sequence truncated"
        );
        assert_eq!(request(&[0x30, 5, 1]).unwrap_err(), TRUNCATED);
        assert_eq!(
            request(&[2, 1, 0]).unwrap_err(),
            "asn1: structure error: tags don't match (16 vs {class:0 tag:2 length:1 isCompound:false}) {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2"
        );
    }

    #[test]
    fn certificates_are_counted() {
        assert_eq!(certificates(b""), Ok(0));
        assert_eq!(
            certificates(&[2, 1, 0]).unwrap_err(),
            "x509: malformed certificate"
        );
        assert_eq!(
            certificates(&[0x30, 0]).unwrap_err(),
            "x509: malformed tbs certificate"
        );
    }
}
