//! How settings are written down: a struct with its meaning and defaults, an enum with its words. Reading, listing and
//! recording follow from that one place.

/// A struct of settings: its fields with their meaning and default, in one place.
macro_rules! section {
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr,)+
    } $(beside { $($(#[doc = $beside_doc:literal])+ $beside:ident: $beside_type:ty,)+ })?) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)+
            $($($(#[doc = $beside_doc])+ #[serde(skip)] pub $beside: $beside_type,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ $($($beside: Default::default(),)+)? }
            }
        }

        impl $name {
            /// The names of its keys.
            pub(crate) const FIELDS: &[&str] = &[$(stringify!($field)),+];
        }

        impl $crate::config::read::Setting for $name {
            fn read(
                node: &$crate::config::node::ConfigNode,
                reading: &mut $crate::config::read::ReadContext<'_>,
            ) -> Option<Self> {
                let fields = $crate::config::read::SectionFields::open(node, Self::FIELDS, reading)?;
                let mut value = Self::default();
                $(if let Some(given) = fields.take(stringify!($field), reading) {
                    value.$field = given;
                })+
                Some(value)
            }

            fn takes() -> String {
                "a section".to_owned()
            }

            fn keys(path: &str, _: &str, _: serde_json::Value, out: &mut Vec<$crate::config::read::SettingKey>) {
                let value = Self::default();
                $({
                    let below = if path.is_empty() { String::new() } else { format!("{path}.") };
                    let default = serde_json::to_value(&value.$field).unwrap_or_default();
                    <$type as $crate::config::read::Setting>::keys(
                        &(below + stringify!($field)),
                        concat!($($doc),+),
                        default,
                        out,
                    );
                })+
            }

            fn each_text(value: &mut serde_json::Value, visit: &mut dyn FnMut(&mut String)) {
                let serde_json::Value::Object(fields) = value else {
                    return $crate::config::read::each_string(value, visit);
                };
                for (key, value) in fields {
                    match key.as_str() {
                        $(stringify!($field) => <$type as $crate::config::read::Setting>::each_text(value, visit),)+
                        _ => $crate::config::read::each_string(value, visit),
                    }
                }
            }
        }
    };
}

/// An enum of settings: its words, the first of which is the default.
macro_rules! choice {
    ($(#[doc = $about:literal])+ $name:ident {
        $(#[doc = $first_doc:literal])+ $first:ident = $first_word:literal,
        $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)*
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[doc = $first_doc])+ #[default] #[serde(rename = $first_word)] $first,
            $($(#[doc = $doc])+ #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every word, as written in configuration.
            pub const WORDS: &[&str] = &[$first_word, $($word),*];

            /// The word for this value.
            pub fn as_str(self) -> &'static str {
                match self { Self::$first => $first_word, $(Self::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::config::read::Setting for $name {
            fn read(
                node: &$crate::config::node::ConfigNode,
                reading: &mut $crate::config::read::ReadContext<'_>,
            ) -> Option<Self> {
                match $crate::config::read::word(node, Self::WORDS, reading)? {
                    $first_word => Some(Self::$first),
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn takes() -> String {
                Self::WORDS.join(" | ")
            }

            fn each_text(value: &mut serde_json::Value, visit: &mut dyn FnMut(&mut String)) {
                if value.as_str().is_none_or(|word| !Self::WORDS.contains(&word)) {
                    $crate::config::read::each_string(value, visit);
                }
            }
        }
    };
}

pub(super) use {choice, section};
