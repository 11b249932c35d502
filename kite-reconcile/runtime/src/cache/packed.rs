//! Objects in little memory.
//!
//! A Kubernetes object as a Rust value is several kilobytes of small
//! allocations, and the objects that one controller makes differ in little more
//! than names. Packed, an object is its JSON, compressed with other objects of
//! its kind as the dictionary: a few hundred bytes, unpacked in microseconds.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kite_cluster::{Object, ObjectKey};
use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use parking_lot::{Mutex, RwLock};

use super::table::version;

/// How many objects make a dictionary: a kind has a handful of shapes.
const SAMPLES: usize = 6;
/// Bytes that a dictionary has at most; LZ4 looks back 64 KiB.
const LARGEST: usize = 24 * 1024;
/// A new dictionary is made when this many times as many objects were packed as
/// before the last one: those that came first are seldom like the many.
const GROWTH: u64 = 8;
/// Dictionaries of a kind at most. Each is made of a multiple of the objects
/// before the last: there will never be more objects than for a dozen.
const DICTIONARIES: usize = 12;

/// Objects of a kind that are kept unpacked, too: some megabytes for all kinds.
const WARM: usize = 512;

/// An object that could not be unpacked. It cannot be: what was packed had been
/// read as the same type before.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("the compressed form is damaged: {0}")]
    Damaged(#[from] lz4_flex::block::DecompressError),
    #[error("the JSON form cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

/// One object.
pub(super) struct Packed<K> {
    version: Option<NonZeroU64>,
    /// Tells objects of the same name apart.
    identity: u64,
    /// Tells it from all that were ever packed here, versions aside: these begin
    /// anew where a cluster is restored from a backup.
    serial: u64,
    form: Form<K>,
}

enum Form<K> {
    /// Compressed JSON, of this length, with the dictionary of this number.
    Small {
        bytes: Box<[u8]>,
        length: u32,
        dictionary: u8,
    },
    /// As it came: there is no JSON of it.
    Whole(Arc<K>),
}

impl<K> Packed<K> {
    /// The version; none if it is no number.
    pub(super) fn version(&self) -> Option<u64> {
        self.version.map(NonZeroU64::get)
    }

    /// The [`identity`] of the object.
    pub(super) fn identity(&self) -> u64 {
        self.identity
    }
}

/// A digest of an object's uid: equal in what is the same object.
pub(super) fn identity<K: Object>(object: &K) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.meta().uid.hash(&mut hasher);
    hasher.finish()
}

impl<K> Packed<K> {
    /// Its bytes, if it is small.
    pub(super) fn size(&self) -> usize {
        match &self.form {
            Form::Small { bytes, .. } => bytes.len(),
            Form::Whole(_) => 0,
        }
    }
}

/// All objects of a kind, packed, by their keys.
pub(super) type Shelf<K> = HashMap<Arc<ObjectKey>, Packed<K>>;

/// The objects of one kind.
pub(super) struct PackedStore<K> {
    pub(super) of: RwLock<Shelf<K>>,
    press: Mutex<Press>,
    /// Dictionaries stay for as long as the store: which objects still need
    /// which is not counted.
    dictionaries: RwLock<Vec<Arc<[u8]>>>,
    serials: AtomicU64,
    warm: Mutex<Warm<K>>,
}

/// Objects that came or were read lately, as they are: who reads an object once
/// reads it again soon, and unpacking is most of what a read costs.
struct Warm<K> {
    of: HashMap<ObjectKey, (u64, Arc<K>)>,
    /// In the order in which they came.
    order: VecDeque<ObjectKey>,
}

impl<K> Warm<K> {
    fn get(&self, key: &ObjectKey, serial: u64) -> Option<Arc<K>> {
        let (known, object) = self.of.get(key)?;
        (*known == serial).then(|| Arc::clone(object))
    }

    fn put(&mut self, key: &ObjectKey, serial: u64, object: Arc<K>) {
        match self.of.get_mut(key) {
            // A read may end after the next object has come.
            Some((known, _)) if *known > serial => {}
            Some(known) => *known = (serial, object),
            None => {
                self.of.insert(key.clone(), (serial, object));
                self.order.push_back(key.clone());
                if self.order.len() > WARM
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.of.remove(&oldest);
                }
            }
        }
    }
}

/// What the next dictionary is made of, and when.
struct Press {
    packed: u64,
    next: u64,
    samples: VecDeque<Vec<u8>>,
}

