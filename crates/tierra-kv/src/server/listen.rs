//! Listening on everything that the settings name.

use super::error::ServeError;
use crate::clients::Listener;
use crate::config::Config;

/// Listens on everything that the settings name.
pub(super) fn listen(config: &Config) -> Result<Vec<Listener>, ServeError> {
    let mut listeners = Vec::new();
    if config.port > 0 {
        for address in &config.bind {
            let (address, optional) = match address.strip_prefix('-') {
                Some(address) => (address, true),
                None => (&**address, false),
            };
            let host = match address {
                "*" => "0.0.0.0",
                "::*" => "::",
                host => host,
            };
            match Listener::tcp(host, config.port, config.tcp_backlog) {
                Ok(listener) => listeners.push(listener),
                Err(_) if optional => {}
                Err(error) => {
                    return Err(ServeError::Listen {
                        address: format!("{host} port {}", config.port),
                        error,
                    });
                }
            }
        }
    }
    if let Some(path) = &config.unixsocket {
        let listener = Listener::unix(path, config.unixsocketperm, config.tcp_backlog);
        listeners.push(listener.map_err(|error| ServeError::Listen {
            address: path.display().to_string(),
            error,
        })?);
    }
    if listeners.is_empty() {
        Err(ServeError::Nowhere)
    } else {
        Ok(listeners)
    }
}
