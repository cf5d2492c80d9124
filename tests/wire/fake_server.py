"""The server as it is, but with fake hosts: `python fake_server.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fake_hosts import FakeHosts

from indusagi_lsp.lsp.server import create_server
from indusagi_lsp.transport import logs, serve

if __name__ == "__main__":
    log = logs.configure(os.environ.get("LOG", "warning"), None)
    server = create_server(hosts_factory=FakeHosts, approval_seconds=float(os.environ.get("APPROVAL", "600")))
    code = serve.Session(server, *serve.claim_stdio()).run()
    log.close()
    serve.end(code)
