//! Lists that grow with the run and are repeated in every checkpoint.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// A list or map, possibly as its JSON text. The large parts of a checkpoint are encoded once and then copied into the
/// record and to listeners.
#[derive(Clone)]
pub struct PreEncoded<T>(Encoding<T>);

#[derive(Clone)]
enum Encoding<T> {
    Value(T),
    Text(Box<RawValue>),
}

impl<T: Serialize> PreEncoded<Vec<T>> {
    /// A list.
    pub fn list(items: &[T]) -> Self {
        Self(Encoding::Text(raw(&items)))
    }
}

impl<K: Serialize, V: Serialize> PreEncoded<BTreeMap<K, V>> {
    /// A map, of its entries in order.
    pub fn map<'a, W: Borrow<V> + Serialize>(entries: impl Iterator<Item = (&'a K, W)> + Clone) -> Self
    where
        K: 'a,
    {
        Self(Encoding::Text(raw(&Entries(entries))))
    }
}

impl<T: Serialize> PreEncoded<T> {
    /// Whether it is this value.
    pub fn says(&self, value: &T) -> bool {
        *self.text() == *raw(value).get()
    }

    fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Encoding::Value(value) => Cow::Owned(raw(value).get().to_owned()),
            Encoding::Text(text) => Cow::Borrowed(text.get()),
        }
    }
}

impl<T: DeserializeOwned + Clone> PreEncoded<T> {
    /// The value.
    pub fn value(&self) -> T {
        match &self.0 {
            Encoding::Value(value) => value.clone(),
            Encoding::Text(text) => serde_json::from_str(text.get()).expect("it is the text of such a value"),
        }
    }
}

impl<K: DeserializeOwned + Ord, V: DeserializeOwned + Clone> PreEncoded<BTreeMap<K, V>> {
    /// One value of a map, without a copy of the others.
    pub fn get(&self, key: &K) -> Option<V> {
        match &self.0 {
            Encoding::Value(map) => map.get(key).cloned(),
            Encoding::Text(text) => {
                let mut map: BTreeMap<K, V> = serde_json::from_str(text.get()).expect("it is the text of such a value");
                map.remove(key)
            }
        }
    }
}

impl<T> From<T> for PreEncoded<T> {
    fn from(value: T) -> Self {
        Self(Encoding::Value(value))
    }
}

impl<T: Default> Default for PreEncoded<T> {
    fn default() -> Self {
        T::default().into()
    }
}

impl<T: Serialize> PartialEq for PreEncoded<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl<T: Serialize> fmt::Debug for PreEncoded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl<T: Serialize> Serialize for PreEncoded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Encoding::Value(value) => value.serialize(serializer),
            Encoding::Text(text) => text.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PreEncoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// Entries that are written as a map.
struct Entries<I>(I);

impl<'a, K: Serialize + 'a, V: Serialize, I: Iterator<Item = (&'a K, V)> + Clone> Serialize for Entries<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.clone())
    }
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("ids, statuses and numbers always serialise, and ids are text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_are_the_same() {
        let map: BTreeMap<String, u32> = [("a".into(), 1), ("b \"".into(), 2)].into();
        let written = PreEncoded::map(map.iter().map(|(key, value)| (key, *value)));
        assert!(written.says(&map) && written == map.clone().into() && written.value() == map);
        assert_eq!(serde_json::to_string(&written).unwrap(), serde_json::to_string(&map).unwrap());
        assert_eq!(serde_json::to_value(&written).unwrap(), serde_json::to_value(&map).unwrap());
        let (first, none) = ("a".to_owned(), "c".to_owned());
        assert_eq!([written.get(&first), written.get(&none)], [Some(1), None]);
        assert_eq!(PreEncoded::from(map).get(&first), Some(1));
        let list = vec![3, 4];
        let written = PreEncoded::list(&list);
        assert!(written.says(&list) && !written.says(&vec![3]) && written != Vec::new().into());
        assert_eq!(serde_json::from_str::<PreEncoded<Vec<u32>>>("[3, 4]").unwrap(), written);
    }
}
