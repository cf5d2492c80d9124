"""One host per workspace folder: settings, trust, the conductors by session, and the stream of their events."""
