//! Endpoints, proxies, and agents that speak to them.