impl<K> Default for PackedStore<K> {
    fn default() -> Self {
        Self {
            of: RwLock::default(),
            press: Mutex::new(Press {
                packed: 0,
                next: 2,
                samples: VecDeque::new(),
            }),
            dictionaries: RwLock::new(vec![Arc::from([])]),
            serials: AtomicU64::new(0),
            warm: Mutex::new(Warm {
                of: HashMap::new(),
                order: VecDeque::new(),
            }),
        }
    }
}

impl<K: Object> PackedStore<K> {
    /// Packs an object that will be read soon.
    pub(super) fn pack_warm(&self, object: &K) -> Packed<K> {
        let packed = self.pack(object);
        let (key, kept) = (ObjectKey::of(object), Arc::new(object.clone()));
        self.warm.lock().put(&key, packed.serial, kept);
        packed
    }

    /// Packs an object.
    pub(super) fn pack(&self, object: &K) -> Packed<K> {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let version = version(object).and_then(NonZeroU64::new);
        let form = match serde_json::to_vec(object) {
            Ok(json) => self.press(json),
            Err(_) => Err(()),
        };
        Packed {
            version,
            identity: identity(object),
            serial,
            form: form.unwrap_or_else(|()| Form::Whole(Arc::new(object.clone()))),
        }
    }

    fn press(&self, json: Vec<u8>) -> Result<Form<K>, ()> {
        let length = u32::try_from(json.len()).map_err(|_| ())?;
        let (number, dictionary) = {
            let all = self.dictionaries.read();
            let number = all.len().saturating_sub(1);
            (number, all.last().cloned().ok_or(())?)
        };
        let bytes = compress_with_dict(&json, &dictionary).into_boxed_slice();
        if let Some(sample) = sample::<K>(json) {
            self.learn(sample);
        }
        Ok(Form::Small {
            bytes,
            length,
            dictionary: u8::try_from(number).map_err(|_| ())?,
        })
    }

    /// Takes an object into the samples, and makes a new dictionary of them if it
    /// is time.
    fn learn(&self, json: Vec<u8>) {
        let mut press = self.press.lock();
        press.packed += 1;
        press.samples.push_back(json);
        if press.samples.len() > SAMPLES {
            press.samples.pop_front();
        }
        if press.packed < press.next {
            return;
        }
        press.next = press.next.saturating_mul(GROWTH);
        let mut dictionary = Vec::new();
        for sample in press.samples.iter().rev() {
            if dictionary.len() + sample.len() <= LARGEST {
                dictionary.extend_from_slice(sample);
            }
        }
        let mut all = self.dictionaries.write();
        if all.len() < DICTIONARIES {
            all.push(dictionary.into());
        }
    }

    /// The object.
    pub(super) fn unpack(&self, packed: &Packed<K>) -> Result<Arc<K>, Unreadable> {
        match &packed.form {
            Form::Whole(object) => Ok(Arc::clone(object)),
            Form::Small {
                bytes,
                length,
                dictionary,
            } => {
                let dictionary = {
                    let all = self.dictionaries.read();
                    all.get(usize::from(*dictionary)).cloned()
                };
                let dictionary = dictionary.unwrap_or_default();
                let length = usize::try_from(*length).unwrap_or(usize::MAX);
                let json = decompress_with_dict(bytes, length, &dictionary)?;
                Ok(Arc::new(serde_json::from_slice(&json)?))
            }
        }
    }

    /// Puts the objects of a new list in the place of all that there were, which
    /// it gives back.
    pub(super) fn replace(&self, all: Shelf<K>) -> Shelf<K> {
        let before = std::mem::replace(&mut *self.of.write(), all);
        let mut warm = self.warm.lock();
        warm.of.clear();
        warm.order.clear();
        before
    }

    /// The object with this key is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.of.write().remove(key);
        self.warm.lock().of.remove(key);
    }

    /// The object with this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
        let all = self.of.read();
        let Some(packed) = all.get(key) else {
            return Ok(None);
        };
        if let Some(object) = self.warm.lock().get(key, packed.serial) {
            return Ok(Some(object));
        }
        let object = self.unpack(packed)?;
        self.warm
            .lock()
            .put(key, packed.serial, Arc::clone(&object));
        Ok(Some(object))
    }
}

