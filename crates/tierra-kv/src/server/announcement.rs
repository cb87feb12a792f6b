//! The log messages at startup: where the server is reached, what is not kept, and which settings are ignored.

use super::Server;
use crate::clients::Listener;

impl Server {
    /// Lines to print as it starts.
    pub fn announcement(&self) -> Vec<String> {
        let config = &self.shared.config;
        let places: Vec<String> = self.listeners.iter().map(Listener::place).collect();
        let mut lines = vec![format!(
            "serving records on {}; nothing of them is kept on disk",
            places.join(", ")
        )];
        if !config.ignored.is_empty() {
            lines.push(format!(
                "ignored settings, which mean nothing here: {}",
                config.ignored.join(", ")
            ));
        }
        if config.maxclients < self.clients_wanted {
            lines.push(format!(
                "{} clients at most instead of the {} of maxclients: raise the limit of open files (ulimit -n)",
                config.maxclients, self.clients_wanted
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_server_says_where_it_is_and_what_it_does_not_heed() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, file) = (folder.path().join("kv.sock"), folder.path().join("kv.conf"));
        let text = "dir /var/lib/redis\nappendfsync everysec\nDIR /tmp\n";
        std::fs::write(&file, text).unwrap();
        let words = ["--config", file.to_str().unwrap(), "--port", "0"];
        let socket_words = ["--unixsocket", socket.to_str().unwrap()];
        let words = words.into_iter().chain(socket_words).map(String::from);
        let server = Server::bind(Config::from_arguments(words).unwrap()).unwrap();
        let place = socket.display();
        let expected = [
            format!("serving records on {place}; nothing of them is kept on disk"),
            "ignored settings, which mean nothing here: dir, appendfsync".into(),
        ];
        assert_eq!(server.announcement()[..2], expected);
    }

    #[test]
    fn addresses_are_told_with_their_ports() {
        // A port that is free now, most likely: another is tried where it is not.
        let server = (0..100).find_map(|_| {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let bind = vec!["127.0.0.1".into()];
            let config = Config {
                port,
                bind,
                ..Config::default()
            };
            Some((port, Server::bind(config).ok()?))
        });
        let (port, server) = server.expect("one of a hundred ports is free");
        let line = server.announcement().remove(0);
        let start = format!("serving records on 127.0.0.1:{port}; ");
        assert!(line.starts_with(&start), "{line}");
    }
}
