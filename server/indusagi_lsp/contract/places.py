"""Where the user's own files are: configuration, state and caches, never inside a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

APP = "indusagi"
HOME_VARIABLE = "INDUSAGI_LSP_HOME"


class Places(msgspec.Struct, frozen=True):
    """The user's folders. `config` holds `config.toml`, `state` the signing key, `cache` what can be made again."""

    config: Path
    state: Path
    cache: Path
    data: Path

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return self.config / "config.toml"


def user_places(environ: Mapping[str, str]) -> Places:
    """The folders of this user.

    Args:
        environ: the environment; `INDUSAGI_LSP_HOME` names one folder that holds all of them, as tests and portable
            installations want it.

    Returns:
        Paths that need not exist yet.
    """
    home = environ.get(HOME_VARIABLE)
    if home:
        root = Path(home).expanduser()
        return Places(root / "config", root / "state", root / "cache", root / "data")
    import platformdirs

    return Places(
        platformdirs.user_config_path(APP, appauthor=False),
        platformdirs.user_state_path(APP, appauthor=False),
        platformdirs.user_cache_path(APP, appauthor=False),
        platformdirs.user_data_path(APP, appauthor=False),
    )
