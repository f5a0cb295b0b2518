//! The address of a remote.

use std::fmt;
use std::path::{Path, PathBuf};

use pleach_core::config::normal_path;
use pleach_core::redact::address_secret;

/// The address of a remote, which cannot be taken for an option of git. It is shown without a password.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteUrl(String);

impl RemoteUrl {
    /// The address `text`; a relative path starts from `base`. The error says what is wrong with it.
    pub fn new(text: &str, base: &Path) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".into());
        }
        if text.starts_with('-') {
            return Err("git would take it for an option".into());
        }
        if text.chars().any(char::is_control) {
            return Err("it contains control characters".into());
        }
        if text
            .split_once("::")
            .is_some_and(|(helper, _)| helper.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
        {
            return Err("addresses that name a helper program (`NAME::…`) are not used".into());
        }
        if is_local(text) && !Path::new(text).is_absolute() {
            let path = normal_path(&base.join(text));
            path.into_os_string().into_string().map(Self).map_err(|_| "its path is not UTF-8".into())
        } else {
            Ok(Self(text.to_owned()))
        }
    }

    /// The address as git gets it.
    pub fn as_git(&self) -> &str {
        &self.0
    }

    /// The directory it names, if it is a path.
    pub fn local_path(&self) -> Option<PathBuf> {
        let path = self.0.strip_prefix("file://").unwrap_or(&self.0);
        is_local(path).then(|| path.into())
    }

    /// The host and the path there, without `.git`; none for a path of this machine.
    pub fn host_and_path(&self) -> Option<(String, String)> {
        let (authority, path) = match self.0.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => return None,
            Some((_, rest)) => rest.split_once('/')?,
            None if is_local(&self.0) => return None,
            None => self.0.split_once(':')?,
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        // The port of ssh is none of a web page; that of a web page is needed.
        let is_web = self.0.starts_with("http");
        let host = if is_web { host } else { host.split(':').next()? };
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        (!host.is_empty() && !path.is_empty()).then(|| (host.to_owned(), path.to_owned()))
    }

    /// A text of git's without the password of this address.
    pub fn scrub(&self, text: &str) -> String {
        match address_secret(&self.0) {
            Some(password) => text.replace(password, "…"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scrub(&self.0))
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteUrl({self})")
    }
}

/// Whether git takes it for a path: no scheme, and no `host:` before the first slash.
fn is_local(text: &str) -> bool {
    match (text.find(':'), text.find('/')) {
        (None, _) => true,
        (Some(colon), Some(slash)) => slash < colon,
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<RemoteUrl, String> {
        RemoteUrl::new(text, Path::new("/project"))
    }

    #[test]
    fn addresses_are_shown_without_secrets() {
        for (text, shown) in [
            ("https://me:pw@host/x.git", "https://me:…@host/x.git"),
            ("https://ghp_token@host/x.git", "https://…@host/x.git"),
            ("ssh://git@host/x.git", "ssh://git@host/x.git"),
            ("git@host:org/x.git", "git@host:org/x.git"),
            ("https://host/a@b", "https://host/a@b"),
        ] {
            let url = url(text).expect("an address");
            assert_eq!((url.to_string().as_str(), url.as_git()), (shown, text));
        }
        let url = url("https://me:pw@host/x.git").expect("an address");
        assert_eq!(url.scrub("fatal: unable to access 'https://me:pw@host/x.git/'"), {
            "fatal: unable to access 'https://me:…@host/x.git/'"
        });
    }

    #[test]
    fn addresses_tell_host_and_path() {
        for (text, host) in [
            ("https://me:pw@github.com/org/x.git", Some("github.com")),
            ("https://git.example:8443/org/x", Some("git.example:8443")),
            ("git@gitlab.com:org/x.git", Some("gitlab.com")),
            ("ssh://git@host:2222/org/x.git/", Some("host")),
            ("/srv/x.git", None),
            ("file:///srv/x.git", None),
            ("https://host/", None),
        ] {
            let found = url(text).expect("an address").host_and_path();
            assert_eq!(found, host.map(|host| (host.to_owned(), "org/x".to_owned())), "{text}");
        }
    }

    #[test]
    fn no_address_becomes_an_option_or_a_command() {
        for text in ["", "-x", "--upload-pack=touch /tmp/x", "ext::sh -c x", "fd::3", "https://h/\nx"] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn relative_paths_start_from_the_project() {
        for (text, path) in [
            ("../b.git", Some("/b.git")),
            ("b.git", Some("/project/b.git")),
            ("/srv/b.git", Some("/srv/b.git")),
            ("./a:b", Some("/project/a:b")),
            ("file:///srv/b.git", Some("/srv/b.git")),
            ("host:b.git", None),
            ("https://host/b.git", None),
        ] {
            assert_eq!(url(text).expect("an address").local_path(), path.map(PathBuf::from), "{text}");
        }
    }
}