/// What may be kept of an object for as long as the process lives: all but what
/// is secret.
fn sample<K: Object>(json: Vec<u8>) -> Option<Vec<u8>> {
    if K::kind(&()) != "Secret" {
        return Some(json);
    }
    let mut secret: serde_json::Value = serde_json::from_slice(&json).ok()?;
    for field in ["data", "stringData"] {
        let values = secret.get_mut(field).and_then(|data| data.as_object_mut());
        for value in values.into_iter().flat_map(|data| data.values_mut()) {
            *value = serde_json::Value::Null;
        }
    }
    serde_json::to_vec(&secret).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::core::v1::{Secret, Service};
    use serde_json::json;

    use super::*;

    fn service(number: usize) -> Service {
        serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": format!("service-{number}"),
                "namespace": format!("namespace-{}", number / 10),
                "uid": format!("{:032x}", number * 7919),
                "resourceVersion": (1000 + number).to_string(),
                "labels": {"app.kubernetes.io/name": format!("app-{number}"), "app.kubernetes.io/part-of": "shop"},
            },
            "spec": {
                "type": "ClusterIP",
                "clusterIP": format!("10.0.{}.{}", number / 250, number % 250),
                "ports": [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": "web"}],
                "selector": {"app.example.org/name": format!("app-{number}")},
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let store = PackedStore::default();
        let packed: Vec<_> = (1..2000)
            .map(|number| (number, store.pack(&service(number))))
            .collect();
        for (number, packed) in &packed {
            assert_eq!(*store.unpack(packed).unwrap(), service(*number));
            assert_eq!(packed.version(), Some(1000 + *number as u64));
        }
        assert!(store.dictionaries.read().len() > 3);
    }

    #[test]
    fn what_is_read_is_what_came_last() {
        let store = PackedStore::default();
        let of = |number| ObjectKey::of(&service(number));
        for number in 0..2 * WARM {
            let packed = store.pack(&service(number));
            store.of.write().insert(Arc::new(of(number)), packed);
            assert_eq!(*store.get(&of(number)).unwrap().unwrap(), service(number));
        }
        let warm = |number| store.warm.lock().of.contains_key(&of(number));
        assert!(!warm(0) && warm(2 * WARM - 1));
        assert_eq!(store.warm.lock().order.len(), WARM);
        // Another object of the same version, and one that nobody reads by then.
        let mut other = service(7);
        other.metadata.uid = Some("another".to_owned());
        for packed in [store.pack(&other), store.pack_warm(&other)] {
            store.of.write().insert(Arc::new(of(7)), packed);
            assert_eq!(*store.get(&of(7)).unwrap().unwrap(), other);
        }
        store.of.write().remove(&of(7));
        assert!(store.get(&of(7)).unwrap().is_none());
    }

    #[test]
    fn no_secret_outlives_its_object() {
        let (store, value) = (PackedStore::default(), "c2VjcmV0IHNlY3JldCBzZWNyZXQ=");
        for number in 0..100 {
            let secret: Secret = serde_json::from_value(json!({
                "metadata": {"name": format!("secret-{number}"), "namespace": "dev"},
                "data": {"id_ed25519": value},
            }))
            .unwrap();
            let packed = store.pack(&secret);
            assert_eq!(*store.unpack(&packed).unwrap(), secret);
        }
        let press = store.press.lock();
        let dictionaries = store.dictionaries.read();
        assert!(dictionaries.len() > 1);
        let kept = dictionaries.iter().map(|it| &**it);
        for kept in kept.chain(press.samples.iter().map(Vec::as_slice)) {
            assert!(!String::from_utf8_lossy(kept).contains(value));
        }
    }

    #[test]
    fn objects_that_are_alike_take_little() {
        let store = PackedStore::default();
        for number in 0..100 {
            store.pack(&service(number));
        }
        let json = serde_json::to_vec(&service(100)).unwrap().len();
        let packed = match store.pack(&service(100)).form {
            Form::Small { bytes, .. } => bytes.len(),
            Form::Whole(_) => json,
        };
        assert!(packed * 3 < json, "{packed} of {json}");
    }

    #[test]
    fn the_number_of_dictionaries_is_bounded() {
        let store = PackedStore::<Service>::default();
        store.press.lock().packed = u64::MAX / 2;
        for number in 0..50 {
            let packed = store.pack(&service(number));
            assert_eq!(*store.unpack(&packed).unwrap(), service(number));
        }
        assert_eq!(store.dictionaries.read().len(), DICTIONARIES);
    }
}
