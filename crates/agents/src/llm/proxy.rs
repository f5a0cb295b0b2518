//! The proxy for an address by `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, as other programs read them.

use std::net::IpAddr;

use super::http::ServerUrl;
use pleach_core::config::Environment;

/// The proxy variables name for an address, and the variable. Those for one scheme go before those for all, and what is
/// on this machine is never asked for elsewhere.
pub(super) fn from_environment<'e>(environment: &'e Environment, base: &ServerUrl) -> Option<(&'e str, String)> {
    let given = |name: &str| environment.get(name).map(str::trim).filter(|value| !value.is_empty());
    let variable = |name: &str| {
        let names = [name.to_owned(), name.to_ascii_lowercase()];
        names.into_iter().find_map(|name| Some((given(&name)?, name)))
    };
    let scheme = if base.is_tls() { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let proxy = variable(scheme).or_else(|| variable("ALL_PROXY"))?;
    let direct = variable("NO_PROXY").is_some_and(|(list, _)| is_direct(list, base.bare_host(), base.port()));
    (!direct && !is_loopback(base.bare_host())).then_some(proxy)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a list of hosts, domains, addresses and networks names a host.
fn is_direct(list: &str, host: &str, port: u16) -> bool {
    let host = host.to_ascii_lowercase();
    list.split([',', ' ']).map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| names(&entry, &host, port))
}

fn names(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    let address = host.parse::<IpAddr>().ok();
    if let Some((network, bits)) = entry.split_once('/') {
        let network = network.trim_matches(['[', ']']).parse().ok().zip(bits.parse().ok());
        return address.zip(network).is_some_and(|(address, (network, bits))| is_within(address, network, bits));
    }
    if let Ok(one) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(one);
    }
    let (entry, wanted) = match entry.rsplit_once(':').map(|(entry, port)| (entry, port.parse::<u16>())) {
        Some((entry, Ok(port))) => (entry, Some(port)),
        _ => (entry, None),
    };
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let domain = entry.trim_start_matches("*.").trim_start_matches('.').trim_matches(['[', ']']);
    let is_below = || host.strip_suffix(domain).is_some_and(|above| above.ends_with('.'));
    !domain.is_empty() && (host == domain || is_below())
}

/// Whether an address is one of a network of so many bits.
fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (address, network, length) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    // All bits but those of the network are anything.
    let shift = |bits: u128, by: u32| bits.checked_shr(by).unwrap_or(0);
    bits <= length && shift(address, length - bits) == shift(network, length - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_variables_and_no_proxy_are_honoured() {
        let environment = |no: &str| {
            let pairs = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "p:2"), ("NO_PROXY", no)];
            Environment::from_pairs(pairs)
        };
        let proxy = |no: &str, base: &str| {
            let (environment, base) = (environment(no), ServerUrl::parse(base).unwrap());
            from_environment(&environment, &base).map(|(proxy, name)| format!("{name}={proxy}"))
        };
        assert_eq!(proxy("", "https://api.example.org").as_deref(), Some("HTTPS_PROXY=http://s:1"));
        assert_eq!(proxy("", "http://api.example.org").as_deref(), Some("http_proxy=p:2"));
        for here in ["http://localhost:1", "https://127.0.0.3", "http://[::1]:8"] {
            assert_eq!(proxy("", here), None, "{here}");
        }
        for no in ["example.org", ".example.org", "*.example.org", "x, API.example.org", "*", "api.example.org:443"] {
            assert_eq!(proxy(no, "https://api.example.org"), None, "{no}");
        }
        for no in ["ample.org", "example.com", "api.example.org:80", "10.0.0.0/8", ""] {
            assert!(proxy(no, "https://api.example.org").is_some(), "{no}");
        }
        for (no, direct) in [("10.0.0.0/8", true), ("10.1.2.3", true), ("10.1.2.0/31", false), ("0.0.0.0/0", true)] {
            assert_eq!(proxy(no, "https://10.1.2.3").is_none(), direct, "{no}");
        }
        assert_eq!(proxy("fd00::/8", "https://[fd12::1]"), None);
        let all = Environment::from_pairs([("all_proxy", "http://a:3")]);
        assert_eq!(
            from_environment(&all, &ServerUrl::parse("https://h").unwrap()),
            Some(("http://a:3", "all_proxy".into()))
        );
    }
}
